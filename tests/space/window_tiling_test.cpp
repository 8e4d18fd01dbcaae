// Depthwise convolutions, pooling, vector times matrix: what the tiles compute, and how few sketches there are.
#include <algorithm>
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

// Every sketch with two draws of its decisions, lowered, against the naive nest.
void check_space(const task::Task& t, const target::Target& target) {
  INFO(t.workload);
  std::vector<double> want = run_kernel(t.kernel);
  Rng rng(11);
  std::vector<schedule::Trace> traces = space::generate_space(t.kernel, target);
  CHECK(traces.size() <= 6);
  int64_t ran = 0;
  for (const schedule::Trace& trace : traces) {
    INFO(schedule::print_trace(trace));
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
    REQUIRE(sketch.has_value());
    CHECK(sketch->symbolic);
    CHECK(trace.decisions.size() <= 3);
    std::vector<int64_t> decisions = trace.decisions;
    for (int draw = 0; draw < 2; ++draw) {
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, target, arena);
      REQUIRE(nest.has_value());
      ir::Legal<ir::Kernel> lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
      REQUIRE(lowered.has_value());
      INFO(ir::print(*lowered));
      check_close(run_kernel(*lowered), want);
      space::draw_decisions(*sketch, decisions, rng);
      ++ran;
    }
  }
  CHECK(ran >= 2);
}

bool has_vector_loop(const ir::Kernel& k) {
  bool found = false;
  ir::visit(k.root, [&](ir::Stmt s) {
    const ir::Loop* l = ir::as<ir::Loop>(s);
    found |= l != nullptr && l->loop_kind == ir::LoopKind::kVectorized;
    return true;
  });
  return found;
}

task::ConvParams depthwise(int64_t channels, std::vector<int64_t> size, std::vector<int64_t> kernel) {
  task::ConvParams p{.channels = channels, .filters = channels, .group = channels};
  p.size = std::move(size);
  p.kernel = std::move(kernel);
  return p;
}

}  // namespace

TEST_CASE("tiled depthwise convolutions compute what the naive nest computes") {
  std::vector<task::ConvParams> shapes;
  for (int64_t stride : {1, 2, 3}) {
    task::ConvParams p = depthwise(3, {17, 23}, {3, 3});
    p.strides = {stride, stride};
    p.pads = {1, 1};
    p.bias = p.relu = stride != 2;
    shapes.push_back(p);
    p.pads = {};
    p.residual = true;
    shapes.push_back(p);
  }
  task::ConvParams wide = depthwise(2, {13, 29}, {5, 3});
  wide.batch = 2, wide.pads = {4, 2}, wide.dilations = {2, 2};
  shapes.push_back(wide);
  task::ConvParams small = depthwise(5, {7, 7}, {3, 3});
  small.pads = {1, 1}, small.relu = true;
  shapes.push_back(small);
  task::ConvParams line = depthwise(4, {37}, {7});
  line.pads = {3};
  shapes.push_back(line);
  // Two filters for each channel.
  task::ConvParams twice = depthwise(3, {11, 13}, {3, 3});
  twice.filters = 6, twice.pads = {1, 1};
  shapes.push_back(twice);
  for (const task::ConvParams& p : shapes)
    for (const char* name : {"x86-64-v3", "x86-64-v4"}) check_space(task::make_conv(p), named_target(name));
}

TEST_CASE("tiled pools compute what the naive nest computes") {
  for (bool average : {false, true})
    for (int64_t stride : {1, 2, 3})
      for (int64_t pad : {0, 1}) {
        task::PoolParams p{.average = average, .channels = 3, .size = {19, 31}, .kernel = {3, 3}};
        p.strides = {stride, stride};
        p.pads = {pad, pad};
        p.ceil_mode = stride == 3;
        check_space(task::make_pool(p), named_target("x86-64-v3"));
      }
}

TEST_CASE("a pool over the whole image does not count as a window") {
  task::Task t = task::make_pool({.average = true, .channels = 8, .size = {7, 7}, .kernel = {7, 7}});
  // Its rows are summed in lanes of partial sums.
  int64_t in_lanes = 0;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, named_target("x86-64-v3")))
    in_lanes += schedule::print_trace(trace).find("rfactor") != std::string::npos;
  CHECK(in_lanes > 0);
}

TEST_CASE("tiles of a vector times a matrix compute what the naive nest computes") {
  for (auto [n, k] : {std::pair<int64_t, int64_t>{64, 32}, {101, 37}, {250, 53}, {7, 40}, {16, 1000}})
    for (bool transposed : {false, true})
      check_space(task::make_gemm({.m = 1,
                                   .n = n,
                                   .k = k,
                                   .bias = true,
                                   .relu = transposed,
                                   .constant_weights = true,
                                   .trans_b = transposed}),
                  named_target("x86-64-v3"));
}

TEST_CASE("windows and vectors times matrices have few sketches") {
  task::ConvParams p = depthwise(32, {112, 112}, {3, 3});
  p.pads = {1, 1}, p.bias = p.relu = true;
  std::vector<task::Task> tasks;
  tasks.push_back(task::make_conv(p));
  tasks.push_back(
      task::make_pool({.channels = 64, .size = {112, 112}, .kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1}}));
  tasks.push_back(task::make_gemm({.m = 1, .n = 4096, .k = 4096, .constant_weights = true}));
  for (const task::Task& t : tasks)
    for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
      target::Target target = named_target(name);
      std::vector<schedule::Trace> traces = space::generate_space(t.kernel, target);
      INFO(t.workload << " on " << name);
      CHECK(traces.size() <= 4);
      for (const schedule::Trace& trace : traces) {
        INFO(schedule::print_trace(trace));
        CHECK(trace.decisions.size() >= 2);
        CHECK(trace.decisions.size() <= 3);
        auto arena = std::make_shared<Arena>();
        ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, t.kernel, arena);
        REQUIRE(k.has_value());
        CHECK(has_vector_loop(*k));
        // Large outputs take no part of the sums away from the registers.
        ir::Legal<ir::Kernel> lowered = lower::lower(*k, target, ir::Stage::kLowered, arena);
        REQUIRE(lowered.has_value());
        CHECK(std::any_of(lowered->buffers.begin(), lowered->buffers.end(),
                          [](const ir::Buffer* b) { return b->scope == ir::Scope::kLocal; }));
      }
    }
}
