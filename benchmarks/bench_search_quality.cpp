// How good the search is, on small operators of every family.
//
// Without --db: each task is tuned with the model and at random, on three seeds each, over the same space, trials and
// gate; the winners of all runs are then timed in turns, because medians that were taken minutes apart say little about
// 5 %. "<task>.after.<n>" is the best speed among the first n trials, as a share of the best of all runs; geometric
// means over seeds, and over tasks in "model.after.<n>". The trees are also judged by how they order programs that they
// never saw: trained on the records of the model's runs, asked about those of the random runs (where these found
// programs of their own). --keep stores the first run of each task for --db.
//
// With --db: the stored best of each known task is timed beside the stored second best, in interleaved pairs, and the
// trees are trained on the older half of the records and asked about the newer half.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>

#include "bench.h"
#include "bench_measurer.h"
#include "op_bench.h"
#include "peers/op_case.h"
#include "sample_tasks.h"
#include "search_curve.h"
#include "tcc/cost/cost_model.h"
#include "tcc/features/features.h"
#include "tcc/graph/passes.h"
#include "tcc/lower/lower.h"
#include "tcc/measure/host.h"
#include "tcc/onnx/importer.h"
#include "tcc/schedule/trace.h"
#include "tcc/search/search.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/target/probe.h"

namespace tcc::benchmarks {
namespace {

constexpr int kSeeds = 3, kQualityRounds = 9;
constexpr double kBudget = 0.05;  // seconds of timing a candidate

struct QualityTask {
  std::string name;
  task::Task task;
};

Result<task::Task> imported(const OpCase& c) {
  TCC_TRY(graph::Graph graph, onnx::import_bytes(std::make_shared<const std::string>(case_model(c)), c.name));
  TCC_TRY_VOID(graph::optimize(graph, nullptr));
  TCC_TRY(task::TaskList list, task::extract_tasks(graph, graph::fuse(graph)));
  return std::move(list.tasks.at(0));
}

Result<std::vector<QualityTask>> quality_tasks() {
  std::vector<QualityTask> out;
  for (const OpCase& c :
       {gemm_case("gemm256", 256, 256, 256), gemm_case("gemm96x512x384.bias_relu", 96, 384, 512, true),
        gemm_case("gemv1024x2048", 1, 2048, 1024), conv_case("conv3x3.64.28", 64, 64, 28, 3, 1),
        conv_case("conv3x3s2.32-64.56", 32, 64, 56, 3, 2), conv_case("conv1x1.64-128.28", 64, 128, 28, 1, 1),
        conv_case("depthwise3x3.32.56", 32, 32, 56, 3, 1, 32), softmax_case("softmax256x256", {256, 256}),
        layernorm_case("layernorm128x768", 128, 768)}) {
    TCC_TRY(task::Task task, imported(c));
    out.push_back({c.name, std::move(task)});
  }
  out.push_back(
      {"maxpool3x3s2.64.56",
       task::make_pool({.channels = 64, .size = {56, 56}, .kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1}})});
  out.push_back({"elementwise.64.56", task::make_elementwise({1, 64, 56, 56})});
  return out;
}

struct Bench {
  target::Target host;
  std::unique_ptr<measure::IsolatedHostMeasurer> measurer;
  ThreadPool pool;
  std::shared_ptr<const measure::MeasureTask> prepared;  // of the task at hand
};

struct Run {
  std::unique_ptr<record::Store> store;
  search::TuneResult result;
  std::shared_ptr<const codegen::Artifact> artifact;
  std::vector<double> times;  // of the rounds
  double seconds() const { return median(times); }
};

Result<Run> tune_once(const QualityTask& task, search::Strategy strategy, uint64_t seed, Bench& bench) {
  Run run;
  TCC_TRY(run.store, record::Store::open(":memory:"));
  search::TuneOptions tune;
  use_default_model(tune, bench.host);
  tune.trials = options().trials;
  tune.strategy = strategy;
  tune.seed = seed;
  BenchMeasurer measurer(*bench.measurer, [&bench](const ir::Kernel&) { return bench.prepared; });
  const search::Environment environment{.store = run.store.get(), .measurer = &measurer, .pool = &bench.pool};
  TCC_TRY(run.result, search::tune({&task.task, 1}, bench.host, tune, environment));
  const search::TaskResult& r = run.result.tasks.at(0);
  if (!r.failure.empty()) return environment_error("{}", r.failure);
  TCC_TRY(search::ChosenArtifact best, search::best_artifact(task.task, bench.host, run.store.get(), 1, "bench"));
  if (!best.program.tuned) return environment_error("{}", best.program.note);
  run.artifact = std::make_shared<const codegen::Artifact>(std::move(best.artifact));
  std::fprintf(stderr, "search-quality: %s, %s, seed %llu: %lld trials in %.1f s, best %.4g us\n", task.name.c_str(),
               std::string(search::strategy_name(strategy)).c_str(), static_cast<unsigned long long>(seed),
               static_cast<long long>(r.trials), run.result.seconds, r.best_seconds * 1e6);
  return run;
}

Result<void> time_runs_in_turns(std::vector<Run>& runs, Bench& bench) {
  for (int round = 0; round < kQualityRounds; ++round)
    for (Run& run : runs) {
      measure::Candidate candidate;
      candidate.task = bench.prepared.get();
      candidate.artifact = run.artifact;
      TCC_TRY(std::vector<measure::Measurement> measured, bench.measurer->measure({&candidate, 1}));
      const measure::Measurement& m = measured.at(0);
      if (m.status != record::Status::kOk) return environment_error("{}: {}", record::status_name(m.status), m.failure);
      run.times.push_back(m.median);
    }
  return {};
}

// --- the model on records that it never saw --------------------------------------------------------------------------

// Of each program its newest record. Programs in `seen` are left out, and those that were taken are added to it.
void add_samples(std::span<const record::Record> records, const task::Task& task, const target::Target& host,
                 std::set<uint64_t>& seen, cost::Samples& out) {
  double best = 0;
  for (const record::Record& r : records)
    if (r.status == record::Status::kOk && (best == 0 || r.median < best)) best = r.median;
  std::set<uint64_t> taken;
  for (size_t i = records.size(); i-- > 0;) {
    const record::Record& r = records[i];
    if (!taken.insert(r.nest_hash).second || seen.contains(r.nest_hash)) continue;
    if (r.status != record::Status::kOk || r.median <= 0) continue;
    Result<schedule::Trace> trace = schedule::trace_from_json(r.trace);
    if (!trace) continue;
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> kernel = schedule::replay(*trace, trace->decisions, task.kernel, arena);
    if (kernel) kernel = lower::lower(*kernel, host, ir::Stage::kNest, arena);
    if (!kernel) continue;
    out.rows.add(features::extract(features::kHotStatement, *kernel, host, r.threads));
    out.throughputs.push_back(static_cast<float>(best / r.median));
    out.tasks.push_back(r.task);
  }
  seen.insert(taken.begin(), taken.end());
}

std::vector<double> ranks(const std::vector<float>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return values[x] < values[y]; });
  std::vector<double> out(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) out[order[i]] = static_cast<double>(begin + end - 1) / 2;
    begin = end;
  }
  return out;
}

// Spearman's coefficient, ties at their mean rank.
double rank_correlation(const std::vector<float>& x, const std::vector<float>& y) {
  std::vector<double> a = ranks(x), b = ranks(y);
  double mean = (static_cast<double>(x.size()) - 1) / 2, ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

void add_model_rows(const std::string& name, const cost::Samples& train, const cost::Samples& held_out,
                    std::vector<Row>& rows) {
  if (held_out.throughputs.size() < 8) return;
  auto correlation = [&](const cost::CostModel& model) {
    std::vector<float> scores(held_out.throughputs.size());
    model.predict(held_out.rows, scores);
    return rank_correlation(scores, held_out.throughputs);
  };
  auto model = cost::make_model({.name = "trees"}, cost::make_rule_model());
  TCC_CHECK(model);
  const std::unique_ptr<cost::CostModel> rules = cost::make_rule_model();
  (*model)->update(train);
  rows.push_back({name + ".rank", correlation(**model), "Spearman",
                  fmt::format("{} seen, {} held out", train.throughputs.size(), held_out.throughputs.size()), 0, 0});
  rows.push_back({name + ".rank.rules", correlation(*rules), "Spearman", "without learning", 0, 0});
}

// --- without --db
// -------------------------------------------------------------------------------------------------------

struct Totals {
  int tasks = 0, close = 0, random_close = 0;
  double log_ratio = 0, log_trials = 0;
  Curves curves;
};

// Trials until a program within 5 % of `best` had been measured; all of them where none was.
double trials_to_reach(std::span<const record::Record> records, double best) {
  double trials = 0;
  for (const record::Record& r : records) {
    ++trials;
    if (r.status == record::Status::kOk && r.median <= 1.05 * best) break;
  }
  return std::max(trials, 1.0);
}

void add_curves(const QualityTask& task, const std::vector<std::vector<record::Record>>& logs, double best,
                Totals& totals, std::vector<Row>& rows) {
  Curves curves;
  for (size_t i = 0; i < logs.size(); ++i)
    for (size_t k = 0; k < kAfter.size(); ++k)
      (i < kSeeds ? curves.evolved : curves.random)[k] += std::log(best_after(logs[i], kAfter[k], best)) / kSeeds;
  add_curve_rows(task.name, curves, options().trials, rows);
  totals.curves.add(curves);
}

// Appends the records that `from` has of a task on this number of threads, with the best one, to `to`.
Result<void> copy_records(const task::Task& task, const target::Target& target, int64_t threads,
                          const record::Store& from, record::Store& to) {
  const uint64_t hash = search::task_hash(task);
  TCC_TRY(std::vector<record::Record> records, from.all(hash));
  std::erase_if(records, [&](const record::Record& r) {
    return r.target_features != target::feature_hash(target) || r.threads != threads;
  });
  const std::string key = record::confirmed_best_key(hash, target::feature_hash(target), threads);
  TCC_TRY(std::optional<std::string> best, from.load_session(key));
  return best ? to.add_with_session(records, key, *best) : to.add_all(records);
}

Result<void> compare_searches(const QualityTask& task, Bench& bench, Totals& totals, std::vector<Row>& rows) {
  TCC_TRY(bench.prepared, bench.measurer->prepare(task.task.kernel, bench.host));
  std::vector<Run> runs;
  for (search::Strategy strategy : {search::Strategy::kEvolutionary, search::Strategy::kRandom})
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      TCC_TRY(Run run, tune_once(task, strategy, options().seed + seed, bench));
      runs.push_back(std::move(run));
    }
  if (!options().keep.empty()) {
    TCC_TRY(std::unique_ptr<record::Store> kept, record::Store::open(options().keep));
    TCC_TRY_VOID(copy_records(task.task, bench.host, 1, *runs[0].store, *kept));
  }
  Run untuned;
  TCC_TRY(search::ChosenArtifact by_rule, search::best_artifact(task.task, bench.host, nullptr, 1, "bench"));
  untuned.artifact = std::make_shared<const codegen::Artifact>(std::move(by_rule.artifact));
  runs.push_back(std::move(untuned));
  TCC_TRY_VOID(time_runs_in_turns(runs, bench));
  const double default_seconds = runs.back().seconds();
  runs.pop_back();
  auto mean_and_spread = [&](size_t begin) {
    double log_sum = 0, low = HUGE_VAL, high = 0;
    for (size_t i = begin; i < begin + kSeeds; ++i) {
      double t = runs[i].seconds();
      log_sum += std::log(t), low = std::min(low, t), high = std::max(high, t);
    }
    return std::pair(std::exp(log_sum / kSeeds), high / low);
  };
  auto [model, model_spread] = mean_and_spread(0);
  auto [random, random_spread] = mean_and_spread(kSeeds);
  double flops = task.task.flops / 1e9;
  rows.push_back({task.name, flops / model, "GFLOP/s", "random search", flops / random, random / model});
  rows.push_back({task.name + ".spread", model_spread, "x over seeds", "", 0, 0});
  rows.push_back({task.name + ".spread.random", random_spread, "x over seeds", "", 0, 0});
  rows.push_back({task.name + ".default", flops / default_seconds, "GFLOP/s", "the tuned program", flops / model,
                  model / default_seconds});
  std::vector<std::vector<record::Record>> logs;
  double best = HUGE_VAL;
  for (const Run& run : runs) {
    TCC_TRY(std::vector<record::Record> records, run.store->all());
    for (const record::Record& r : records)
      if (r.status == record::Status::kOk && !r.samples.empty()) best = std::min(best, r.median);
    logs.push_back(std::move(records));
  }
  double needed[2] = {};
  for (size_t i = 0; i < runs.size(); ++i) needed[i / kSeeds] += std::log(trials_to_reach(logs[i], best)) / kSeeds;
  rows.push_back({task.name + ".trials", std::exp(needed[0]), "to within 5 %", "random search", std::exp(needed[1]),
                  std::exp(needed[1] - needed[0])});
  totals.log_trials += needed[1] - needed[0];
  add_curves(task, logs, best, totals, rows);
  cost::Samples train, held_out;
  std::set<uint64_t> seen;
  for (size_t i = 0; i < runs.size(); ++i)
    add_samples(logs[i], task.task, bench.host, seen, i < kSeeds ? train : held_out);
  add_model_rows(task.name, train, held_out, rows);
  ++totals.tasks;
  totals.close += model_spread <= 1.05 ? 1 : 0;
  totals.random_close += random_spread <= 1.05 ? 1 : 0;
  totals.log_ratio += std::log(random / model);
  return {};
}

// --- with --db
// ----------------------------------------------------------------------------------------------------------

Result<measure::Candidate> rebuild(const record::Record& record, const task::Task& task, const Bench& bench) {
  TCC_TRY(schedule::Trace trace, schedule::trace_from_json(record.trace));
  auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> kernel = schedule::replay(trace, trace.decisions, task.kernel, arena);
  if (kernel) kernel = lower::lower(*kernel, bench.host, ir::Stage::kLowered, arena);
  if (!kernel) return environment_error("a stored trace does not replay: {}", kernel.error().text);
  measure::Candidate c;
  c.nest_hash = record.nest_hash;
  c.task = bench.prepared.get();
  c.kernel = std::move(*kernel);
  return c;
}

Result<void> repeat_best(const QualityTask& task, const record::Store& store, Bench& bench, int& known, int& confirmed,
                         std::vector<Row>& rows) {
  TCC_TRY(std::optional<record::Record> best,
          store.confirmed_best(search::task_hash(task.task), target::feature_hash(bench.host), 1));
  if (!best) return {};
  uint64_t features = target::feature_hash(bench.host);
  TCC_TRY(std::vector<record::Record> fastest, store.fastest(best->task, features, 1, 2));
  TCC_TRY(std::vector<record::Record> records, store.all(best->task));
  std::erase_if(records, [&](const record::Record& r) { return r.target_features != features || r.threads != 1; });
  auto half = records.begin() + static_cast<std::ptrdiff_t>(records.size() / 2);
  std::set<uint64_t> seen;
  cost::Samples older, newer;
  add_samples({records.begin(), half}, task.task, bench.host, seen, older);
  add_samples({half, records.end()}, task.task, bench.host, seen, newer);
  add_model_rows(task.name, older, newer, rows);
  if (fastest.size() < 2) return {};
  const record::Record& second = fastest[fastest[0].nest_hash == best->nest_hash ? 1 : 0];
  TCC_TRY(bench.prepared, bench.measurer->prepare(task.task.kernel, bench.host));
  TCC_TRY(measure::Candidate a, rebuild(*best, task.task, bench));
  TCC_TRY(measure::Candidate b, rebuild(second, task.task, bench));
  TCC_TRY(measure::PairedComparison pair, bench.measurer->compare(a, b, measure::PairAim::kWhoWins));
  if (!pair.failure.empty()) return environment_error("{}", pair.failure);
  bool confirms = pair.winner != measure::PairedComparison::Winner::kB;
  ++known, confirmed += confirms ? 1 : 0;
  rows.push_back({task.name + ".best", 1 / pair.ratio, "x of second",
                  fmt::format("{}, [{:.3f}, {:.3f}]", confirms ? "wins or ties" : "LOSES", 1 / pair.high, 1 / pair.low),
                  0, 0});
  return {};
}

// --- both ------------------------------------------------------------------------------------------------------------

Result<std::vector<Row>> run_search_quality() {
  std::vector<Row> rows;
  measure::HostMeasureOptions measure_options;
  measure_options.worker_path = TCC_WORKER_PATH;
  measure_options.budget_seconds = kBudget;
  TCC_TRY(auto measurer, measure::IsolatedHostMeasurer::create(measure_options));
  Bench bench{target::host_target(), std::move(measurer), ThreadPool(2), nullptr};
  TCC_TRY(std::vector<QualityTask> tasks, quality_tasks());
  std::erase_if(tasks, [](const QualityTask& t) { return !wanted(t.name); });
  if (!options().db.empty()) {
    TCC_TRY(std::unique_ptr<record::Store> store, record::Store::open(options().db, record::Store::Mode::kReadOnly));
    int known = 0, confirmed = 0;
    for (const QualityTask& task : tasks) TCC_TRY_VOID(repeat_best(task, *store, bench, known, confirmed, rows));
    rows.push_back({"best.confirmed", static_cast<double>(confirmed), fmt::format("of {}", known), "", 0, 0});
    return rows;
  }
  Totals totals;
  for (const QualityTask& task : tasks) TCC_TRY_VOID(compare_searches(task, bench, totals, rows));
  if (totals.tasks == 0) return environment_error("no task has any of these in its name");
  std::string of = fmt::format("of {} tasks", totals.tasks);
  rows.push_back({"model.mean", std::exp(totals.log_ratio / totals.tasks), "x of random", "", 0, 0});
  rows.push_back({"model.trials", std::exp(totals.log_trials / totals.tasks), "x fewer", "random search", 0, 0});
  Curves mean;
  mean.add(totals.curves, 1.0 / totals.tasks);
  add_curve_rows("model", mean, options().trials, rows);
  rows.push_back({"model.within5percent", static_cast<double>(totals.close), of, "", 0, 0});
  rows.push_back({"random.within5percent", static_cast<double>(totals.random_close), of, "", 0, 0});
  return rows;
}

}  // namespace

std::vector<Row> run_search_quality_suite(double) {
  Result<std::vector<Row>> rows = run_search_quality();
  if (rows) return *rows;
  std::fprintf(stderr, "search-quality: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
  return {{"search-quality", 0, "", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
