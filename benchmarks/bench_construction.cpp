// Roller and Gensor without measuring: how long they take, and how good is what they construct.
//
// "roller.ms", "gensor.ms": milliseconds an operator on one core, design spaces, construction, limits and model
// included: the mean over the operators of `time_tasks` for the host and for a100; the slowest one is a row of its own.
// "memory.mb": the peak of the process's memory while they were constructed, beyond what it held before.
//
// "<operator>.roller", ".gensor": the first program of each on the host, one thread, nothing measured, in the design
// spaces of MetaSchedule's rules; beside the best that is known there: of all programs that this suite has measured,
// and of an evolutionary search of --trials programs. ".gensor.top10": the best of ten that are measured.
// ".roller.order": by the order of discovery. ".gensor.literal", ".gensor.plain": as printed, without virtual threads.
// "gensor.quality" and the like are means over the operators, "gensor.quality.FAMILY" over those of a family. --only
// picks operators, --db keeps the searches. With --keep FILE an operator's times are kept there when it is done, and a
// later call takes them from there. --budget MIN: then no further operator is begun.
// --only effort0: see bench_effort.cpp.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>

#include "bench.h"
#include "bench_measurer.h"
#include "op_bench.h"
#include "recorded_units.h"
#include "sample_tasks.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/compile.h"
#include "tcc/support/hash.h"
#include "tcc/target/probe.h"

namespace tcc::benchmarks {
namespace {

constexpr int64_t kMeasured = 10;
constexpr int kRandomShapes = 40;
constexpr double kRoundSeconds = 0.03;
constexpr int kConstructionRounds = 3;

struct Named {
  std::string name, family;
  task::Task task;
};

// Forty shapes of operators with and without reuse, drawn from a fixed seed unless --seed says otherwise.
std::vector<Named> random_tasks(uint64_t seed) {
  Rng rng(seed == 0 ? 17 : seed);
  auto between = [&](int64_t low, int64_t high) { return low + rng.below(high - low + 1); };
  std::vector<Named> out;
  for (int i = 0; i < kRandomShapes; ++i) {
    const std::string name = fmt::format("random{:02}", i);
    switch (i % 5) {
      case 0:
        out.push_back({name, "product",
                       task::make_gemm({.m = between(8, 600),
                                        .n = between(16, 900),
                                        .k = between(16, 900),
                                        .constant_weights = rng.below(2) == 0})});
        break;
      case 1: {
        const int64_t kernel = 1 + 2 * between(0, 2), size = between(8, 60);
        out.push_back({name, "convolution",
                       task::make_conv({.channels = between(3, 160),
                                        .filters = between(8, 200),
                                        .size = {size, size},
                                        .kernel = {kernel, kernel},
                                        .strides = {between(1, 2), 1},
                                        .pads = {kernel / 2, kernel / 2},
                                        .bias = true,
                                        .relu = true})});
        break;
      }
      case 2: {
        const int64_t channels = between(8, 200), size = between(10, 90);
        out.push_back({name, "depthwise",
                       task::make_conv({.channels = channels,
                                        .filters = channels,
                                        .group = channels,
                                        .size = {size, size},
                                        .kernel = {3, 3},
                                        .pads = {1, 1}})});
        break;
      }
      case 3:
        out.push_back(
            {name, "product",
             task::make_gemm(
                 {.m = between(1, 4), .n = between(64, 3000), .k = between(64, 2000), .constant_weights = true})});
        break;
      default:
        out.push_back({name, "pooling",
                       task::make_pool({.average = true,
                                        .channels = between(8, 128),
                                        .size = {between(12, 80), between(12, 80)},
                                        .kernel = {3, 3},
                                        .strides = {2, 2},
                                        .pads = {1, 1}})});
        break;
    }
  }
  return out;
}

// The heaviest task of each of MetaSchedule's operators.
Result<std::vector<Named>> paper_tasks() {
  std::vector<Named> out;
  for (const OpCase& c : metaschedule_cases()) {
    TCC_TRY(std::vector<task::Task> tasks, case_tasks(c));
    auto heaviest = std::max_element(tasks.begin(), tasks.end(),
                                     [](const task::Task& x, const task::Task& y) { return x.flops < y.flops; });
    out.push_back({c.name, c.op, std::move(*heaviest)});
  }
  return out;
}

// Gensor's operators (its table IV), whole: nothing runs.
std::vector<Named> gensor_tasks() {
  auto square = [](int64_t batch, int64_t channels, int64_t filters, int64_t size, int64_t kernel, int64_t stride) {
    return task::make_conv({.batch = batch,
                            .channels = channels,
                            .filters = filters,
                            .size = {size, size},
                            .kernel = {kernel, kernel},
                            .strides = {stride, stride}});
  };
  std::vector<Named> out;
  out.push_back({"C1", "convolution", square(128, 256, 256, 30, 3, 2)});
  out.push_back({"M1", "product", task::make_gemm({.m = 8192, .n = 8192, .k = 8192})});
  out.push_back({"M2", "product", task::make_gemm({.m = 65536, .n = 1024, .k = 4})});
  out.push_back({"M3", "product", task::make_gemm({.m = 65536, .n = 4096, .k = 1024})});
  out.push_back({"V1", "product", task::make_gemm({.m = 16384, .n = 1, .k = 16384})});
  out.push_back({"V3", "product", task::make_gemm({.m = 16384, .n = 1, .k = 1000})});
  out.push_back(
      {"P1", "pooling",
       task::make_pool(
           {.average = true, .batch = 128, .channels = 168, .size = {83, 83}, .kernel = {2, 2}, .strides = {2, 2}})});
  out.push_back({"ATT", "attention", task::make_attention({.heads = 12, .queries = 128, .keys = 128, .depth = 64})});
  return out;
}

// A field of /proc/self/status in MB; 0 where the system does not say.
double status_mb(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kilobytes = 0; word == field + ":" && status >> kilobytes) return kilobytes / 1024;
  return 0;
}

// The most memory that the process has held since then, beyond what it held then.
class MemoryPeak {
 public:
  MemoryPeak() {
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
    before_ = status_mb("VmRSS");
  }
  double mb() const { return status_mb("VmHWM") - before_; }

 private:
  double before_ = 0;
};

search::TuneOptions construction_options(search::Strategy strategy, const target::Target& target) {
  search::TuneOptions o;
  o.strategy = strategy;
  o.space.metaschedule = true;
  o.cost_model = backend::backend_of(target).default_model;
  o.pretrained = std::string(cost::kShipped);
  return o;
}

Result<void> time_tasks(const std::vector<Named>& tasks, std::vector<Row>& rows) {
  for (const char* name : {"host", "a100"}) {
    TCC_TRY(const target::Target target, target::find_target(name));
    for (const search::Strategy strategy : {search::Strategy::kRoller, search::Strategy::kGensor}) {
      const search::TuneOptions o = construction_options(strategy, target);
      double sum = 0, slowest = 0;
      std::string which;
      for (const Named& t : tasks) {
        Stopwatch watch;
        TCC_TRY(search::ConstructedPrograms made, search::construct_programs(t.task, target, kMeasured, o));
        const double ms = watch.seconds() * 1e3;
        sum += ms;
        if (ms > slowest) slowest = ms, which = t.name + ", " + made.rule;
        if (!wanted("verbose")) continue;
        std::fprintf(stderr, "%s %s %s: %.1f ms, %zu programs, %s %s\n", name, t.name.c_str(),
                     std::string(search::strategy_name(strategy)).c_str(), ms, made.traces.size(), made.rule.c_str(),
                     made.reason.c_str());
      }
      const std::string key = fmt::format("{}.ms.{}", search::strategy_name(strategy), name);
      rows.push_back({key, sum / static_cast<double>(tasks.size()), "ms", "", 0, 0});
      rows.push_back({key + ".slowest", slowest, "ms", which, 0, 0});
    }
  }
  return {};
}

struct Timed {
  std::string name;
  std::vector<std::shared_ptr<const codegen::Artifact>> programs;
  double seconds = 0;  // of the fastest
};

class Judge {
 public:
  using Values = RecordedUnits::Values;

  // `kept`: times of operators; nullptr: none are kept.
  Judge(OpBench& bench, RecordedUnits* kept, std::vector<Row>& rows) : bench_(bench), kept_(kept), rows_(rows) {}

  Result<void> judge(const Named& t) {
    uint64_t inputs =
        hash_bytes(fmt::format("{} {} {}", driver::tool_version(), target::platform_text(bench_.host), bench_.trials));
    inputs = combine_hash(inputs, hash_bytes(t.task.key));
    std::optional<Values> seconds;
    if (kept_ != nullptr) seconds = kept_->find(t.name, inputs);
    if (!seconds && options().budget > 0 && watch_.seconds() >= options().budget * 60) {
      left_.push_back(t.name);
      return {};
    }
    if (!seconds) {
      const Stopwatch watch;
      TCC_TRY(seconds, measure(t));
      if (kept_ != nullptr) TCC_TRY_VOID(kept_->keep(t.name, inputs, *seconds, watch.seconds()));
    }
    add_rows(t, *seconds);
    return {};
  }

  // Operators for which the time did not suffice.
  const std::vector<std::string>& left() const { return left_; }

  void add_means() {
    for (const auto& [name, ratios] : ratios_) rows_.push_back({name, mean(ratios), "of the best known", "", 0, 0});
    const auto& roller = ratios_["roller.quality"];
    const auto& gensor = ratios_["gensor.quality"];
    std::vector<double> over;
    for (size_t i = 0; i < gensor.size(); ++i) over.push_back(gensor[i] / std::max(roller[i], 1e-9));
    if (!over.empty()) rows_.push_back({"gensor.over.roller", mean(over), "x in the mean", "", 0, 0});
  }

 private:
  static double mean(const std::vector<double>& values) {
    double sum = 0;
    for (double v : values) sum += v;
    return sum / static_cast<double>(values.size());
  }

  // Seconds of the fastest program of each kind; 0: none ran.
  Result<Values> measure(const Named& t) {
    TCC_TRY(auto reference, bench_.references.get(t.task.kernel));
    std::vector<Timed> all;
    for (const auto strategy : {search::Strategy::kRoller, search::Strategy::kGensor}) {
      search::TuneOptions o = construction_options(strategy, bench_.host);
      const std::string name(search::strategy_name(strategy));
      TCC_TRY_VOID(add(t, name, 1, o, all));
      TCC_TRY_VOID(add(t, name + ".top10", kMeasured, o, all));
      if (strategy == search::Strategy::kRoller) {
        o.construction.order = construct::Order::kDiscovery;
        TCC_TRY_VOID(add(t, name + ".order", 1, o, all));
      } else {
        o.construction.vthreads = false;
        TCC_TRY_VOID(add(t, name + ".plain", 1, o, all));
        o.construction.vthreads = true;
        o.construction.reading = construct::Reading::kLiteral;
        TCC_TRY_VOID(add(t, name + ".literal", 1, o, all));
      }
    }
    TCC_TRY_VOID(add_search(t, all));
    // In turns, so that all of them see the same machine.
    for (int round = 0; round < kConstructionRounds; ++round)
      for (Timed& program : all) {
        double fastest = 0;
        for (const auto& artifact : program.programs) {
          TCC_TRY(const double seconds, time(reference, artifact, t.name + "." + program.name));
          if (seconds > 0 && (fastest == 0 || seconds < fastest)) fastest = seconds;
        }
        if (fastest > 0 && (program.seconds == 0 || fastest < program.seconds)) program.seconds = fastest;
      }
    Values out;
    for (const Timed& program : all) out[program.name] = program.seconds;
    return out;
  }

  void add_rows(const Named& t, const Values& programs) {
    double best = 0;
    for (const auto& [name, seconds] : programs)
      if (seconds > 0 && (best == 0 || seconds < best)) best = seconds;
    for (const auto& [name, seconds] : programs) {
      const double rate = seconds > 0 ? t.task.flops / seconds / 1e9 : 0;
      const double ratio = seconds > 0 ? best / seconds : 0;
      rows_.push_back(
          {t.name + "." + name, rate, "GFLOP/s", "best known, " + t.family, t.task.flops / best / 1e9, ratio});
      ratios_[name + ".quality"].push_back(ratio);
      ratios_[name + ".quality." + t.family].push_back(ratio);
      std::fprintf(stderr, "%s.%s %.2f\n", t.name.c_str(), name.c_str(), ratio);
    }
  }

  Result<void> add(const Named& t, const std::string& name, int64_t count, const search::TuneOptions& o,
                   std::vector<Timed>& all) {
    TCC_TRY(search::ConstructedPrograms made, search::construct_programs(t.task, bench_.host, count, o));
    Timed timed{name, {}};
    for (const schedule::Trace& trace : made.traces) {
      // The last passes of lowering may refuse one; the next one counts where several are asked for.
      const Result<search::Chosen> chosen = search::program_of_trace(trace, t.task, bench_.host);
      if (!chosen) continue;
      TCC_TRY(codegen::Artifact artifact, backend::backend_of(bench_.host).compile(chosen->lowered, bench_.host, {}));
      timed.programs.push_back(std::make_shared<const codegen::Artifact>(std::move(artifact)));
    }
    all.push_back(std::move(timed));
    return {};
  }

  // The best that a search of the same spaces finds.
  Result<void> add_search(const Named& t, std::vector<Timed>& all) {
    search::TuneOptions o;
    o.trials = options().trials;
    o.threads = bench_.threads;
    o.cost_model = "mlp";
    o.pretrained = std::string(cost::kShipped);
    const space::ModuleList& modules = space::modules_for(bench_.host);
    o.space.modules.assign(modules.metaschedule.begin(), modules.metaschedule.end());
    const std::string key = fmt::format("construction/{}/{}", t.task.key, o.trials);
    TCC_TRY(const std::optional<std::string> done, bench_.store.load_session(key));
    if (!done) {
      BenchMeasurer measurer(bench_.measurer, [&](const ir::Kernel& naive) { return bench_.references.get(naive); });
      const search::Environment environment{.store = &bench_.store, .measurer = &measurer, .pool = &bench_.pool};
      TCC_TRY_VOID(search::tune(std::span(&t.task, 1), bench_.host, o, environment));
      TCC_TRY_VOID(bench_.store.save_session(key, "{}"));
    }
    TCC_TRY(search::ChosenArtifact best,
            search::best_artifact(t.task, bench_.host, &bench_.store, bench_.threads, "bench"));
    if (!best.program.tuned) return environment_error("{}", best.program.note);
    all.push_back({"search", {std::make_shared<const codegen::Artifact>(std::move(best.artifact))}});
    return {};
  }

  Result<double> time(const std::shared_ptr<const measure::MeasureTask>& task,
                      const std::shared_ptr<const codegen::Artifact>& artifact, const std::string& name) {
    measure::Candidate candidate;
    candidate.task = task.get();
    candidate.artifact = artifact;
    TCC_TRY(std::vector<measure::Measurement> measured, bench_.measurer.measure({&candidate, 1}));
    const measure::Measurement& m = measured.at(0);
    if (m.status == record::Status::kWrong || m.status == record::Status::kCrashed)
      return environment_error("{}: {}: {}", name, record::status_name(m.status), m.failure);
    return m.status == record::Status::kOk ? m.median : 0;
  }

  OpBench& bench_;
  RecordedUnits* const kept_;
  std::vector<Row>& rows_;
  std::map<std::string, std::vector<double>> ratios_;
  std::vector<std::string> left_;
  const Stopwatch watch_;
};

Result<std::vector<Row>> run_construction() {
  std::vector<Row> rows;
  TCC_TRY(std::vector<Named> paper, paper_tasks());
  std::vector<Named> random = random_tasks(options().seed);
  std::vector<Named> timed = gensor_tasks();
  for (const std::vector<Named>* list : {&paper, &random}) timed.insert(timed.end(), list->begin(), list->end());
  if (wanted("ms")) {
    const MemoryPeak memory;
    TCC_TRY_VOID(time_tasks(timed, rows));
    rows.push_back({"memory.mb", memory.mb(), "MB", "", 0, 0});
  }

  std::vector<Named> judged = std::move(paper);
  for (Named& t : random) judged.push_back(std::move(t));
  std::erase_if(judged, [](const Named& t) { return !wanted(t.name); });
  if (judged.empty()) return rows;
  measure::HostMeasureOptions measure_options;
  measure_options.worker_path = TCC_WORKER_PATH;
  measure_options.cpus = {usable_cpus().back()};
  measure_options.budget_seconds = kRoundSeconds;
  TCC_TRY(auto measurer, measure::IsolatedHostMeasurer::create(measure_options));
  TCC_TRY(std::unique_ptr<record::Store> store, record::Store::open(options().db.empty() ? ":memory:" : options().db));
  const target::Target host = target::host_target();
  ThreadPool pool(static_cast<int>(usable_cpus().size()));
  References references(*measurer, host);
  OpBench bench{host, *store, pool, references, *measurer, "construction"};
  std::optional<RecordedUnits> kept;
  if (!options().keep.empty()) {
    TCC_TRY(kept, RecordedUnits::open(options().keep));
  }
  Judge judge(bench, kept ? &*kept : nullptr, rows);
  for (const Named& t : judged) TCC_TRY_VOID(judge.judge(t));
  judge.add_means();
  if (!judge.left().empty())
    std::fprintf(stderr, "construction: the time was spent before %s\n",
                 fmt::format("{}", fmt::join(judge.left(), ", ")).c_str());
  return rows;
}

}  // namespace

std::vector<Row> run_construction_suite(double) {
  if (!options().only.empty() && std::all_of(options().only.begin(), options().only.end(),
                                             [](const std::string& word) { return word.starts_with("effort0"); })) {
    std::vector<Row> rows;
    add_effort_rows(rows);
    return rows;
  }
  Result<std::vector<Row>> rows = run_construction();
  if (rows) return *rows;
  std::fprintf(stderr, "construction: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
  return {{"construction", 0, "", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
