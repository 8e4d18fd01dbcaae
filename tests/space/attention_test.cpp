// The attention module: one kernel, whatever the shapes, equal to the naive nest.
#include <catch2/catch.hpp>

#include "run_kernel.h"
#include "sample_tasks.h"
#include "tcc/ir/walk.h"

using namespace tcc;

namespace {

std::vector<task::AttentionParams> shapes() {
  return {{.heads = 2, .queries = 7, .keys = 11, .depth = 5, .mask = true},
          {.batch = 2, .heads = 3, .queries = 16, .keys = 13, .depth = 8, .width = 6},
          {.heads = 1, .queries = 33, .keys = 1, .depth = 3},
          {.heads = 2, .queries = 40, .keys = 64, .depth = 16, .mask = true, .heads_first = true},
          {.heads = 1, .queries = 17, .keys = 37, .depth = 1, .width = 19}};
}

bool is_one_pass(const schedule::Trace& trace) {
  return std::any_of(trace.instructions.begin(), trace.instructions.end(),
                     [](const auto& in) { return in.op == schedule::Op::kStreamReduction; });
}

}  // namespace

TEST_CASE("attention is one pass over the keys on every CPU") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (const task::AttentionParams& p : shapes()) {
      const task::Task t = task::make_attention(p);
      CHECK(t.anchor == task::AnchorKind::kAttention);
      INFO(t.workload << ir::print(t.kernel));
      const target::Target target = named_target(name);
      const std::vector<schedule::Trace> space = space::generate_space(t.kernel, target);
      REQUIRE_FALSE(space.empty());
      CHECK(std::all_of(space.begin(), space.end(), is_one_pass));
      CHECK(check_draws(t, target) > 0);
    }
}

TEST_CASE("the pass over the keys keeps no matrix of scores") {
  const task::Task t = task::make_attention({.heads = 2, .queries = 64, .keys = 512, .depth = 16});
  const target::Target target = named_target("x86-64-v4");
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    auto arena = std::make_shared<Arena>();
    auto k = schedule::replay(trace, trace.decisions, t.kernel, arena);
    REQUIRE(k);
    auto nest = lower::lower(*k, target, ir::Stage::kNest, arena);
    REQUIRE(nest);
    INFO(ir::print(*nest));
    for (const ir::Buffer* b : nest->buffers) {
      if (b->role != ir::BufferRole::kTemp) continue;
      int64_t elements = 1;
      for (ir::Expr e : b->shape) elements *= ir::int_value(e);
      CHECK(elements <= 128 * 64);
    }
  }
}
