// Convolutions on blocked channels: every program of the space computes what the naive nest computes, whole vectors are
// stored, and the weights are packed as the tile reads them.
#include <catch2/catch.hpp>
#include <cmath>

#include "run_kernel.h"
#include "sample_tasks.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/task/task.h"

using namespace tcc;

namespace {

bool has_local(const ir::Kernel& k) {
  for (const ir::Buffer* b : k.buffers)
    if (b->scope == ir::Scope::kLocal) return true;
  return false;
}

}  // namespace

TEST_CASE("tiled convolutions on blocked channels compute what the naive nest computes") {
  std::vector<task::ConvParams> shapes;
  shapes.push_back({.channels = 16,
                    .filters = 32,
                    .size = {7, 9},
                    .kernel = {3, 3},
                    .pads = {1, 1},
                    .bias = true,
                    .relu = true,
                    .residual = true,
                    .block_in = 8,
                    .block_out = 8});
  shapes.push_back({.channels = 3,  // plain image
                    .filters = 24,
                    .size = {11, 13},
                    .kernel = {5, 5},
                    .strides = {2, 2},
                    .pads = {2, 2},
                    .bias = true,
                    .block_out = 8});
  shapes.push_back(
      {.batch = 2, .channels = 8, .filters = 16, .size = {5, 6}, .kernel = {1, 1}, .block_in = 4, .block_out = 16});
  shapes.push_back(
      {.channels = 16, .filters = 16, .size = {9}, .kernel = {3}, .pads = {1}, .block_in = 8, .block_out = 8});
  shapes.push_back({.channels = 16,
                    .filters = 16,
                    .group = 16,
                    .size = {9, 7},
                    .kernel = {3, 3},
                    .strides = {2, 1},
                    .pads = {1, 1},
                    .bias = true,
                    .block_in = 8,
                    .block_out = 8});
  shapes.push_back({.channels = 8, .filters = 6, .size = {6, 5}, .kernel = {3, 3}, .pads = {1, 1}, .block_in = 4});
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (const task::ConvParams& shape : shapes) CHECK(check_draws(task::make_conv(shape), named_target(name)) > 0);
}

TEST_CASE("the lanes of a blocked convolution are its filters, and its weights are packed for them") {
  target::Target target = named_target("x86-64-v3");
  for (int64_t group : {1, 64}) {
    task::Task t = task::make_conv({.channels = 64,
                                    .filters = 64,
                                    .group = group,
                                    .size = {28, 28},
                                    .kernel = {3, 3},
                                    .pads = {1, 1},
                                    .block_in = 8,
                                    .block_out = 8});
    auto traces = space::generate_space(t.kernel, target);
    REQUIRE(!traces.empty());
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest = schedule::replay(traces[0], traces[0].decisions, t.kernel, arena);
    REQUIRE(nest.has_value());
    bool packed = false;
    for (const ir::Buffer* b : nest->buffers)
      packed = packed || (b->role == ir::BufferRole::kWeight && b->layout != nullptr);
    INFO(ir::print(*nest));
    CHECK(packed);
    ir::Legal<ir::Kernel> lowered = lower::lower(*nest, target, ir::Stage::kNest, arena);
    REQUIRE(lowered.has_value());
    CHECK(has_local(*lowered));
    int64_t vectors = 0;
    ir::visit(lowered->root, [&](ir::Stmt s) {
      const ir::Loop* l = ir::as<ir::Loop>(s);
      if (l != nullptr && l->loop_kind == ir::LoopKind::kVectorized) {
        CHECK(ir::int_value(l->extent) == 8);
        ++vectors;
      }
      return true;
    });
    CHECK(vectors >= 3);  // padding, sums and what leaves
  }
}

TEST_CASE("the rows of a wide plain image are copied in vectors that can be written out") {
  task::Task t = task::make_conv({.channels = 3,
                                  .filters = 64,
                                  .size = {224, 224},
                                  .kernel = {7, 7},
                                  .strides = {2, 2},
                                  .pads = {3, 3},
                                  .bias = true,
                                  .block_out = 8});
  // The space leaves out programs that cannot be lowered.
  CHECK(space::generate_space(t.kernel, named_target("x86-64-v3")).size() >= 4);
}
