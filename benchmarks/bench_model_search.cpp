// What a network with a checkpoint is worth in a live search, on the operators that MetaSchedule was judged by, in the
// wide design space or the default one (--space), on one thread. The checkpoint has not seen these operators' networks.
// The network's search begins as `tcc tune` does: in the wide space with constructed programs. That with trees does
// not.
//
// "<operator>.no_trial": the program that the network picks without measuring, as a share of the speed of the best
// known, which is the best of all runs; beside the pick of the target's prior.
// "<operator>.trials": after how many trials the search with the network has what the search with trees has after all
// of its trials (--trials, 64 here); one more than all where it never has it.
// "<operator>.after": speed after all trials, beside trees. "<operator>.learning": the share of the search's time for
// proposing and learning. All are means over three seeds; speeds, trials and shares of operators are geometric means.
//
// With --keep FILE an operator's values are kept there when its searches have ended, and a later call takes them from
// there, as long as machine, checkpoint and settings are the same. --budget MIN: then no further operator is begun.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench.h"
#include "bench_measurer.h"
#include "op_bench.h"
#include "recorded_units.h"
#include "search_curve.h"
#include "tcc/cost/shipped_checkpoints.h"
#include "tcc/driver/compile.h"
#include "tcc/support/hash.h"
#include "tcc/target/probe.h"

namespace tcc::benchmarks {
namespace {

constexpr uint64_t kModelSeeds = 3;
constexpr int64_t kModelTrials = 64;

struct ModelRun {
  std::vector<double> best;  // after each trial; HUGE_VAL: nothing ran yet
  double learning = 0;       // share of the search's time
};

std::vector<double> best_after_each(std::span<const record::Record> records, int64_t trials) {
  const Curve curve = curve_of(records, {}, 0);
  std::vector<double> out;
  for (int64_t n = 1; n <= trials; ++n) out.push_back(value_after(curve, static_cast<double>(n)));
  return out;
}

class ModelSearch {
 public:
  using Values = RecordedUnits::Values;

  // `kept`: values of operators; nullptr: none are kept.
  ModelSearch(measure::IsolatedHostMeasurer& machine, std::string network, RecordedUnits* kept, std::vector<Row>& rows)
      : machine_(machine), network_(std::move(network)), kept_(kept), rows_(rows) {
    space_.metaschedule = options().space == space::kWideSpace;
  }

  // Adds the operator's rows, of kept values or of searches. Without them where the budget is spent.
  Result<void> run(const OpCase& c) {
    const uint64_t inputs = settings_hash();
    std::optional<Values> values;
    if (kept_ != nullptr) values = kept_->find(c.name, inputs);
    if (!values && options().budget > 0 && watch_.seconds() >= options().budget * 60) {
      left_.push_back(c.name);
      return {};
    }
    if (!values) {
      const Stopwatch watch;
      TCC_TRY(values, search_case(c));
      if (kept_ != nullptr) TCC_TRY_VOID(kept_->keep(c.name, inputs, *values, watch.seconds()));
    }
    add_rows(c.name, *values);
    for (const auto& [name, value] : *values) sums_[name] += value;
    ++operators_;
    return {};
  }

  void add_means() {
    if (operators_ == 0) return;
    Values means = sums_;
    for (auto& [name, value] : means) value /= operators_;
    add_rows("mean", means);
  }

  // Operators for which the time did not suffice.
  const std::vector<std::string>& left() const { return left_; }

 private:
  // Of everything that values depend on beside the operator.
  uint64_t settings_hash() const {
    uint64_t hash = hash_bytes(network_ + " " + options().space + " " + target::platform_text(host_));
    hash = combine_hash(hash, hash_bytes(driver::tool_version()));
    hash = combine_hash(combine_hash(hash, static_cast<uint64_t>(trials_)), kModelSeeds);
    hash = combine_hash(hash, static_cast<uint64_t>(search::default_constructed(host_, space_)));
    if (const auto* shipped = cost::find_shipped_checkpoint(network_, features::kTraceCpu))
      hash = combine_hash(hash, hash_bytes(shipped->bytes));
    return hash;
  }

  // Logarithms of shares, trials, speed and ratio; learning is a share.
  Result<Values> search_case(const OpCase& c) {
    TCC_TRY(const std::vector<task::Task> tasks, case_tasks(c));
    const task::Task& task =
        *std::max_element(tasks.begin(), tasks.end(), [](const auto& x, const auto& y) { return x.flops < y.flops; });
    TCC_TRY(prepared_, machine_.prepare(task.kernel, host_));
    std::vector<ModelRun> networks, trees;
    for (uint64_t seed = 1; seed <= kModelSeeds; ++seed) {
      TCC_TRY(ModelRun by_network, search(task, network_, true, seed));
      TCC_TRY(ModelRun by_trees, search(task, "trees", false, seed));
      networks.push_back(std::move(by_network)), trees.push_back(std::move(by_trees));
    }
    TCC_TRY(const double picked, pick(task, network_));
    TCC_TRY(const double by_prior, pick(task, "prior"));
    std::fprintf(stderr, "model-search: %s, without trials: %s picks %.4g us, rules %.4g us\n", task.workload.c_str(),
                 network_.c_str(), picked * 1e6, by_prior * 1e6);
    double best = std::min(picked, by_prior);
    for (const auto* runs : {&networks, &trees})
      for (const ModelRun& r : *runs) best = std::min(best, r.best.back());
    double trials = 0, ratio = 0, speed = 0, learning = 0;
    for (size_t s = 0; s < kModelSeeds; ++s) {
      const std::vector<double>& curve = networks[s].best;
      const auto reached =
          std::find_if(curve.begin(), curve.end(), [&](double t) { return t <= trees[s].best.back(); });
      trials += std::log(static_cast<double>(reached - curve.begin() + 1)) / kModelSeeds;
      ratio += std::log(trees[s].best.back() / curve.back()) / kModelSeeds;
      speed += std::log(best / curve.back()) / kModelSeeds;
      learning += networks[s].learning / kModelSeeds;
    }
    return Values{{"share", std::log(best / picked)},
                  {"rules", std::log(best / by_prior)},
                  {"trials", trials},
                  {"speed", speed},
                  {"ratio", ratio},
                  {"learning", learning}};
  }

  void add_rows(const std::string& name, const Values& values) {
    const auto of = [&](const char* key) { return values.at(key); };
    rows_.push_back({name + ".no_trial", std::exp(of("share")), "of the best", "rules", std::exp(of("rules")),
                     std::exp(of("share") - of("rules"))});
    rows_.push_back({name + ".trials", std::exp(of("trials")), fmt::format("of {}", trials_), "", 0, 0});
    rows_.push_back({name + ".after", std::exp(of("speed")), "of the best", "trees",
                     std::exp(of("speed") - of("ratio")), std::exp(of("ratio"))});
    rows_.push_back({name + ".learning", of("learning"), "of the time", "", 0, 0});
  }

  Result<ModelRun> search(const task::Task& task, const std::string& model, bool pretrained, uint64_t seed) {
    TCC_TRY(auto store, record::Store::open(":memory:"));
    search::TuneOptions tune;
    tune.trials = trials_;
    tune.seed = seed;
    tune.space = space_;
    tune.cost_model = model;
    if (pretrained) {
      tune.pretrained = std::string(cost::kShipped);
      tune.constructed = search::default_constructed(host_, space_);
    }
    tune.finals = false;
    BenchMeasurer measurer(machine_, [this](const ir::Kernel&) { return prepared_; });
    const search::Environment environment{.store = store.get(), .measurer = &measurer, .pool = &pool_};
    TCC_TRY(const search::TuneResult result, search::tune({&task, 1}, host_, tune, environment));
    if (!result.tasks.at(0).failure.empty()) return environment_error("{}", result.tasks[0].failure);
    TCC_TRY(const std::vector<record::Record> records, store->all(search::task_hash(task)));
    ModelRun run{best_after_each(records, trials_), (result.phases.propose + result.phases.learn) / result.seconds};
    std::fprintf(
        stderr,
        "model-search: %s, %s, seed %d: best %.4g us of %.4g us after 8, %.1f s (proposing %.2f, learning %.2f)\n",
        task.workload.c_str(), model.c_str(), static_cast<int>(seed), run.best.back() * 1e6,
        run.best[std::min<size_t>(7, run.best.size() - 1)] * 1e6, result.seconds, result.phases.propose,
        result.phases.learn);
    return run;
  }

  // Seconds of the program that a model picks without measuring.
  Result<double> pick(const task::Task& task, const std::string& model) {
    TCC_TRY(search::ChosenArtifact chosen,
            search::best_artifact(task, host_, nullptr, 1, "bench", {}, {space_, model}));
    measure::Candidate candidate;
    candidate.task = prepared_.get();
    candidate.artifact = std::make_shared<const codegen::Artifact>(std::move(chosen.artifact));
    TCC_TRY(const std::vector<measure::Measurement> measured, machine_.measure({&candidate, 1}));
    if (measured.at(0).status != record::Status::kOk) return environment_error("{}", measured[0].failure);
    return measured[0].median;
  }

  const target::Target host_ = target::host_target();
  measure::IsolatedHostMeasurer& machine_;
  const std::string network_;
  RecordedUnits* const kept_;
  std::vector<Row>& rows_;
  const int64_t trials_ = options().trials_given ? options().trials : kModelTrials;
  space::SpaceOptions space_ = {};
  ThreadPool pool_{static_cast<int>(usable_cpus().size())};
  std::shared_ptr<const measure::MeasureTask> prepared_;  // of the operator at hand
  Values sums_;
  int operators_ = 0;
  std::vector<std::string> left_;
  const Stopwatch watch_;
};

Result<std::vector<Row>> run_model_search() {
  std::vector<Row> rows;
  measure::HostMeasureOptions measure_options;
  measure_options.worker_path = TCC_WORKER_PATH;
  TCC_TRY(auto machine, measure::IsolatedHostMeasurer::create(measure_options));
  std::optional<RecordedUnits> kept;
  if (!options().keep.empty()) {
    TCC_TRY(kept, RecordedUnits::open(options().keep));
  }
  ModelSearch bench(*machine, options().model, kept ? &*kept : nullptr, rows);
  for (const OpCase& c : metaschedule_cases())
    if (wanted(c.name)) TCC_TRY_VOID(bench.run(c));
  bench.add_means();
  if (!bench.left().empty())
    std::fprintf(stderr, "model-search: the time was spent before %s\n",
                 fmt::format("{}{}", fmt::join(bench.left(), ", "),
                             kept ? "; the same call goes on from there" : "; with --keep FILE a later call goes on")
                     .c_str());
  if (rows.empty() && bench.left().empty())
    return make_error(ErrorClass::kUsage, "no operator has any of the words of --only in its name",
                      "names are as C1D and GMM");
  return rows;
}

}  // namespace

std::vector<Row> run_model_search_suite(double) {
  Result<std::vector<Row>> rows = run_model_search();
  if (rows) return *rows;
  std::fprintf(stderr, "model-search: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
  return {{"model-search", 0, "", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
