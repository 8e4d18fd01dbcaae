// What a network with a checkpoint is worth in a live search, on the operators that MetaSchedule was judged by, in the
// wide design space or the default one (--space), on one thread. The checkpoint has not seen these operators' networks.
//
// "<operator>.no_trial": the program that the network picks without measuring, as a share of the speed of the best
// known, which is the best of all runs; beside the pick of the target's prior.
// "<operator>.trials": after how many trials the search with the network has what the search with trees has after all
// of its trials (--trials, 64 here); one more than all where it never has it.
// "<operator>.after": speed after all trials, beside trees. "<operator>.learning": the share of the search's time for
// proposing and learning. All are means over three seeds; speeds, trials and shares of operators are geometric means.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "bench.h"
#include "bench_measurer.h"
#include "op_bench.h"
#include "tcc/target/probe.h"

namespace tcc::benchmarks {
namespace {

constexpr uint64_t kSeeds = 3;
constexpr int64_t kTrials = 64;

struct Run {
  std::vector<double> best;  // after each trial; HUGE_VAL: nothing ran yet
  double learning = 0;       // share of the search's time
};

// In the order of measuring. Code that was measured before is not a trial.
std::vector<double> best_after_each(std::span<const record::Record> records, int64_t trials) {
  std::vector<double> out;
  std::set<uint64_t> codes;
  double best = HUGE_VAL;
  for (const record::Record& r : records) {
    if (r.status == record::Status::kRejected || (r.code != 0 && !codes.insert(r.code).second)) continue;
    if (r.status == record::Status::kOk && r.median > 0) best = std::min(best, r.median);
    out.push_back(best);
  }
  // Fewer where the space has no more.
  out.resize(static_cast<size_t>(trials), best);
  return out;
}

class ModelSearch {
 public:
  ModelSearch(measure::IsolatedHostMeasurer& machine, std::string network, std::vector<Row>& rows)
      : machine_(machine), network_(std::move(network)), rows_(rows) {
    space_.metaschedule = options().space == space::kWideSpace;
  }

  Result<void> run(const OpCase& c) {
    TCC_TRY(const std::vector<task::Task> tasks, case_tasks(c));
    const task::Task& task =
        *std::max_element(tasks.begin(), tasks.end(), [](const auto& x, const auto& y) { return x.flops < y.flops; });
    TCC_TRY(prepared_, machine_.prepare(task.kernel, host_));
    std::vector<Run> networks, trees;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      TCC_TRY(Run by_network, search(task, network_, true, seed));
      TCC_TRY(Run by_trees, search(task, "trees", false, seed));
      networks.push_back(std::move(by_network)), trees.push_back(std::move(by_trees));
    }
    TCC_TRY(const double picked, pick(task, network_));
    TCC_TRY(const double by_prior, pick(task, "prior"));
    double best = std::min(picked, by_prior);
    for (const auto* runs : {&networks, &trees})
      for (const Run& r : *runs) best = std::min(best, r.best.back());
    double trials = 0, ratio = 0, speed = 0, learning = 0;
    for (size_t s = 0; s < kSeeds; ++s) {
      const std::vector<double>& curve = networks[s].best;
      const auto reached =
          std::find_if(curve.begin(), curve.end(), [&](double t) { return t <= trees[s].best.back(); });
      trials += std::log(static_cast<double>(reached - curve.begin() + 1)) / kSeeds;
      ratio += std::log(trees[s].best.back() / curve.back()) / kSeeds;
      speed += std::log(best / curve.back()) / kSeeds;
      learning += networks[s].learning / kSeeds;
    }
    const double share = best / picked, of_prior = best / by_prior;
    rows_.push_back({c.name + ".no_trial", share, "of the best", "rules", of_prior, share / of_prior});
    rows_.push_back({c.name + ".trials", std::exp(trials), fmt::format("of {}", trials_), "", 0, 0});
    rows_.push_back(
        {c.name + ".after", std::exp(speed), "of the best", "trees", std::exp(speed - ratio), std::exp(ratio)});
    rows_.push_back({c.name + ".learning", learning, "of the time", "", 0, 0});
    const double values[] = {std::log(share), std::log(of_prior), trials, speed, ratio, learning};
    for (size_t i = 0; i < std::size(values); ++i) sums_[i] += values[i];
    ++operators_;
    return {};
  }

  void add_means() {
    if (operators_ == 0) return;
    const auto mean = [&](size_t i) { return sums_[i] / operators_; };
    const double share = std::exp(mean(0)), of_prior = std::exp(mean(1));
    rows_.push_back({"mean.no_trial", share, "of the best", "rules", of_prior, share / of_prior});
    rows_.push_back({"mean.trials", std::exp(mean(2)), fmt::format("of {}", trials_), "", 0, 0});
    rows_.push_back(
        {"mean.after", std::exp(mean(3)), "of the best", "trees", std::exp(mean(3) - mean(4)), std::exp(mean(4))});
    rows_.push_back({"mean.learning", mean(5), "of the time", "", 0, 0});
  }

 private:
  Result<Run> search(const task::Task& task, const std::string& model, bool pretrained, uint64_t seed) {
    TCC_TRY(auto store, record::Store::open(":memory:"));
    search::TuneOptions tune;
    tune.trials = trials_;
    tune.seed = seed;
    tune.space = space_;
    tune.cost_model = model;
    if (pretrained) tune.pretrained = std::string(cost::kShipped);
    tune.finals = false;
    BenchMeasurer measurer(machine_, [this](const ir::Kernel&) { return prepared_; });
    const search::Environment environment{
        .store = store.get(),
        .measurer = &measurer,
        .pool = &pool_,
        .prior = pretrained || options().no_prior ? nullptr : &search::shipped_prior()};
    TCC_TRY(const search::TuneResult result, search::tune({&task, 1}, host_, tune, environment));
    if (!result.tasks.at(0).failure.empty()) return environment_error("{}", result.tasks[0].failure);
    TCC_TRY(const std::vector<record::Record> records, store->all(search::task_hash(task)));
    Run run{best_after_each(records, trials_), (result.phases.propose + result.phases.learn) / result.seconds};
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
  std::vector<Row>& rows_;
  const int64_t trials_ = options().trials_given ? options().trials : kTrials;
  space::SpaceOptions space_ = {};
  ThreadPool pool_{static_cast<int>(usable_cpus().size())};
  std::shared_ptr<const measure::MeasureTask> prepared_;  // of the operator at hand
  double sums_[6] = {};
  int operators_ = 0;
};

Result<std::vector<Row>> run_suite() {
  std::vector<Row> rows;
  measure::HostMeasureOptions measure_options;
  measure_options.worker_path = TCC_WORKER_PATH;
  TCC_TRY(auto machine, measure::IsolatedHostMeasurer::create(measure_options));
  ModelSearch bench(*machine, options().model, rows);
  for (const OpCase& c : metaschedule_cases())
    if (wanted(c.name)) TCC_TRY_VOID(bench.run(c));
  bench.add_means();
  if (rows.empty())
    return make_error(ErrorClass::kUsage, "no operator has any of the words of --only in its name",
                      "names are as C1D and GMM");
  return rows;
}

}  // namespace

std::vector<Row> run_model_search_suite(double) {
  Result<std::vector<Row>> rows = run_suite();
  if (rows) return *rows;
  std::fprintf(stderr, "model-search: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
  return {{"model-search", 0, "", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
