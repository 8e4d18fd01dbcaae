// The simulated GPU: deterministic, of the kinds of behavior that devices have, and never stuck on a program that a
// search may draw.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "sample_tasks.h"
#include "tcc/cost/gpu_model.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/simulation/multiprocessor.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/support/files.h"
#include "traces/task_shapes.h"

using namespace tcc;

namespace {

struct Drawn {
  double simulated = 0, predicted = 0;
  int64_t events = 0;
};

// `count` programs of each design space of the task.
std::vector<Drawn> draw(const task::Task& task, const target::Target& target, const simulation::Machine& machine,
                        int count) {
  std::vector<Drawn> out;
  Rng rng(7);
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target, {})) {
    std::vector<int64_t> decisions = trace.decisions;
    int made = 0;
    for (int i = 0; i < 40 * count && made < count; ++i) {
      auto arena = std::make_shared<Arena>();
      auto scheduled = i == 0 ? schedule::replay(trace, decisions, task.kernel, arena)
                              : schedule::sample(trace, decisions, task.kernel, arena, rng);
      if (!scheduled) continue;
      auto nest = lower::lower(*scheduled, target, ir::Stage::kNest, arena);
      if (!nest) continue;
      auto lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
      if (!lowered) continue;
      auto run = simulation::simulate(*lowered, target, machine);
      INFO(task.workload << " on " << target.name << "\n" << schedule::print_trace(trace));
      if (!run) FAIL(run.error().message << ir::print(*lowered));
      CHECK(run->seconds > 0);
      CHECK(std::isfinite(run->seconds));
      CHECK(simulation::simulate(*lowered, target, machine)->seconds == run->seconds);
      const auto facts = cost::gpu_facts(*nest, target);
      out.push_back({run->seconds, cost::predict_gpu_seconds(facts, target.cuda.launch_seconds), run->events});
      ++made;
    }
  }
  return out;
}

// A copy of n floats by blocks of 128 threads; neighbors are `stride` elements apart.
ir::Kernel copy(int64_t n, int64_t stride, const char* index) {
  const std::string text = fmt::format(
      "kernel lowered {{\n  input x: f32[{0}]\n  output y: f32[{0}]\n  for b in {1} bound(grid.x) {{\n    for t in 128 "
      "bound(thread.x) {{\n      y[b*128 + t] = x[{2}]\n    }}\n  }}\n}}\n",
      n * stride, n / 128, index);
  auto kernel = ir::parse(text);
  if (!kernel) FAIL(kernel.error().message << text);
  return *kernel;
}

double seconds(const ir::Kernel& kernel, const simulation::Machine& machine, const char* name = "a100") {
  auto run = simulation::simulate(kernel, target::find_target(name).value(), machine);
  if (!run) FAIL(run.error().message);
  return run->seconds;
}

}  // namespace

TEST_CASE("the simulated GPU behaves as devices do where the answer is known") {
  for (uint64_t seed : {1, 2, 3}) {
    const simulation::Machine m = simulation::draw_machine(seed);
    constexpr int64_t n = int64_t{1} << 22;
    const double plain = seconds(copy(n, 1, "b*128 + t"), m) - m.launch_seconds;
    // Twice the data takes twice as long, and no copy is faster than memory.
    const double twice = seconds(copy(2 * n, 1, "b*128 + t"), m) - m.launch_seconds;
    CHECK(twice == Approx(2 * plain).epsilon(0.1));
    const target::Target a100 = target::find_target("a100").value();
    CHECK(plain > 8.0 * static_cast<double>(n) / a100.memory_bandwidth);
    // Neighbors that are 32 bytes apart move eight times the sectors.
    const double apart = seconds(copy(n, 8, "b*1024 + t*8"), m) - m.launch_seconds;
    CHECK(apart > 3 * plain);
    // All threads read one place, which caches hold.
    CHECK(seconds(copy(n, 1, "0"), m) - m.launch_seconds < plain);
    // The same kernel on a device with less bandwidth.
    CHECK(seconds(copy(n, 1, "b*128 + t"), m, "t4") - m.launch_seconds > 2 * plain);
  }
}

TEST_CASE("shared memory of the simulated GPU serves conflicts one after the other") {
  const auto kernel = [](int64_t pad) {
    const std::string text = fmt::format(
        "kernel lowered {{\n  input x: f32[1024]\n  output y: f32[1024]\n  temp s: f32[32, {0}] shared\n  for b in 1 "
        "bound(grid.x) {{\n    for t in 32 bound(thread.x) {{\n      alloc s {{\n        for i in 4096 {{\n          "
        "s[t, i % 32] = 1.0\n        }}\n        y[t] = s[t, 0]\n      }}\n    }}\n  }}\n}}\n",
        pad);
    auto parsed = ir::parse(text);
    if (!parsed) FAIL(parsed.error().message << text);
    return *parsed;
  };
  const simulation::Machine m = simulation::draw_machine(4);
  CHECK(seconds(kernel(32), m) > 2 * seconds(kernel(33), m));
}

TEST_CASE("seeds of the simulated GPU are machines of their own") {
  const simulation::Machine a = simulation::draw_machine(1), b = simulation::draw_machine(2);
  CHECK(a.l2_latency != b.l2_latency);
  CHECK(simulation::draw_machine(1).l2_latency == a.l2_latency);
  const auto kernel = copy(1 << 20, 1, "b*128 + t");
  CHECK(seconds(kernel, a) != seconds(kernel, b));
}

TEST_CASE("every program that a search may draw ends on the simulated GPU", "[traces]") {
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  size_t programs = 0;
  for (const char* name : {"t4", "a100", "h200"}) {
    const target::Target target = target::find_target(name).value();
    const std::vector<task::Task> tasks = testing::task_shapes();
    for (size_t n = 0; n < tasks.size(); ++n) {
      if (!soak && n % 3 != 0) continue;
      programs += draw(tasks[n], target, simulation::draw_machine(n), soak ? 20 : 3).size();
    }
    for (const auto dtype : {graph::DType::kF16, graph::DType::kF32})
      programs += draw(task::make_gemm({.m = 512, .n = 384, .k = 256, .bias = true, .dtype = dtype}), target,
                       simulation::draw_machine(5), soak ? 60 : 6)
                      .size();
  }
  CHECK(programs > 300);
}

TEST_CASE("rates of the simulated GPU", "[.rates]") {
  const char* name = std::getenv("TCC_SIMULATED");
  const target::Target target = target::find_target(name == nullptr ? "a100" : name).value();
  for (const auto& task :
       {task::make_gemm({.m = 1024, .n = 1024, .k = 1024}),
        task::make_gemm({.m = 1024, .n = 1024, .k = 1024, .dtype = graph::DType::kF16}),
        task::make_conv({.channels = 64, .filters = 64, .size = {56, 56}, .kernel = {3, 3}, .pads = {1, 1}})}) {
    Stopwatch watch;
    const auto drawn = draw(task, target, simulation::draw_machine(1), 40);
    double best = 1e9, worst = 0;
    int64_t events = 0;
    std::vector<std::pair<double, double>> pairs;
    for (const Drawn& d : drawn) {
      best = std::min(best, d.simulated), worst = std::max(worst, d.simulated), events += d.events;
      pairs.push_back({d.simulated, d.predicted});
    }
    double concordant = 0, all = 0;
    for (size_t i = 0; i < pairs.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        all += 1;
        concordant += (pairs[i].first < pairs[j].first) == (pairs[i].second < pairs[j].second) ? 1 : 0;
      }
    std::sort(pairs.begin(), pairs.end());
    WARN(task.workload << ": " << drawn.size() << " programs in " << watch.seconds() << " s (twice), events " << events
                       << ", best " << best * 1e6 << " us, worst " << worst * 1e6 << " us, pairs agree "
                       << concordant / std::max(all, 1.0));
    for (size_t i = 0; i < std::min<size_t>(pairs.size(), 6); ++i)
      WARN("  " << pairs[i].first * 1e6 << " predicted " << pairs[i].second * 1e6);
  }
}
