// Schedules of convolutions by tiles: matrix products in register tiles, one parallel region for each other block, and
// the values of the naive nest, interpreted and compiled.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "run_kernel.h"
#include "tcc/codegen/llvm.h"
#include "tcc/graph/winograd.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/support/rng.h"
#include "tcc/task/task.h"

using namespace tcc;

namespace {

ir::Kernel tiles_kernel(int64_t channels, int64_t filters, int64_t size, int64_t m) {
  graph::Graph g;
  auto x = g.add_input("x", graph::DType::kF32, {1, channels, size, size});
  graph::ConvAttrs a{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1};
  a.winograd = m;
  auto w = g.add_constant("w", graph::DType::kF32, {(m + 2) * (m + 2), filters, channels},
                          graph::make_splat(graph::DType::kF32, 1));
  auto bias = g.add_constant("b", graph::DType::kF32, {filters}, graph::make_splat(graph::DType::kF32, 1));
  auto y = g.add_node(graph::Op::kConv, a, {x, w, bias}, "conv");
  REQUIRE(y.has_value());
  auto z = g.add_node(graph::Op::kRelu, graph::NoAttrs{}, {*y}, "relu");
  REQUIRE(z.has_value());
  g.add_output(*z, "z");
  auto task = task::make_task(g, graph::fuse(g)[0]);
  REQUIRE(task.has_value());
  return task->kernel;
}

std::vector<double> run_compiled(const ir::Kernel& lowered, const target::Target& target) {
  auto artifact = codegen::compile_host(lowered, target);
  if (!artifact) FAIL(artifact.error().message);
  auto object = codegen::load_host(*artifact);
  if (!object) FAIL(object.error().message);
  const Params params(lowered);
  const std::vector<interp::TensorData>& data = params.data;
  std::vector<std::vector<float>> storage;
  std::vector<void*> pointers;
  size_t parameter = 0, output = 0;
  for (const codegen::BufferInfo& b : artifact->buffers) {
    storage.emplace_back(static_cast<size_t>(b.bytes) / 4 + 32);
    auto address = (reinterpret_cast<uintptr_t>(storage.back().data()) + 63) / 64 * 64;
    auto* to = reinterpret_cast<float*>(address);
    pointers.push_back(to);
    if (b.role == ir::BufferRole::kTemp) continue;
    if (b.role == ir::BufferRole::kOutput) output = pointers.size() - 1;
    for (int64_t i = 0; i < data[parameter].size(); ++i) to[i] = static_cast<float>(data[parameter].at(i));
    ++parameter;
  }
  for (const codegen::Launch& l : artifact->launches) (*object)->function(l.symbol)(pointers.data(), 0, l.extent);
  const auto* made = static_cast<const float*>(pointers[output]);
  return {made, made + data.back().size()};
}

}  // namespace

TEST_CASE("schedules of convolutions by tiles compute what the naive nest computes") {
  const target::Target host = target::host_target();
  space::SpaceOptions options;
  options.pack_weights = false;  // so that the weights go in as they are
  for (int64_t m : {2, 4}) {
    const ir::Kernel kernel = tiles_kernel(5, 9, 14, m);
    const std::vector<double> want = run_kernel(kernel);
    Rng rng(11);
    int64_t compiled = 0;
    for (const schedule::Trace& trace : space::generate_space(kernel, host, options)) {
      INFO(schedule::print_trace(trace));
      ir::Legal<space::Sketch> sketch = space::make_sketch(trace, kernel, host);
      REQUIRE(sketch.has_value());
      std::vector<int64_t> decisions = trace.decisions;
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, host, arena);
      if (!nest) continue;
      ir::Legal<ir::Kernel> lowered = lower::lower(*nest, host, ir::Stage::kLowered, arena);
      if (!lowered) continue;
      INFO(ir::print(*lowered));
      const std::vector<double> read = run_kernel(*lowered), got = run_compiled(*lowered, host);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        INFO("element " << i << " is " << got[i]);
        REQUIRE(read[i] == want[i]);  // small integers: exact in every order
        REQUIRE(got[i] == want[i]);
      }
      ++compiled;
    }
    CHECK(compiled > 0);
  }
}

TEST_CASE("the products of a convolution by tiles are tiled and the transforms run once, in parallel") {
  auto target = target::find_target("x86-64-v3");
  REQUIRE(target.has_value());
  for (int64_t m : {2, 4}) {
    const ir::Kernel kernel = tiles_kernel(16, 16, 28, m);
    int64_t tiled = 0;
    for (const schedule::Trace& trace : space::generate_space(kernel, *target)) {
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = schedule::replay(trace, trace.decisions, kernel, arena);
      REQUIRE(nest.has_value());
      INFO(ir::print(*nest));
      bool local = false;
      for (const ir::Buffer* b : nest->buffers) local |= b->scope == ir::Scope::kLocal;
      tiled += local;
      for (const char* name : {"winograd_input", "winograd_output"}) {
        const ir::Id block = schedule::find_block_by_name(*nest, name);
        REQUIRE(block != ir::kNoId);
        int64_t parallel = 0, vectors = 0;
        for (ir::Id id : schedule::loops_of(*nest, block)) {
          const ir::LoopKind kind = ir::find_loop(nest->root, id)->loop_kind;
          parallel += kind == ir::LoopKind::kParallel;
          vectors += kind == ir::LoopKind::kVectorized;
        }
        CHECK(parallel == 1);
        CHECK(vectors == 1);
      }
    }
    CHECK(tiled > 0);
  }
}
