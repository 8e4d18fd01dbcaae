// The design spaces of random tasks: sketches make the same of drawn decisions as replay and lowering do.
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "random_task.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"

using namespace tcc;

namespace {

// A task, a target and one of the spaces, all by the seed.
struct Case {
  task::Task task;
  target::Target target;
  space::SpaceOptions options;
};

Case draw_case(uint64_t seed, Rng& rng) {
  Case c{testing::RandomTask(rng).draw(), {}, {.seed = seed}};
  constexpr std::array kTargets = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v3", "a100", "h200"};
  c.target = *target::find_target(kTargets[seed % kTargets.size()]);
  // The default space, or the rules of MetaSchedule alone.
  if (c.target.is_cpu() && rng.below(2) == 0)
    c.options.modules = {
        "inline_constants",         "auto_inline", "add_rfactor", "multi_level_tiling", "random_compute_location",
        "parallel_vectorize_unroll"};
  return c;
}

std::string difference(const ir::Legal<ir::Kernel>& sketch, const ir::Legal<ir::Kernel>& replay) {
  if (sketch.has_value() == replay.has_value() && (!sketch || ir::hash_kernel(*sketch) == ir::hash_kernel(*replay)))
    return {};
  auto text = [](const ir::Legal<ir::Kernel>& k) { return k ? ir::print(*k) : k.error().text + "\n"; };
  return "of the sketch:\n" + text(sketch) + "of replay:\n" + text(replay);
}

}  // namespace

TEST_CASE("sketches of random tasks equal replay and lower", "[traces]") {
  const char* only = std::getenv("TCC_TRACE_SEED");
  const int64_t wanted = std::getenv("TCC_SOAK") != nullptr ? 100000 : 4000;
  int64_t draws = 0, sketches = 0, symbolic = 0, tasks = 0;
  for (uint64_t seed = only != nullptr ? std::strtoull(only, nullptr, 10) : 0; draws < wanted; ++seed, ++tasks) {
    Rng rng(seed);
    const Case c = draw_case(seed, rng);
    INFO("TCC_TRACE_SEED=" << seed << ", " << c.task.workload << ", " << c.target.name);
    for (const schedule::Trace& trace : space::generate_space(c.task.kernel, c.target, c.options)) {
      if (trace.decisions.empty()) continue;
      auto sketch = space::make_sketch(trace, c.task.kernel, c.target);
      REQUIRE(sketch.has_value());
      INFO(schedule::print_trace(trace));
      CHECK_FALSE(sketch->disagrees);
      ++sketches;
      if (!sketch->symbolic) continue;  // it replays
      ++symbolic;
      std::vector<int64_t> decisions = sketch->trace.decisions;
      for (int i = 0; i < 10; ++i, ++draws) {
        space::draw_decisions(*sketch, decisions, rng);
        auto arena = std::make_shared<Arena>();
        ir::Legal<ir::Kernel> expected = schedule::replay(sketch->trace, decisions, c.task.kernel, arena);
        if (expected) expected = lower::lower(*expected, c.target, ir::Stage::kNest, arena);
        const std::string wrong = difference(space::instantiate(*sketch, decisions, c.target, arena), expected);
        if (!wrong.empty()) FAIL(fmt::format("decisions {}\n{}", fmt::join(decisions, " "), wrong));
      }
    }
    if (only != nullptr) break;
  }
  WARN(draws << " draws of " << symbolic << " symbolic sketches of " << sketches << ", " << tasks << " tasks");
  if (only == nullptr) CHECK(5 * symbolic >= 4 * sketches);
}
