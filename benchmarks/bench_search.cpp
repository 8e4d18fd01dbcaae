// How fast candidates are made. Every iteration draws fresh random decisions, or for GPUs changes one; only valid
// candidates count; making the sketch is not timed; every 1,000th candidate is compared with its definition.
#include <atomic>
#include <optional>

#include "bench.h"
#include "gemm_schedule.h"
#include "sample_tasks.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
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

void check_instance(const Worker& w, const ir::Kernel& got, const target::Target& target) {
  auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> k = schedule::replay(w.sketch.trace, w.decisions, w.sketch.start, arena);
  TCC_CHECK(k.has_value());
  ir::Legal<ir::Kernel> n = lower::lower(*k, target, ir::Stage::kNest, arena);
  TCC_CHECK(n.has_value() && ir::hash_kernel(*n) == ir::hash_kernel(got), "instantiate differs from replay and lower");
}

using Body = std::function<bool(Worker&)>;

bool replay(Worker& w) {
  return schedule::replay(w.sketch.trace, w.decisions, w.sketch.start, w.arena).has_value();
}
Body replay_lower(const target::Target& target) {
  return [&target](Worker& w) {
    ir::Legal<ir::Kernel> k = schedule::replay(w.sketch.trace, w.decisions, w.sketch.start, w.arena);
    if (!k) return false;
    ir::Legal<ir::Kernel> n = lower::lower(*k, target, ir::Stage::kNest, w.arena);
    return n.has_value() && ir::hash_kernel(*n) != 0;
  };
}
// A program from decisions, within the target's limits, with its hash: what the validator and the duplicate check need.
Body instantiate(const target::Target& target) {
  return [&target](Worker& w) {
    ir::Legal<ir::Kernel> n = space::instantiate(w.sketch, w.decisions, target, w.arena);
    if (!n || ir::hash_kernel(*n) == 0) return false;
    if (++w.made % 1000 == 0) check_instance(w, *n, target);
    return true;
  };
}

// How the next candidate comes about.
enum class Step {
  kDraw,    // every decision drawn afresh
  kMutate,  // one decision of the last valid program changed, as the search does
};

// Valid programs a second and core, on both cores, and how that compares with one core alone.
void add_rate(const std::string& name, const space::Sketch& sketch, Step step, const Body& body, double seconds,
              std::vector<Row>& rows) {
  std::vector<Worker> workers;
  for (int w = 0; w < 2; ++w) workers.emplace_back(sketch, static_cast<uint64_t>(w) + 11);
  auto loop = [&](int w) {
    Worker& worker = workers[static_cast<size_t>(w)];
    int valid = 0;
    for (int i = 0; i < 32; ++i) {
      worker.arena->reset();
      const std::vector<int64_t> before = step == Step::kMutate ? worker.decisions : std::vector<int64_t>();
      if (step == Step::kMutate)
        schedule::mutate(worker.sketch.trace, worker.decisions, worker.rng);
      else
        space::draw_decisions(worker.sketch, worker.decisions, worker.rng);
      if (body(worker))
        ++valid;
      else if (step == Step::kMutate)
        worker.decisions = before;
    }
    return static_cast<double>(valid);
  };
  double one = rate_per_thread(1, seconds, loop), both = rate_per_thread(2, seconds, loop);
  rows.push_back({name, both, "1/s/core", "", 0, 0});
  rows.push_back({name + ".scaling", 2 * both / one, "x of one core", "", 0, 0});
}

// Of a space's symbolic sketches the one with the most decisions; nothing where none has any.
std::optional<space::Sketch> widest_sketch(const task::Task& task, const target::Target& target) {
  std::optional<space::Sketch> widest;
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target)) {
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, task.kernel, target);
    if (!sketch || !sketch->symbolic || sketch->trace.decisions.empty()) continue;
    if (!widest || sketch->trace.decisions.size() > widest->trace.decisions.size()) widest = std::move(*sketch);
  }
  return widest;
}

// Spaces of GPUs are searched on machines without one.
void add_gpu_rates(double seconds, std::vector<Row>& rows) {
  Result<target::Target> gpu = target::find_target("h100");
  TCC_CHECK(gpu.has_value());
  const task::Task gemm = task::make_gemm({.m = 1024, .n = 1024, .k = 1024});
  const task::Task conv = task::make_conv({.channels = 3,
                                           .filters = 64,
                                           .size = {224, 224},
                                           .kernel = {7, 7},
                                           .strides = {2, 2},
                                           .pads = {3, 3},
                                           .bias = true,
                                           .relu = true});
  for (const auto& [name, task] :
       {std::pair<std::string, const task::Task&>{"gemm1024.gpu", gemm}, {"conv2d_bn_relu.gpu", conv}}) {
    std::optional<space::Sketch> sketch = widest_sketch(task, *gpu);
    if (!sketch) {
      rows.push_back(
          {name + ".validate", 0, "1/s/core", "did not run: the space has no symbolic sketch with decisions", 0, 0});
      continue;
    }
    add_rate(name + ".validate", *sketch, Step::kMutate, instantiate(*gpu), seconds, rows);
    if (&task == &gemm) add_rate(name + ".replay_lower", *sketch, Step::kMutate, replay_lower(*gpu), seconds, rows);
  }
}

}  // namespace

std::vector<Row> run_search_suite(double seconds) {
  task::Task gemm = task::make_gemm({.m = 1024, .n = 1024, .k = 1024});
  target::Target host = target::host_target();
  Rng rng(1);
  schedule::Trace trace = gemm_trace(gemm.kernel, gemm.anchor_block, rng);
  ir::Legal<space::Sketch> sketch = space::make_sketch(trace, gemm.kernel, host);
  TCC_CHECK(sketch.has_value() && sketch->symbolic);
  std::vector<Row> rows;
  add_rate("gemm1024.replay", *sketch, Step::kDraw, replay, seconds, rows);
  add_rate("gemm1024.replay_lower", *sketch, Step::kDraw, replay_lower(host), seconds, rows);
  add_rate("gemm1024.instantiate", *sketch, Step::kDraw, instantiate(host), seconds, rows);
  add_gpu_rates(seconds, rows);
  add_draft_rates(seconds, rows);
  return rows;
}

}  // namespace tcc::benchmarks
