// Makes models/cpu.prior, which the cost model knows before a task's own first trial, and measures its worth.
//
// --db: the tasks below are tuned into it, half at random and half by the model, on this machine's instruction set with
// one and two threads and on AVX2 with one; what it has already is not tuned again, so the suite can be run piece by
// piece (--only). --keep: the file to write from all that the database has.
//
// Rows: the order of a task's own random draws by the model that has been trained on all other tasks of the file, and
// by the hand-written estimate, as the mean over tasks of the best speed among the first 1, 4, 8 and 16 (share of the
// task's best), beside the expectation in random order. "<family>.own": trained on other tasks of the same family;
// "<family>.others": on all families but this one.
//
// The sizes differ from those of the other suites, so that these measure tasks that are new to the model.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "bench.h"
#include "bench_measurer.h"
#include "op_bench.h"
#include "sample_tasks.h"
#include "tcc/cost/cost_model.h"
#include "tcc/search/shipped_prior.h"
#include "tcc/support/check.h"
#include "tcc/target/probe.h"

namespace tcc::benchmarks {
namespace {

constexpr int64_t kRandomTrials = 40, kModelTrials = 24;
constexpr double kBudget = 0.02;  // seconds of timing a candidate
constexpr size_t kFirst[] = {1, 4, 8, 16};

struct Named {
  std::string name;
  task::Task task;
};

std::vector<OpCase> product_cases() {
  return {gemm_case("gemm.a", 64, 64, 64),
          gemm_case("gemm.b", 192, 320, 160),
          gemm_case("gemm.c", 100, 200, 300),
          gemm_case("gemm.d", 384, 384, 384),
          gemm_case("gemm.e", 512, 120, 1000, true),
          gemm_case("gemm.f", 32, 1000, 480, true),
          gemm_case("gemm.g", 160, 96, 640, true),
          gemm_case("gemm.h", 300, 700, 72),
          gemm_case("gemm.i", 20, 640, 320, true),
          gemm_case("gemv.a", 1, 1000, 520),
          gemm_case("gemv.b", 1, 3000, 720),
          gemm_case("gemv.c", 1, 512, 5000),
          gemm_case("gemv.d", 1, 6000, 1500, true),
          attention_product_case("batched.a", 96, 8, 40),
          attention_product_case("batched.b", 200, 4, 32),
          attention_product_case("batched.c", 60, 20, 96),
          dense_gelu_case("gelu.a", 96, 800, 200)};
}

std::vector<OpCase> window_cases() {
  return {
      conv_case("conv1x1.a", 96, 192, 14, 1, 1),
      conv_case("conv1x1.b", 32, 64, 52, 1, 1),
      conv_case("conv1x1.c", 240, 72, 20, 1, 1),
      conv_case("conv1x1.d", 80, 160, 30, 1, 2),
      conv_case("conv1x1.e", 384, 96, 10, 1, 1),
      conv_case("conv3x3.a", 32, 48, 40, 3, 1),
      conv_case("conv3x3.b", 96, 96, 20, 3, 1),
      conv_case("conv3x3.c", 16, 32, 64, 3, 1),
      conv_case("conv3x3.d", 144, 112, 12, 3, 1),
      conv_case("conv3x3s2.a", 48, 96, 44, 3, 2),
      conv_case("conv3x3s2.b", 96, 144, 24, 3, 2),
      conv_case("conv3x3s2.c", 3, 32, 128, 3, 2),
      conv_case("conv7x7.a", 3, 32, 112, 7, 2),
      conv_case("conv5x5.a", 24, 48, 26, 5, 1),
      conv_case("group.a", 64, 64, 30, 3, 1, 4),
      conv_case("group.b", 96, 192, 24, 3, 2, 8),
      window_case("conv1d.a", {.channels = 48, .filters = 96, .size = {300}, .kernel = 3, .stride = 2, .pad = 1}),
      window_case("conv3d.a", {.channels = 3, .filters = 32, .size = {8, 56, 56}, .kernel = 3, .stride = 2, .pad = 1}),
      window_case("dilated.a", {.channels = 24, .filters = 40, .size = {40, 40}, .kernel = 3, .pad = 2, .dilation = 2}),
      window_case("folded.a",
                  {.channels = 4, .filters = 48, .size = {96, 96}, .kernel = 5, .stride = 2, .pad = 2, .folded = true}),
      window_case(
          "transposed.a",
          {.channels = 96, .filters = 64, .size = {10, 10}, .kernel = 4, .stride = 2, .pad = 1, .transposed = true}),
      conv_case("depthwise.a", 48, 48, 40, 3, 1, 48),
      conv_case("depthwise.b", 96, 96, 30, 3, 2, 96),
      conv_case("depthwise.c", 64, 64, 20, 5, 1, 64),
      conv_case("depthwise.d", 144, 144, 14, 3, 1, 144),
      window_case("depthwise.e", {.channels = 24, .filters = 24, .size = {90, 90}, .kernel = 3, .pad = 1, .group = 24}),
  };
}

std::vector<OpCase> row_cases() {
  return {softmax_case("softmax.a", {64, 1000}),
          softmax_case("softmax.b", {500, 128}),
          softmax_case("softmax.c", {8, 96, 96}),
          softmax_case("softmax.d", {1000, 40}),
          layernorm_case("layernorm.a", 64, 512),
          layernorm_case("layernorm.b", 200, 1024),
          layernorm_case("layernorm.c", 500, 200),
          norm_case("norm.a", 128, 500),
          norm_case("norm.b", 400, 400)};
}

Result<std::vector<Named>> training_tasks() {
  std::vector<Named> out;
  for (const std::vector<OpCase>& list : {product_cases(), window_cases(), row_cases()})
    for (const OpCase& c : list) {
      TCC_TRY(std::vector<task::Task> tasks, case_tasks(c));
      for (size_t i = 0; i < tasks.size(); ++i)
        out.push_back({i == 0 ? c.name : fmt::format("{}.{}", c.name, i), std::move(tasks[i])});
    }
  auto pool = [&](const std::string& name, const task::PoolParams& params) {
    out.push_back({name, task::make_pool(params)});
  };
  pool("pool.a", {.channels = 48, .size = {40, 40}, .kernel = {2, 2}, .strides = {2, 2}});
  pool("pool.b", {.channels = 96, .size = {28, 28}, .kernel = {3, 3}, .strides = {1, 1}, .pads = {1, 1}});
  pool("pool.c", {.channels = 24, .size = {96, 96}, .kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1}});
  out.push_back({"elementwise.a", task::make_elementwise({1, 40, 40, 40})});
  out.push_back({"elementwise.b", task::make_elementwise({60, 1000})});
  out.push_back({"elementwise.c", task::make_elementwise({3, 500, 300})});
  out.push_back({"reduce.a", task::make_reduction({200, 300}, {1}, graph::Op::kReduceSum)});
  out.push_back({"reduce.b", task::make_reduction({1, 64, 40, 40}, {2, 3}, graph::Op::kReduceMean)});
  out.push_back({"reduce.c", task::make_reduction({100, 800}, {0}, graph::Op::kReduceMax)});
  return out;
}

struct Setup {
  std::string name;
  target::Target target;
  int threads;
};

Result<std::vector<Setup>> setups() {
  std::vector<Setup> out = {{"host.1t", target::host_target(), 1}, {"host.2t", target::host_target(), 2}};
  TCC_TRY(target::Target avx2, target::find_target("x86-64-v3"));
  if (target::isa_level(avx2) < target::isa_level(out[0].target)) out.push_back({"avx2.1t", avx2, 1});
  return out;
}

Result<void> tune_one(const Named& n, const Setup& setup, measure::Measurer& measurer, ThreadPool& pool,
                      record::Store& store) {
  const std::string mark =
      fmt::format("prior/{}/{}/{}", n.task.key, record::hash_text(target::feature_hash(setup.target)), setup.threads);
  TCC_TRY(std::optional<std::string> done, store.load_session(mark));
  if (done) return {};
  BenchMeasurer unpaired(measurer, {}, false);  // which finalist wins does not matter here
  const search::Environment environment{
      .store = &store, .measurer = &unpaired, .pool = &pool, .prior = &search::shipped_prior()};
  search::TuneOptions tune;
  tune.threads = setup.threads;
  Stopwatch watch;
  double best = 0;
  for (search::Strategy strategy : {search::Strategy::kRandom, search::Strategy::kEvolutionary}) {
    tune.strategy = strategy;
    tune.trials = strategy == search::Strategy::kRandom ? kRandomTrials : kModelTrials;
    TCC_TRY(search::TuneResult result, search::tune({&n.task, 1}, setup.target, tune, environment));
    const search::TaskResult& r = result.tasks.at(0);
    if (!r.failure.empty()) return environment_error("{}: {}", n.name, r.failure);
    best = r.best_gflops;
  }
  std::fprintf(stderr, "prior: %s, %s: %.1f s, best %.1f GFLOP/s\n", n.name.c_str(), setup.name.c_str(),
               watch.seconds(), best);
  return store.save_session(mark, "{}");
}

Result<void> collect(const std::vector<Named>& tasks, const std::vector<Setup>& all, record::Store& store) {
  std::vector<int> cpus = usable_cpus();
  ThreadPool pool(static_cast<int>(cpus.size()));
  for (int threads : {1, 2}) {
    if (std::ssize(cpus) < threads) return environment_error("this process may use {} CPU", cpus.size());
    measure::HostMeasureOptions measure_options;
    measure_options.worker_path = TCC_WORKER_PATH;
    measure_options.threads = threads;
    measure_options.compile_pool = &pool;
    measure_options.budget_seconds = kBudget;
    TCC_TRY(auto measurer, measure::IsolatedHostMeasurer::create(measure_options));
    for (const Setup& setup : all)
      for (const Named& n : tasks)
        if (setup.threads == threads && wanted(n.name + "." + setup.name))
          TCC_TRY_VOID(tune_one(n, setup, *measurer, pool, store));
  }
  return {};
}

// --- what it is worth ------------------------------------------------------------------------------------------------

struct Flat {
  cost::Samples samples{.rows = features::Rows(features::kHotStatement)};
  void add(const search::PriorTask& task) {
    for (size_t i = 0; i < task.rows.size(); ++i) samples.rows.add(task.rows[i]);
    samples.throughputs.insert(samples.throughputs.end(), task.throughputs.begin(), task.throughputs.end());
    samples.tasks.insert(samples.tasks.end(), task.rows.size(), task.hash);
  }
};

std::vector<double> best_so_far(const search::PriorTask& task, const cost::CostModel& model) {
  std::vector<float> scores(task.rows.size());
  model.predict(task.rows, scores);
  std::vector<size_t> order(scores.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return scores[x] > scores[y]; });
  std::vector<double> out;
  for (size_t n : kFirst) {
    double best = 0;
    for (size_t i = 0; i < std::min(n, order.size()); ++i)
      best = std::max(best, static_cast<double>(task.throughputs[order[i]]));
    out.push_back(best);
  }
  return out;
}

// The expected best of n programs without an order: the i-th fastest of m is the best with probability
// C(m - i - 1, n - 1) / C(m, n).
std::vector<double> best_at_random(const search::PriorTask& task) {
  std::vector<double> sorted(task.throughputs.begin(), task.throughputs.end()), out;
  std::sort(sorted.rbegin(), sorted.rend());
  for (size_t n : kFirst) {
    double expected = 0, none = 1;  // probability that none of the faster ones is among the n
    const auto m = static_cast<double>(sorted.size());
    for (size_t i = 0; i < sorted.size(); ++i) {
      const double left = m - static_cast<double>(i), taken = std::min(1.0, static_cast<double>(n) / left);
      expected += none * taken * sorted[i];
      none *= 1 - taken;
    }
    out.push_back(expected);
  }
  return out;
}

void judge(const std::vector<search::PriorTask>& all, std::vector<Row>& rows) {
  std::map<std::string_view, std::vector<const search::PriorTask*>> families;
  for (const search::PriorTask& t : all) families[task::anchor_name(t.anchor)].push_back(&t);
  std::unique_ptr<cost::CostModel> rules = cost::make_rule_model();
  for (const auto& [family, tasks] : families) {
    std::vector<std::vector<double>> means(4, std::vector<double>(std::size(kFirst), 0));
    for (const search::PriorTask* left_out : tasks) {
      Flat own, others;
      // The same task on another number of threads, or of vectors, counts as the same task.
      for (const search::PriorTask& t : all) {
        const bool same = t.anchor == left_out->anchor;
        if (same && t.rows[0][0] != left_out->rows[0][0]) own.add(t);
        if (!same) others.add(t);
      }
      auto by_own = cost::make_model({.name = "trees"}, cost::make_rule_model()),
           by_others = cost::make_model({.name = "trees"}, cost::make_rule_model());
      TCC_CHECK(by_own && by_others);
      (*by_own)->update(own.samples), (*by_others)->update(others.samples);
      const std::vector<double> found[] = {best_at_random(*left_out), best_so_far(*left_out, *rules),
                                           best_so_far(*left_out, **by_own), best_so_far(*left_out, **by_others)};
      for (size_t k = 0; k < 4; ++k)
        for (size_t n = 0; n < std::size(kFirst); ++n) means[k][n] += found[k][n] / static_cast<double>(tasks.size());
    }
    const char* names[] = {"random", "rules", "own", "others"};
    for (size_t k = 1; k < 4; ++k)
      for (size_t n = 0; n < std::size(kFirst); ++n)
        rows.push_back({fmt::format("{}.{}.{}", family, names[k], kFirst[n]), means[k][n], "of the best",
                        "random order", means[0][n], means[k][n] / means[0][n]});
  }
}

Result<std::vector<Row>> run_suite() {
  if (options().db.empty())
    return make_error(ErrorClass::kUsage, "no database for the records was named", "add --db FILE");
  TCC_TRY(std::unique_ptr<record::Store> store, record::Store::open(options().db));
  TCC_TRY(std::vector<Named> tasks, training_tasks());
  TCC_TRY(std::vector<Setup> all, setups());
  TCC_TRY_VOID(collect(tasks, all, *store));
  if (options().keep.empty()) return std::vector<Row>{{"prior", 1, "bool", "collected", 0, 0}};
  std::vector<search::PriorTask> prior;
  for (const Named& n : tasks)
    for (const Setup& setup : all) {
      TCC_TRY(search::PriorTask rows, search::prior_of(n.task, setup.target, setup.threads, *store));
      if (!rows.rows.empty()) prior.push_back(std::move(rows));
    }
  TCC_TRY(std::string bytes, search::print_prior(prior));
  TCC_TRY_VOID(write_file(options().keep, bytes));
  double programs = 0;
  for (const search::PriorTask& t : prior) programs += static_cast<double>(t.rows.size());
  std::vector<Row> rows = {{"tasks", static_cast<double>(prior.size()), "", "", 0, 0},
                           {"programs", programs, "", "", 0, 0},
                           {"bytes", static_cast<double>(bytes.size()), "", "", 0, 0}};
  judge(prior, rows);
  return rows;
}

}  // namespace

std::vector<Row> run_prior_suite(double) {
  Result<std::vector<Row>> rows = run_suite();
  if (rows) return *rows;
  std::fprintf(stderr, "prior: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
  return {{"prior", 0, "bool", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
