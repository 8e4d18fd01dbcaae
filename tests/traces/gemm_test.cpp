#include <catch2/catch.hpp>

#include "../../benchmarks/gemm_schedule.h"
#include "sample_tasks.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/task/task.h"

using namespace tcc;

TEST_CASE("gemm: instantiate equals replay and lower, and computes the same") {
  task::Task t = task::make_gemm({.m = 48, .n = 64, .k = 30});
  target::Target host = target::host_target();
  Rng rng(7);
  schedule::Trace trace = benchmarks::gemm_trace(t.kernel, t.anchor_block, rng);
  auto sketch = space::make_sketch(trace, t.kernel, host);
  REQUIRE(sketch);
  if (!sketch->symbolic) {
    auto arena = std::make_shared<Arena>();
    auto k = schedule::replay(trace, trace.decisions, t.kernel, arena);
    INFO(ir::print(*k));
    auto n = lower::lower(*k, host, ir::Stage::kNest, arena);
    INFO(ir::print(*n));
    auto m = space::instantiate({sketch->trace, sketch->start, sketch->nest, sketch->symbols, true, 0}, trace.decisions,
                                host, arena);
    INFO((m ? ir::print(*m) : m.error().text));
    INFO(ir::print(sketch->nest));
    CHECK(sketch->symbolic);
  }
  std::vector<int64_t> decisions = trace.decisions;
  for (int n = 0; n < 200; ++n) {
    space::draw_decisions(*sketch, decisions, rng);
    auto a = std::make_shared<Arena>(), b = std::make_shared<Arena>();
    auto x = space::instantiate(*sketch, decisions, host, a);
    auto k = schedule::replay(trace, decisions, t.kernel, b);
    REQUIRE(k);
    auto y = lower::lower(*k, host, ir::Stage::kNest, b);
    REQUIRE(x.has_value() == y.has_value());
    if (!x) continue;
    CHECK(ir::hash_kernel(*x) == ir::hash_kernel(*y));
    for (const auto& f : ir::verify(*x)) FAIL(f << ir::print(*x));
    for (const auto& f : ir::verify(*k)) FAIL(f << ir::print(*k));
  }
}
