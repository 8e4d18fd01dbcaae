// Tiles of convolutions: what they compute, what they keep in registers, and where the padded input goes.
#include <catch2/catch.hpp>
#include <cmath>

#include "run_kernel.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/task/task.h"

using namespace tcc;

namespace {

int64_t elements(const ir::Buffer& b) {
  int64_t n = 1;
  for (ir::Expr e : b.shape) n *= ir::int_value(e);
  return n;
}

}  // namespace

TEST_CASE("tiled convolutions of odd shapes compute what the naive nest computes") {
  target::Target target = named_target("x86-64-v3");
  std::vector<task::ConvParams> shapes;
  shapes.push_back({.channels = 3, .filters = 21, .size = {9, 13}, .kernel = {3, 3}, .pads = {1, 1}, .bias = true});
  shapes.push_back({.channels = 2, .filters = 32, .size = {7, 7}, .kernel = {3, 3}, .pads = {1, 1}, .residual = true});
  shapes.push_back({.batch = 2, .channels = 2, .filters = 16, .size = {11, 9}, .kernel = {5, 3}, .strides = {2, 1}});
  shapes.push_back({.channels = 3,
                    .filters = 17,
                    .size = {19, 19},
                    .kernel = {7, 7},
                    .strides = {2, 2},
                    .pads = {3, 3},
                    .bias = true,
                    .relu = true});
  shapes.push_back(
      {.channels = 4, .filters = 9, .size = {8, 21}, .kernel = {3, 3}, .dilations = {2, 2}, .pads = {2, 2}});
  shapes.push_back({.channels = 4, .filters = 24, .size = {29}, .kernel = {5}, .pads = {2}, .relu = true});
  shapes.push_back({.channels = 2, .filters = 16, .size = {4, 5, 6}, .kernel = {3, 3, 3}, .pads = {1, 1, 1}});
  shapes.push_back(
      {.channels = 5, .filters = 5, .group = 5, .size = {13, 21}, .kernel = {3, 3}, .pads = {1, 1}, .relu = true});
  shapes.push_back(
      {.channels = 3, .filters = 3, .group = 3, .size = {14, 18}, .kernel = {5, 5}, .strides = {2, 2}, .pads = {2, 2}});
  for (const task::ConvParams& shape : shapes) CHECK(check_draws(task::make_conv(shape), target) > 0);
}

TEST_CASE("the tile of a convolution and a step of its operands fit the vector registers") {
  for (int64_t size : {7, 14, 28, 56}) {
    task::Task t =
        task::make_conv({.channels = 64, .filters = 64, .size = {size, size}, .kernel = {3, 3}, .pads = {1, 1}});
    int64_t tiles = 0;
    for (const schedule::Trace& trace : space::generate_space(t.kernel, named_target("x86-64-v3"))) {
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = schedule::replay(trace, trace.decisions, t.kernel, arena);
      REQUIRE(nest.has_value());
      ir::Legal<ir::Kernel> lowered = lower::lower(*nest, named_target("x86-64-v3"), ir::Stage::kNest, arena);
      if (!lowered) continue;
      for (const ir::Buffer* b : lowered->buffers) {
        if (b->scope != ir::Scope::kLocal) continue;
        INFO(ir::print(*lowered));
        CHECK(elements(*b) <= 14 * 8);
        CHECK(elements(*b) >= 6 * 8);
        ++tiles;
      }
    }
    CHECK(tiles >= 4);
  }
}

TEST_CASE("channels are blocked around the positions where the weights of a tile overflow the second-level cache") {
  target::Target target = named_target("x86-64-v3");
  target.cpu.l2_bytes = 64 << 10;
  task::Task t =
      task::make_conv({.channels = 128, .filters = 20, .size = {5, 3}, .kernel = {3, 3}, .pads = {1, 1}, .relu = true});
  std::vector<double> want = run_kernel(t.kernel);
  int64_t blocked = 0;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    INFO(schedule::print_trace(trace));
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest = schedule::replay(trace, trace.decisions, t.kernel, arena);
    REQUIRE(nest.has_value());
    int64_t outer_channels = 0;
    ir::visit(nest->root, [&](ir::Stmt s) {
      const ir::Loop* l = ir::as<ir::Loop>(s);
      if (l != nullptr && ir::is_int(l->extent, 64)) ++outer_channels;
      return true;
    });
    if (outer_channels == 0) continue;
    ir::Legal<ir::Kernel> lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
    if (!lowered) continue;
    ++blocked;
    std::vector<double> got = run_kernel(*lowered);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) REQUIRE(std::fabs(got[i] - want[i]) <= 1e-5 * std::max(1.0, want[i]));
  }
  CHECK(blocked >= 2);
}

TEST_CASE("a padded input that is copied part by part stays in a core's stack") {
  task::Task t = task::make_conv({.channels = 128, .filters = 64, .size = {56, 56}, .kernel = {3, 3}, .pads = {1, 1}});
  int64_t staged = 0, refused = 0;
  Rng rng(5);
  for (const schedule::Trace& trace : space::generate_space(t.kernel, named_target("x86-64-v3"))) {
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, named_target("x86-64-v3"));
    REQUIRE(sketch.has_value());
    std::vector<int64_t> decisions = trace.decisions;
    for (int draw = 0; draw < 12; ++draw) {
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, named_target("x86-64-v3"), arena);
      space::draw_decisions(*sketch, decisions, rng);
      if (!nest) {
        CHECK(nest.error().reason == ir::RejectReason::kTooMuchLocal);
        ++refused;
        continue;
      }
      ir::visit(nest->root, [&](ir::Stmt s) {
        const ir::Loop* l = ir::as<ir::Loop>(s);
        if (l == nullptr) return true;
        int64_t bytes = 0;
        ir::visit(l->body, [&](ir::Stmt c) {
          if (const ir::Alloc* a = ir::as<ir::Alloc>(c))
            for (ir::Id id : a->buffers) bytes += 4 * elements(*nest->buffer(id));
          return true;
        });
        CHECK(bytes <= 256 << 10);
        if (bytes > 16 << 10) ++staged;
        return false;
      });
    }
  }
  CHECK(staged > 0);
  CHECK(refused > 0);
}
