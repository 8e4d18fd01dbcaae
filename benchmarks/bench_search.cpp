// How fast candidates are made. Every iteration draws fresh random decisions; only valid candidates count; making the
// sketch is not timed; every 1,000th candidate is compared with its definition.
#include <atomic>

#include "bench.h"
#include "gemm_schedule.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/task/task.h"

namespace tcc::benchmarks {
namespace {

struct Worker {
  Worker(const space::Sketch& s, uint64_t seed)
      : sketch(s), rng(seed), decisions(s.trace.decisions), arena(std::make_shared<Arena>()) {}
  const space::Sketch& sketch;
  Rng rng;
  std::vector<int64_t> decisions;
  ArenaPtr arena;
  int64_t made = 0;
};

void check_instance(const Worker& w, const ir::Kernel& got, const target::Target& host) {
  auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> k = schedule::replay(w.sketch.trace, w.decisions, w.sketch.start, arena);
  TCC_CHECK(k.has_value());
  ir::Legal<ir::Kernel> n = lower::lower(*k, host, ir::Stage::kNest, arena);
  TCC_CHECK(n.has_value() && ir::hash_kernel(*n) == ir::hash_kernel(got), "instantiate differs from replay and lower");
}

}  // namespace

std::vector<Row> run_search_suite(double seconds) {
  task::Task gemm = task::make_gemm({.m = 1024, .n = 1024, .k = 1024});
  target::Target host = target::host_target();
  Rng rng(1);
  schedule::Trace trace = gemm_trace(gemm.kernel, gemm.anchor_block, rng);
  ir::Legal<space::Sketch> sketch = space::make_sketch(trace, gemm.kernel, host);
  TCC_CHECK(sketch.has_value() && sketch->symbolic);

  using Body = std::function<bool(Worker&)>;
  Body replay = [&](Worker& w) {
    return schedule::replay(w.sketch.trace, w.decisions, w.sketch.start, w.arena).has_value();
  };
  Body replay_lower = [&](Worker& w) {
    ir::Legal<ir::Kernel> k = schedule::replay(w.sketch.trace, w.decisions, w.sketch.start, w.arena);
    if (!k) return false;
    ir::Legal<ir::Kernel> n = lower::lower(*k, host, ir::Stage::kNest, w.arena);
    if (!n) return false;
    return ir::hash_kernel(*n) != 0;
  };
  Body instantiate = [&](Worker& w) {
    ir::Legal<ir::Kernel> n = space::instantiate(w.sketch, w.decisions, host, w.arena);
    if (!n || ir::hash_kernel(*n) == 0) return false;
    if (++w.made % 1000 == 0) check_instance(w, *n, host);
    return true;
  };
  std::vector<Row> rows;
  for (auto& [name, body] : {std::pair<const char*, Body&>{"gemm1024.replay", replay},
                             {"gemm1024.replay_lower", replay_lower},
                             {"gemm1024.instantiate", instantiate}}) {
    std::vector<Worker> workers;
    for (int w = 0; w < 2; ++w) workers.emplace_back(*sketch, static_cast<uint64_t>(w) + 11);
    auto loop = [&, &body = body](int w) {
      Worker& worker = workers[static_cast<size_t>(w)];
      int valid = 0;
      for (int i = 0; i < 32; ++i) {
        worker.arena->reset();
        space::draw_decisions(worker.sketch, worker.decisions, worker.rng);
        valid += body(worker) ? 1 : 0;
      }
      return static_cast<double>(valid);
    };
    double one = rate_per_thread(1, seconds, loop), both = rate_per_thread(2, seconds, loop);
    rows.push_back({name, both, "1/s/core", "", 0, 0});
    rows.push_back({std::string(name) + ".scaling", 2 * both / one, "x of one core", "", 0, 0});
  }
  return rows;
}

}  // namespace tcc::benchmarks
