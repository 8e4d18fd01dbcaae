// Tiles of convolutions: their results, their registers, and the place of the padded input.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "run_kernel.h"
#include "sample_tasks.h"
#include "tcc/ir/query.h"
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

TEST_CASE("lanes of filters are left out where each position has a condition") {
  const target::Target target = named_target("x86-64-v4");
  const task::Task t =
      task::make_conv({.batch = 3, .channels = 273, .filters = 10, .size = {12, 12}, .kernel = {3, 3}, .pads = {1, 1}});
  int64_t conditions = 0, copies = 0;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest = schedule::replay(trace, trace.decisions, t.kernel, arena);
    REQUIRE(nest.has_value());
    nest = lower::lower(*nest, target, ir::Stage::kNest, arena);
    REQUIRE(nest.has_value());
    INFO(ir::print(*nest));
    const bool copied = std::any_of(nest->buffers.begin(), nest->buffers.end(),
                                    [&](const ir::Buffer* b) { return ir::name_hint(*nest, b->id) == "pad_out"; });
    ++(copied ? copies : conditions);
    std::vector<ir::Id> lanes;
    ir::visit(nest->root, [&](ir::Stmt s) {
      const ir::Loop* l = ir::as<ir::Loop>(s);
      if (l != nullptr && l->loop_kind == ir::LoopKind::kVectorized) lanes.push_back(l->id);
      return true;
    });
    if (copied) continue;
    ir::visit_loads(nest->root, [&](const ir::Load& load) {
      if (load.predicate == nullptr) return;
      CHECK(std::any_of(lanes.begin(), lanes.end(), [&](ir::Id id) { return ir::mentions(load.indices.back(), id); }));
    });
  }
  CHECK(conditions > 0);
  CHECK(copies > 0);
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
    int64_t blocks = 0;
    ir::visit(nest->root, [&](ir::Stmt s) {
      const ir::Loop* l = ir::as<ir::Loop>(s);
      if (l == nullptr || std::none_of(l->annotations.begin(), l->annotations.end(),
                                       [](const auto& a) { return a.key == ir::AnnotationKey::kPrefetch; }))
        return true;
      // The weights of a block, for at least a vector of filters, are a quarter of the first level.
      ++blocks;
      int64_t channels = ir::int_value(l->extent);
      CHECK(128 % channels == 0);
      CHECK(channels * 9 * 8 * 4 <= target.cpu.l1_bytes / 4);
      return true;
    });
    if (blocks == 0) continue;
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
  task::Task t = task::make_conv({.channels = 64, .filters = 64, .size = {56, 56}, .kernel = {3, 3}, .pads = {1, 1}});
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

TEST_CASE("a strided pointwise convolution is a product over positions that are copied side by side") {
  target::Target target = named_target("x86-64-v3");
  for (bool image : {true, false}) {
    task::ConvParams shape{.batch = 2,
                           .channels = 6,
                           .filters = 20,
                           .size = {9, 13},
                           .kernel = {1, 1},
                           .strides = {2, 2},
                           .bias = true,
                           .relu = true};
    if (!image) shape.size = {2, 5, 6}, shape.kernel = {1, 1, 1}, shape.strides = {1, 2, 3};
    task::Task t = task::make_conv(shape);
    CHECK(check_draws(t, target) > 0);
    int64_t copies = 0;
    for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
      INFO(schedule::print_trace(trace));
      ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
      REQUIRE(sketch.has_value());
      CHECK(sketch->symbolic);
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, trace.decisions, target, arena);
      REQUIRE(nest.has_value());
      // The rows of the input are walked without quotients, in vectors.
      int64_t rows = 0;
      ir::visit(nest->root, [&](ir::Stmt s) {
        const ir::Loop* l = ir::as<ir::Loop>(s);
        if (l != nullptr && l->loop_kind == ir::LoopKind::kVectorized && ir::is_int(l->extent, image ? 7 : 2))
          if (const ir::Store* st = ir::as<ir::Store>(l->body)) rows += ir::as<ir::Load>(st->value) != nullptr;
        return true;
      });
      copies += rows;
    }
    CHECK(copies > 0);
  }
}

TEST_CASE("lanes that are strided positions read a copy that is laid out by phases") {
  target::Target target = named_target("x86-64-v3");
  for (int64_t stride : {2, 3}) {
    task::Task t = task::make_conv({.channels = 3,
                                    .filters = 6,
                                    .size = {15, 54},
                                    .kernel = {5, 5},
                                    .strides = {stride, stride},
                                    .pads = {2, 2},
                                    .bias = true,
                                    .relu = true});
    CHECK(check_draws(t, target) > 0);
    int64_t phased = 0;
    for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
      INFO(schedule::print_trace(trace));
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, t.kernel, arena);
      REQUIRE(k.has_value());
      for (const ir::Buffer* b : k->buffers) {
        if (b->layout == nullptr || b->role != ir::BufferRole::kTemp) continue;
        ++phased;
        // The last digit is what is left of the columns, in front of it their remainders.
        REQUIRE(b->layout->digits.size() == 5);
        CHECK(b->layout->digits[3].dim == 3);
        CHECK(b->layout->digits[3].extent == stride);
        CHECK(b->layout->digits[4].divisor == stride);
        CHECK(b->layout->digits[4].stride == 1);
      }
    }
    CHECK(phased > 0);
  }
}
