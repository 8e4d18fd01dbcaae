#include "strategy_modes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "cli/value_curve.h"
#include "op_bench.h"
#include "pool_replay.h"
#include "tcc/backend/backend.h"
#include "tcc/cost/network_model.h"
#include "tcc/cost/shipped_checkpoints.h"
#include "tcc/driver/cost_models.h"
#include "tcc/driver/dataset.h"
#include "tcc/driver/draft_pools.h"
#include "tcc/driver/tune.h"
#include "tcc/lower/lower.h"
#include "tcc/measure/simulated.h"
#include "tcc/nn/checkpoint.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"
#include "tcc/target/probe.h"

namespace tcc::benchmarks {
namespace {

constexpr double kTrialSeconds = 0.1;  // that a trial costs where nothing runs: compiling, checking and timing
constexpr const char* kTables = "cpu-default-spaces";
constexpr int64_t kMostPrograms = 20'000;  // of a table; the space of a small convolution has some thousand

std::string pool_path(const std::string& name) {
  const std::string& folder = options().pools;
  return fmt::format("{}/{}.pool.gz", folder.starts_with('/') ? folder : fmt::format("{}/{}", TCC_SOURCE_DIR, folder),
                     name);
}

int64_t trials_or(int64_t usual) {
  return options().trials_given ? options().trials : usual;
}

// The heaviest task of each of MetaSchedule's operators.
Result<std::vector<task::Task>> twelve_tasks() {
  std::vector<task::Task> out;
  for (const OpCase& c : metaschedule_cases()) {
    TCC_TRY(std::vector<task::Task> tasks, case_tasks(c));
    out.push_back(std::move(*std::max_element(
        tasks.begin(), tasks.end(), [](const task::Task& x, const task::Task& y) { return x.flops < y.flops; })));
  }
  return out;
}

// The text of a checkpoint that the method begins with.
std::string checkpoint_of(const Method& method, const target::Target& target) {
  if (options_of(method, target).pretrained.empty()) return "";
  const auto* shipped = cost::find_shipped_checkpoint(method.model, *backend::backend_of(target).trace_table);
  return record::hash_text(hash_bytes(shipped->bytes));
}

// One operator, by a measurer that runs nothing. What is built without records: one point at no trials.
Result<Curve> search_operator(const task::Task& task, const target::Target& target, const Method& method,
                              search::TuneOptions o, measure::Measurer& measurer, ThreadPool& pool) {
  const Stopwatch watch;
  if (!method.searches) {
    TCC_TRY(const search::Chosen chosen, search::choose_program(task, target, nullptr, 1, {}, {o.space, ""}));
    const measure::Candidate candidate{.nest_hash = chosen.nest_hash, .kernel = chosen.lowered};
    TCC_TRY(const std::vector<measure::Measurement> measured, measurer.measure({&candidate, 1}));
    if (measured.at(0).status != record::Status::kOk) return Curve();
    return Curve{{0, watch.seconds(), measured[0].median}};
  }
  TCC_TRY(auto store, record::Store::open(":memory:"));
  std::vector<std::pair<double, double>> rounds;
  o.finals = false;
  const search::Environment environment{
      .store = store.get(), .measurer = &measurer, .pool = &pool, .progress = [&](const search::Progress& p) {
        if (p.kind == search::Progress::Kind::kRound)
          rounds.emplace_back(static_cast<double>(p.trials), p.elapsed_seconds);
      }};
  TCC_TRY(const search::TuneResult result, search::tune({&task, 1}, target, o, environment));
  if (!result.tasks.at(0).failure.empty()) return environment_error("{}", result.tasks[0].failure);
  TCC_TRY(const std::vector<record::Record> records, store->all(search::task_hash(task)));
  return curve_of(records, rounds, kTrialSeconds);
}

// --- selection in pools ----------------------------------------------------------------------------------------------

class RecordedMode : public Mode {
 public:
  std::string name() const override { return "recorded"; }
  std::vector<std::string> sets() const override { return {"wide6"}; }
  std::string unit() const override { return "x the best's time"; }
  std::string speed() const override { return "share of the best speed"; }
  // Programs are chosen, not made.
  bool offers(const Method& m) const override {
    return m.searches && (m.strategy == search::Strategy::kEvolutionary || m.strategy == search::Strategy::kRandom ||
                          search::drafts(m.strategy));
  }
  Result<std::string> settings(const std::string&, const Method& method) override {
    TCC_TRY_VOID(load_files());
    return fmt::format("{} {} {} {}", files_, trials_or(kTrials), kEach, checkpoint_of(method, target::host_target()));
  }

  Result<Curve> run(const std::string&, const Method& method, uint64_t seed) override {
    TCC_TRY_VOID(load_files());
    const target::Target& target = pool_.groups.at(0).platform.target;
    const search::TuneOptions o = options_of(method, target);
    const backend::Backend& backend = backend::backend_of(target);
    TCC_TRY(const std::unique_ptr<cost::CostModel> model, cost::make_model({.name = o.cost_model,
                                                                            .pretrained = o.pretrained,
                                                                            .adaptation = o.adaptation,
                                                                            .trace = backend.trace_table,
                                                                            .pool = &threads_},
                                                                           backend.prior(target)));
    const std::vector<const features::Table*> tables(model->tables().begin(), model->tables().end());
    TCC_TRY(const driver::PoolFeatures features, driver::extract_pool(pool_, tables, &threads_));
    std::vector<std::vector<float>> drafted;
    if (search::drafts(method.strategy)) {
      TCC_TRY(drafted, drafts_of(features));
    }
    Curve curve;
    const Stopwatch watch;
    PoolReplay replay(features, combine_hash(seed, 0x737472));
    Rng rng(combine_hash(seed, 0x72616e64));
    for (int64_t trials = kEach; trials <= trials_or(kTrials); trials += kEach) {
      for (const size_t g : replay.order()) {
        const driver::PoolFeatures::Group& group = features.groups[g];
        std::vector<float> scores;
        if (method.strategy == search::Strategy::kRandom)
          for (size_t i = 0; i < group.samples.size(); ++i) scores.push_back(static_cast<float>(rng.uniform()));
        else
          scores = driver::score_group(*model, group);
        for (size_t i = 0; i < scores.size() && !drafted.empty(); ++i)
          if (drafted[g][i] < 0) scores[i] = -std::numeric_limits<float>::infinity();
        // A share at random, as in a search.
        const auto at_random = static_cast<int64_t>(std::lround(kExplore * static_cast<double>(kEach)));
        replay.reveal(g, scores, kEach - at_random);
        std::vector<float> random;
        for (size_t i = 0; i < scores.size(); ++i) random.push_back(static_cast<float>(rng.uniform()));
        replay.reveal(g, random, at_random);
      }
      const bool learns = method.strategy != search::Strategy::kRandom;
      if (learns && trials + kEach <= trials_or(kTrials)) replay.teach(*model);
      curve.push_back({static_cast<double>(trials),
                       watch.seconds() + static_cast<double>(trials * std::ssize(replay.order())) * kTrialSeconds,
                       replay.mean_slowdown()});
    }
    return curve;
  }

 private:
  static constexpr int64_t kTrials = 100, kEach = 10, kDrafts = 512;
  static constexpr double kExplore = 0.1;

  Result<void> load_files() {
    if (!pool_.groups.empty()) return {};
    for (const char* name : {"gemm", "conv1x1", "conv3x3", "depthwise", "attention", "layernorm"}) {
      const std::string path = pool_path(fmt::format("cpu-2000-{}", name));
      TCC_TRY(const std::string bytes, read_file(path));
      files_ += record::hash_text(hash_bytes(bytes));
      TCC_TRY(const data::Pool pool, data::read_pool(path));
      for (const data::Group& g : pool.groups) pool_.add(g);
    }
    return {};
  }

  // 1 for the programs that the draft model keeps, -1 for the others.
  Result<std::vector<std::vector<float>>> drafts_of(const driver::PoolFeatures& features) const {
    const cost::DraftOptions model;
    TCC_TRY(const std::vector<driver::DraftedGroup> groups, driver::draft_pool(pool_, {&model, 1}, false, 0));
    if (groups.size() != features.groups.size()) return input_error("the pools have groups without a draft");
    std::vector<std::vector<float>> out;
    for (size_t g = 0; g < groups.size(); ++g) {
      const std::vector<double>& estimates = groups[g].estimates.at(0);
      std::vector<double> sorted = estimates;
      std::sort(sorted.begin(), sorted.end());
      const double worst = sorted[std::min<size_t>(kDrafts, sorted.size()) - 1];
      size_t ran = 0;
      for (const double seconds : features.groups[g].seconds) {
        const bool kept = seconds > 0 && estimates.at(ran) <= worst;
        ran += seconds > 0 ? 1 : 0;
        if (out.size() <= g) out.emplace_back();
        out[g].push_back(kept ? 1.f : -1.f);
      }
      if (ran != estimates.size()) return input_error("'{}': drafts and programs differ", groups[g].workload);
    }
    return out;
  }

  data::Pool pool_;
  std::string files_;
  ThreadPool threads_{static_cast<int>(usable_cpus().size())};
};

// --- tables of whole spaces ------------------------------------------------------------------------------------------

class ExhaustiveMode : public Mode {
 public:
  std::string name() const override { return "exhaustive"; }
  std::vector<std::string> sets() const override { return {"ops12"}; }
  std::string unit() const override { return "x the best's time"; }
  std::string speed() const override { return "share of the best speed"; }
  Result<std::string> settings(const std::string&, const Method& method) override {
    TCC_TRY_VOID(load());
    return fmt::format("{} {} {}", hash_, trials_or(kTrials), checkpoint_of(method, pool_.groups[0].platform.target));
  }

  Result<Curve> run(const std::string&, const Method& method, uint64_t seed) override {
    TCC_TRY_VOID(load());
    std::vector<Curve> curves;
    for (size_t i = 0; i < pool_.groups.size(); ++i) {
      const data::Group& group = pool_.groups[i];
      search::TuneOptions o = options_of(method, group.platform.target);
      o.trials = trials_or(kTrials), o.seed = seed;
      const int64_t before = tables_[i].unknown();
      TCC_TRY(Curve curve, search_operator(group.task, group.platform.target, method, o, tables_[i], threads_));
      if (tables_[i].unknown() > before)
        std::fprintf(stderr, "exhaustive: %s, %s: %d programs are not in the table\n", method.name.c_str(),
                     group.task.workload.c_str(), static_cast<int>(tables_[i].unknown() - before));
      for (Reached& r : curve) r.value /= group.best_seconds();
      curves.push_back(std::move(curve));
    }
    return together(curves);
  }

 private:
  static constexpr int64_t kTrials = 32;

  Result<void> load() {
    if (!pool_.groups.empty()) return {};
    const std::string path = pool_path(kTables);
    TCC_TRY(const std::string bytes, read_file(path));
    hash_ = record::hash_text(hash_bytes(bytes));
    TCC_TRY(pool_, data::read_pool(path));
    for (const data::Group& group : pool_.groups) {
      TCC_TRY(TableMeasurer table, TableMeasurer::create(group));
      tables_.push_back(std::move(table));
    }
    if (pool_.groups.empty()) return input_error("'{}': expected programs, found none", path);
    return {};
  }

  data::Pool pool_;
  std::string hash_;
  std::vector<TableMeasurer> tables_;
  ThreadPool threads_{static_cast<int>(usable_cpus().size())};
};

// --- simulated GPUs --------------------------------------------------------------------------------------------------

class SimulatedMode : public Mode {
 public:
  std::string name() const override { return "simulated"; }
  std::vector<std::string> sets() const override { return {"a100", "t4"}; }
  std::string unit() const override { return "s"; }
  std::string speed() const override { return "runs a second"; }
  Result<std::string> settings(const std::string& set, const Method& method) override {
    TCC_TRY(const target::Target target, machine(set));
    std::string learned;
    for (const char* name : kOthers) {
      if (!adapts(method)) break;
      TCC_TRY(const std::string bytes, read_file(pool_path(name)));
      learned += record::hash_text(hash_bytes(bytes));
    }
    return fmt::format("{} {} {}", target::platform_text(target), trials_of(method), learned);
  }

  Result<Curve> run(const std::string& set, const Method& method, uint64_t seed) override {
    TCC_TRY(const target::Target target, machine(set));
    if (tasks_.empty()) {
      TCC_TRY(tasks_, twelve_tasks());
    }
    measure::SimulatedMeasurer measurer(target, &threads_, 0);
    std::vector<Curve> curves;
    for (const task::Task& task : tasks_) {
      search::TuneOptions o = options_of(method, target);
      o.trials = trials_of(method), o.seed = seed;
      if (adapts(method)) {
        TCC_TRY(o.pretrained, checkpoint(method.model, target));
      }
      TCC_TRY(Curve curve, search_operator(task, target, method, o, measurer, threads_));
      if (curve.empty()) return environment_error("{}: {} finds no program", task.workload, method.name);
      std::fprintf(stderr, "simulated.%s.%s.%d: %s %.4g us\n", set.c_str(), method.name.c_str(), static_cast<int>(seed),
                   task.workload.c_str(), 1e6 * curve.back().value);
      curves.push_back(std::move(curve));
    }
    return together(curves);
  }

 private:
  static constexpr int64_t kTrials = 1000, kMachine = 1;
  // Methods that draft get a quarter of the trials: the figure asks them to reach with it what the baseline reaches.
  static constexpr int64_t kDraftShare = 4;
  // Programs of other tasks, which other machines ran: what a checkpoint learns from.
  static constexpr const char* kOthers[] = {"gpu-train-sim2", "gpu-train-sim3", "gpu-train-sim4"};

  static int64_t trials_of(const Method& method) {
    const int64_t all = trials_or(kTrials);
    return search::drafts(method.strategy) ? std::max<int64_t>(all / kDraftShare, 1) : all;
  }
  static bool adapts(const Method& method) { return method.pretrained && cost::find_network(method.model) != nullptr; }

  // The file of a network's checkpoint. With --keep it is beside that file, and a later call takes it from there.
  Result<std::string> checkpoint(const std::string& network, const target::Target& target) {
    std::string& path = checkpoints_[network];
    if (!path.empty()) return path;
    if (options().keep.empty() && folder_ == nullptr) {
      TCC_TRY(folder_, TemporaryDirectory::create("tcc-bench"));
    }
    path = fmt::format("{}.{}.tccnet", folder_ != nullptr ? folder_->path() + "/gpu" : options().keep, network);
    if (file_exists(path)) return path;
    const cost::NetworkInputs inputs =
        cost::network_inputs(*cost::find_network(network), *backend::backend_of(target).trace_table);
    data::Pool all;
    for (const char* name : kOthers) {
      TCC_TRY(const data::Pool pool, data::read_pool(pool_path(name)));
      for (const data::Group& g : pool.groups) all.add(g);
    }
    TCC_TRY(const driver::PoolFeatures features, driver::extract_pool(all, inputs.tables, &threads_));
    driver::TrainRequest request;
    request.network = network, request.pool = &threads_;
    TCC_TRY(const driver::TrainedNetwork trained, driver::train_network(features, request));
    TCC_TRY_VOID(nn::save_checkpoint(path, trained.model, trained.card));
    return path;
  }
  static Result<target::Target> machine(const std::string& set) {
    TCC_TRY(const target::Target target, target::find_target(set));
    return driver::simulated_target(target, kMachine);
  }

  std::vector<task::Task> tasks_;
  std::unique_ptr<TemporaryDirectory> folder_;
  std::map<std::string, std::string> checkpoints_;  // files, by network
  ThreadPool threads_{static_cast<int>(usable_cpus().size())};
};

// --- this machine ----------------------------------------------------------------------------------------------------

class LiveMode : public Mode {
 public:
  std::string name() const override { return "live"; }
  std::vector<std::string> sets() const override { return {"bert-tiny", "mobilenet_v2"}; }
  std::string unit() const override { return "s"; }
  std::string speed() const override { return "runs a second"; }
  Result<std::string> settings(const std::string&, const Method& method) override {
    const target::Target host = target::host_target();
    return fmt::format("{} {} {} {}", target::platform_text(host), trials_or(kTrials), options().space,
                       checkpoint_of(method, host));
  }

  Result<Curve> run(const std::string& set, const Method& method, uint64_t seed) override {
    const target::Target host = target::host_target();
    TCC_TRY(const driver::Model model, driver::load_model({.model = "zoo:" + set}));
    TCC_TRY(const driver::Program program, driver::make_program(model, host));
    driver::TuneRequest request;
    request.target = host;
    request.options = options_of(method, host, {.metaschedule = options().space == space::kWideSpace});
    request.options.trials = 0;
    request.options.trials_per_task = trials_or(kTrials);
    request.options.seed = seed;
    if (!method.searches) return untuned(program, host, request.options.space);
    std::vector<int64_t> weights;
    for (const task::Task& t : program.tasks.tasks) weights.push_back(t.weight);
    cli::ValueCurve values(weights);
    request.progress = [&](const search::Progress& p) { values.add(p); };
    TCC_TRY(auto store, record::Store::open(":memory:"));
    TCC_TRY(const driver::TuneReport report, driver::tune_program(program, *store, request));
    Curve curve;
    for (const cli::ValueCurve::Point& p : values.points())
      curve.push_back({static_cast<double>(p.trials), p.elapsed, p.seconds});
    // The finals tell again how fast the programs are.
    if (report.best_seconds > 0)
      curve.push_back({static_cast<double>(report.trials), report.seconds, report.best_seconds});
    return curve;
  }

 private:
  static constexpr int64_t kTrials = 16;

  // What is built without records: seconds of choosing and compiling.
  static Result<Curve> untuned(const driver::Program& program, const target::Target& host,
                               const space::SpaceOptions& space) {
    measure::HostMeasureOptions measure_options;
    measure_options.worker_path = TCC_WORKER_PATH;
    TCC_TRY(auto machine, measure::IsolatedHostMeasurer::create(measure_options));
    double total = 0, sum = 0;
    for (const task::Task& task : program.tasks.tasks) {
      const Stopwatch watch;
      TCC_TRY(search::ChosenArtifact chosen, search::best_artifact(task, host, nullptr, 1, "bench", {}, {space, ""}));
      total += watch.seconds();
      TCC_TRY(const auto prepared, machine->prepare(task.kernel, host));
      const measure::Candidate candidate{
          .task = prepared.get(), .artifact = std::make_shared<const codegen::Artifact>(std::move(chosen.artifact))};
      TCC_TRY(const std::vector<measure::Measurement> measured, machine->measure({&candidate, 1}));
      if (measured.at(0).status != record::Status::kOk)
        return environment_error("{}: {}", task.workload, measured[0].failure);
      sum += measured[0].median * static_cast<double>(task.weight);
    }
    return Curve{{0, total, sum}};
  }
};

}  // namespace

Result<TableMeasurer> TableMeasurer::create(const data::Group& group) {
  TableMeasurer out;
  for (const data::Entry& e : group.entries) {
    const schedule::Trace& trace = group.sketches[static_cast<size_t>(e.sketch)];
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest = schedule::replay(trace, e.decisions, group.task.kernel, arena);
    if (nest) nest = lower::lower(*nest, group.platform.target, ir::Stage::kNest, arena);
    if (!nest) continue;  // this version makes another program of it
    out.times_[ir::hash_kernel(*nest)] = {e.status, e.seconds};
  }
  if (out.times_.empty()) return input_error("'{}': none of the table's programs replays", group.task.workload);
  return out;
}

Result<std::vector<measure::Measurement>> TableMeasurer::measure(std::span<const measure::Candidate> candidates) {
  std::vector<measure::Measurement> out;
  for (const measure::Candidate& c : candidates) {
    measure::Measurement& m = out.emplace_back();
    m.id = c.id;
    const auto known = times_.find(c.nest_hash);
    if (known == times_.end()) {
      m.status = record::Status::kRejected;
      m.failure = "limit: not in the table";
      ++unknown_;
      continue;
    }
    m.status = known->second.status;
    m.code = c.nest_hash;
    if (m.status != record::Status::kOk) continue;
    m.samples = {known->second.seconds};
    m.median = m.low = m.high = known->second.seconds;
    m.converged = true;
  }
  return out;
}

Result<std::unique_ptr<Mode>> make_mode(const std::string& name) {
  if (name == "recorded") return std::make_unique<RecordedMode>();
  if (name == "exhaustive") return std::make_unique<ExhaustiveMode>();
  if (name == "simulated") return std::make_unique<SimulatedMode>();
  if (name == "live") return std::make_unique<LiveMode>();
  return make_error(ErrorClass::kUsage, fmt::format("no mode is called '{}'", sanitize(name)),
                    "modes are recorded, exhaustive, simulated, live and tables");
}

Result<void> measure_tables(std::vector<Row>& rows) {
  TCC_TRY(std::vector<task::Task> tasks, twelve_tasks());
  const std::string packed = pool_path(kTables), grown = packed.substr(0, packed.size() - 3);
  TCC_TRY(const std::unique_ptr<data::PoolWriter> writer, data::PoolWriter::open(grown));
  driver::CollectRequest request;
  request.target = target::host_target();
  request.per_task = kMostPrograms;
  const Stopwatch watch;
  request.stop = [&] { return options().budget > 0 && watch.seconds() >= options().budget * 60; };
  request.progress = [](const driver::CollectProgress& p) {
    std::fprintf(stderr, "tables: %s, task %zu of %zu: %d programs\n", p.workload.c_str(), p.task + 1, p.tasks,
                 static_cast<int>(p.programs));
  };
  TCC_TRY(const driver::CollectReport report, driver::collect(tasks, *writer, request));
  rows.push_back({"tables.programs", static_cast<double>(writer->pool().entries()), "programs",
                  report.stopped ? "the time was spent; the same call goes on" : "whole", 0, 0});
  return write_file(packed, data::pack_pool(writer->pool()));
}

}  // namespace tcc::benchmarks
