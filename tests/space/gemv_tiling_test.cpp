// Tiles of a vector times a matrix: what the space holds for each number of registers, and that all of it is right.
#include <algorithm>
#include <set>

#include "run_kernel.h"
#include "sample_tasks.h"
#include "tcc/ir/walk.h"
#include "tcc/support/rng.h"

using namespace tcc;

namespace {

// Elements of the local sums of a tile.
int64_t widest_tile(const ir::Kernel& nest) {
  int64_t widest = 0;
  for (const ir::Buffer* b : nest.buffers) {
    if (b->role != ir::BufferRole::kTemp || b->scope != ir::Scope::kLocal) continue;
    int64_t elements = 1;
    for (ir::Expr e : b->shape) elements *= ir::int_value(e);
    widest = std::max(widest, elements);
  }
  return widest;
}

std::set<int64_t> prefetches(const ir::Kernel& nest) {
  std::set<int64_t> found;
  ir::visit(nest.root, [&](ir::Stmt s) {
    if (const ir::Loop* l = ir::as<ir::Loop>(s))
      for (const ir::Annotation& a : l->annotations)
        if (a.key == ir::AnnotationKey::kPrefetch && ir::is_int(a.value)) found.insert(ir::int_value(a.value));
    return true;
  });
  return found;
}

}  // namespace

TEST_CASE("tiles of a vector times a matrix fill half of the registers at most, and are right") {
  const task::Task task = task::make_gemm({.m = 1, .n = 512, .k = 96, .bias = true, .constant_weights = true});
  const std::vector<double> want = run_kernel(task.kernel);
  for (const auto& [name, widest] :
       {std::pair("x86-64-v3", int64_t{8 * 8}), std::pair("x86-64-v4", int64_t{16 * 16})}) {
    INFO(name);
    const target::Target target = named_target(name);
    std::set<int64_t> distances, tiles;
    Rng rng(4);
    for (const schedule::Trace& trace : space::generate_space(task.kernel, target)) {
      ir::Legal<space::Sketch> sketch = space::make_sketch(trace, task.kernel, target);
      REQUIRE(sketch.has_value());
      for (int draw = 0; draw < 6; ++draw) {
        std::vector<int64_t> decisions = trace.decisions;
        if (draw > 0) space::draw_decisions(*sketch, decisions, rng);
        auto arena = std::make_shared<Arena>();
        ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, target, arena);
        REQUIRE(nest.has_value());
        distances.merge(prefetches(*nest));
        tiles.insert(widest_tile(*nest));
        ir::Legal<ir::Kernel> lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
        REQUIRE(lowered.has_value());
        check_close(run_kernel(*lowered), want);
      }
    }
    CHECK(*tiles.rbegin() == widest);
    CHECK(tiles.size() >= 2);
    CHECK(distances.contains(16));
    CHECK(distances.contains(32));
  }
}

TEST_CASE("a matrix that is an input is read row by row, and a short one is not") {
  const auto reads_rows = [](const task::Task& task, const target::Target& target) {
    for (const schedule::Trace& trace : space::generate_space(task.kernel, target)) {
      auto arena = std::make_shared<Arena>();
      const ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, task.kernel, arena);
      REQUIRE(k.has_value());
      // Rows of the sum are inside of the loop over columns, whose sums are kept.
      if (widest_tile(*k) >= 512) return true;
    }
    return false;
  };
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const target::Target target = named_target(name);
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{640, 70}, {1000, 33}, {512, 64}}) {
      const task::Task task = task::make_gemm({.m = 1, .n = n, .k = k, .bias = true, .constant_weights = false});
      INFO(task.workload);
      CHECK(check_draws(task, target) > 0);
      CHECK(reads_rows(task, target));
    }
    CHECK_FALSE(reads_rows(task::make_gemm({.m = 1, .n = 64, .k = 800, .constant_weights = false}), target));
  }
}
