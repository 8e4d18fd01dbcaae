// What a trial costs: compiling, checking and timing small candidates in isolation; and what a parallel launch costs.
#include <algorithm>
#include <vector>

#include "bench.h"
#include "gemm_packed.h"
#include "sample_tasks.h"
#include "tcc/codegen/llvm.h"
#include "tcc/lower/lower.h"
#include "tcc/measure/host.h"
#include "tcc/measure/task.h"
#include "tcc/rt/rt.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/task/task.h"

namespace tcc::benchmarks {
namespace {

// Random candidates of the GEMM's own design space, lowered; as search would hand them over.
std::vector<measure::Candidate> draw_candidates(const task::Task& gemm, const measure::MeasureTask& prepared,
                                                const target::Target& host, size_t n) {
  std::vector<measure::Candidate> out;
  Rng rng(3);
  std::vector<space::Sketch> sketches;
  for (const schedule::Trace& trace : space::generate_space(gemm.kernel, host))
    if (ir::Legal<space::Sketch> s = space::make_sketch(trace, gemm.kernel, host)) sketches.push_back(std::move(*s));
  TCC_CHECK(!sketches.empty());
  while (out.size() < n) {
    const space::Sketch& sketch = sketches[out.size() % sketches.size()];
    std::vector<int64_t> decisions = sketch.trace.decisions;
    space::draw_decisions(sketch, decisions, rng);
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest = space::instantiate(sketch, decisions, host, arena);
    if (!nest) continue;
    ir::Legal<ir::Kernel> lowered = lower::lower(*nest, host, ir::Stage::kLowered, arena);
    if (!lowered) continue;
    measure::Candidate c;
    c.id = out.size();
    c.nest_hash = ir::hash_kernel(*nest);
    c.task = &prepared;
    c.kernel = *lowered;
    out.push_back(std::move(c));
  }
  return out;
}

std::vector<Row> measure_rate(double seconds) {
  target::Target host = target::host_target();
  task::Task gemm = task::make_gemm({.m = 128, .n = 128, .k = 128, .constant_weights = true});
  ThreadPool pool(2);
  measure::HostMeasureOptions options;
  options.worker_path = TCC_WORKER_PATH;
  options.compile_pool = &pool;
  options.budget_seconds = 0.02;
  auto measurer = measure::IsolatedHostMeasurer::create(options);
  TCC_CHECK(measurer.has_value(), "{}", measurer ? "" : measurer.error().message);
  auto prepared = measure::MeasureTask::create(**measurer, gemm.kernel, host, {});
  TCC_CHECK(prepared.has_value(), "{}", prepared ? "" : prepared.error().message);
  std::vector<measure::Candidate> candidates = draw_candidates(gemm, **prepared, host, 32);
  int64_t done = 0, all = 0;
  double compiling = 0, running = 0;
  Stopwatch watch;
  do {
    auto results = (*measurer)->measure(candidates);
    TCC_CHECK(results.has_value(), "{}", results ? "" : results.error().message);
    for (const measure::Measurement& m : *results) {
      done += m.status == record::Status::kOk ? 1 : 0;
      ++all;
      compiling += m.compile_seconds;
      running += m.run_seconds;
    }
  } while (watch.seconds() < seconds);
  auto mean_ms = [&](double total) { return 1e3 * total / static_cast<double>(all); };
  return {{"gemm128.measured", static_cast<double>(done) / watch.seconds(), "1/s", "", 0, 0},
          {"gemm128.compile", mean_ms(compiling), "ms", "", 0, 0},
          {"gemm128.check_and_time", mean_ms(running), "ms", "", 0, 0}};
}

Row compile_time(double seconds) {
  target::Target host = target::host_target();
  task::Task gemm = task::make_gemm({.m = 512, .n = 512, .k = 512, .constant_weights = true});
  schedule::Trace trace = packed_gemm_trace(gemm.kernel, gemm.anchor_block, host);
  auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, gemm.kernel, arena);
  TCC_CHECK(k.has_value());
  ir::Legal<ir::Kernel> lowered = lower::lower(*k, host, ir::Stage::kLowered, arena);
  TCC_CHECK(lowered.has_value());
  std::vector<double> times;
  Stopwatch watch;
  do {
    Stopwatch one;
    TCC_CHECK(codegen::compile_host(*lowered, host).has_value());
    times.push_back(one.seconds() * 1e3);
  } while (times.size() < 5 || watch.seconds() < seconds);
  return {"llvm.compile.gemm", median(times), "ms", "", 0, 0};
}

// What a large task costs before its first candidate: data, and references at samples.
Row prepare_time() {
  target::Target host = target::host_target();
  task::Task gemm = task::make_gemm({.m = 2048, .n = 2048, .k = 2048, .constant_weights = true});
  measure::HostMeasureOptions options;
  options.worker_path = TCC_WORKER_PATH;
  auto measurer = measure::IsolatedHostMeasurer::create(options);
  TCC_CHECK(measurer.has_value(), "{}", measurer ? "" : measurer.error().message);
  Stopwatch watch;
  auto prepared = measure::MeasureTask::create(**measurer, gemm.kernel, host, {});
  TCC_CHECK(prepared.has_value(), "{}", prepared ? "" : prepared.error().message);
  return {"gemm2048.prepare", watch.seconds(), "s", "", 0, 0};
}

void do_nothing(void* const*, int64_t, int64_t) {}

Row fork_join(double seconds) {
  tcc_rt_pool* pool = nullptr;
  TCC_CHECK(tcc_rt_pool_create(2, 0, 1, &pool) == TCC_OK);
  std::vector<double> times;
  Stopwatch watch;
  do {
    Stopwatch batch;
    for (int i = 0; i < 1000; ++i) tcc_rt_pool_run_each(pool, do_nothing, nullptr);
    times.push_back(batch.seconds() * 1e3);  // 1000 launches: milliseconds are microseconds each
  } while (watch.seconds() < seconds);
  tcc_rt_pool_destroy(pool);
  return {"forkjoin.2t", median(times), "us", "", 0, 0};
}

}  // namespace

std::vector<Row> run_tuning_suite(double seconds) {
  std::vector<Row> rows = measure_rate(seconds);
  rows.push_back(prepare_time());
  rows.push_back(compile_time(seconds));
  rows.push_back(fork_join(seconds));
  return rows;
}

}  // namespace tcc::benchmarks
