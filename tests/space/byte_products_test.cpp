// Convolutions and products of integers of 8 bits with what follows them: every program of the space computes what the
// naive nest computes, on processors with and without instructions for them.
#include <catch2/catch.hpp>

#include "run_kernel.h"
#include "tcc/graph/passes.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"
#include "tcc/support/rng.h"
#include "tcc/target/features.h"

using namespace tcc;
using graph::DType;
using graph::Op;
using graph::ValueId;

namespace {

struct ByteConv {
  int64_t channels, filters;
  std::vector<int64_t> size, kernel;
  int64_t stride = 1, pad = 0, group = 1, block_in = 1, block_out = 1, zero = 0;
  DType left = DType::kU8;
};

// A graph of one group.
struct Net {
  graph::Graph g;
  Rng rng{3};
  ValueId node(Op op, graph::Attributes attrs, std::vector<ValueId> inputs) {
    auto id = g.add_node(op, std::move(attrs), std::move(inputs), "n");
    if (!id) FAIL(id.error().message);
    return *id;
  }
  ValueId number(double v) { return g.add_constant("", DType::kF32, {}, graph::make_splat(DType::kF32, v)); }
  ValueId weights(const graph::Shape& shape) {
    std::vector<double> w(static_cast<size_t>(graph::element_count(shape)));
    for (double& v : w) v = static_cast<double>(rng.below(256)) - 128;
    return g.add_constant("w", DType::kI8, shape, graph::make_constant_from_doubles(DType::kI8, w));
  }
  // Scales the sums, rounds them and makes them bytes again.
  task::Task quantized(ValueId y) {
    y = node(Op::kCast, graph::CastAttrs{DType::kF32}, {y});
    y = node(Op::kMul, graph::NoAttrs{}, {y, number(0.01)});
    y = node(Op::kUnary, graph::UnaryAttrs{graph::UnaryFn::kRound}, {y});
    y = node(Op::kAdd, graph::NoAttrs{}, {y, number(128)});
    y = node(Op::kClip, graph::ClipAttrs{0, 255}, {y});
    g.add_output(node(Op::kCast, graph::CastAttrs{DType::kU8}, {y}), "y");
    const std::vector<graph::FusionGroup> groups = graph::fuse(g);
    REQUIRE(groups.size() == 1);
    auto task = task::make_task(g, groups[0]);
    REQUIRE(task.has_value());
    return std::move(*task);
  }
};

task::Task make_task(const ByteConv& c) {
  Net net;
  graph::Shape in{1, c.channels / c.block_in};
  in.insert(in.end(), c.size.begin(), c.size.end());
  if (c.block_in > 1) in.push_back(c.block_in);
  graph::Shape weight{c.filters, c.channels / c.group};
  if (c.block_in > 1 && c.block_out > 1 && c.group == 1) weight = {c.filters / c.block_out, c.channels / c.block_in};
  weight.insert(weight.end(), c.kernel.begin(), c.kernel.end());
  if (c.block_in > 1 && c.block_out > 1 && c.group == 1) weight.insert(weight.end(), {c.block_in, c.block_out});
  graph::ConvAttrs a;
  const size_t n = c.kernel.size();
  a.kernel = c.kernel;
  a.strides.assign(n, c.stride), a.dilations.assign(n, 1), a.pads_begin.assign(n, c.pad), a.pads_end.assign(n, c.pad);
  a.group = c.group, a.block_in = c.block_in, a.block_out = c.block_out, a.pad_value = c.zero;
  return net.quantized(net.node(Op::kConv, a, {net.g.add_input("x", c.left, in), net.weights(weight)}));
}

task::Task make_product(DType left, int64_t m, int64_t n, int64_t k, bool transposed = false) {
  Net net;
  const ValueId w = net.weights(transposed ? graph::Shape{n, k} : graph::Shape{k, n});
  return net.quantized(
      net.node(Op::kGemm, graph::GemmAttrs{1, 1, false, transposed}, {net.g.add_input("x", left, {m, k}), w}));
}

target::Target with_vnni() {
  target::Target t = named_target("x86-64-v4");
  t.name = "with VNNI";
  t.cpu.features.avx512_vnni = true;
  return t;
}

target::Target with_vnni_and_tiles() {
  target::Target t = with_vnni();
  t.name = "with VNNI and AMX";
  t.cpu.features.amx_tile = t.cpu.features.amx_int8 = true;
  return t;
}

// The tiles' products that the programs' first draws call.
std::vector<int64_t> tile_products(const task::Task& t, const target::Target& target) {
  std::vector<int64_t> out;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    auto arena = std::make_shared<Arena>();
    auto k = schedule::replay(trace, trace.decisions, t.kernel, arena);
    REQUIRE(k.has_value());
    out.push_back(0);
    ir::visit(k->root, [&](ir::Stmt s) {
      const auto* call = ir::as<ir::InstrCall>(s);
      out.back() += call != nullptr && ir::instruction(call->instr).name.starts_with("amx.tdp");
      return true;
    });
  }
  return out;
}

// Programs whose first draw calls an instruction.
int64_t count_calls(const task::Task& t, const target::Target& target) {
  int64_t count = 0;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    auto arena = std::make_shared<Arena>();
    auto k = schedule::replay(trace, trace.decisions, t.kernel, arena);
    REQUIRE(k.has_value());
    bool calls = false;
    ir::visit(k->root, [&](ir::Stmt s) {
      calls |= ir::as<ir::InstrCall>(s) != nullptr;
      return !calls;
    });
    count += calls;
  }
  return count;
}

const std::vector<ByteConv>& convolutions() {
  static const std::vector<ByteConv> kShapes = {
      {.channels = 16,
       .filters = 32,
       .size = {7, 9},
       .kernel = {3, 3},
       .pad = 1,
       .block_in = 16,
       .block_out = 16,
       .zero = 131},
      {.channels = 32, .filters = 24, .size = {5, 17}, .kernel = {1, 1}, .block_in = 16, .block_out = 8},
      {.channels = 4,
       .filters = 16,
       .size = {11, 9},
       .kernel = {3, 3},
       .stride = 2,
       .pad = 1,
       .block_in = 4,
       .block_out = 16,
       .zero = 7},
      {.channels = 8, .filters = 4, .size = {31}, .kernel = {5}, .pad = 2, .block_in = 8, .block_out = 4, .zero = 255}};
  return kShapes;
}

}  // namespace

TEST_CASE("convolutions of bytes compute what the naive nest computes") {
  std::vector<target::Target> targets = {with_vnni()};
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) targets.push_back(named_target(name));
  for (const target::Target& target : targets)
    for (const ByteConv& shape : convolutions()) {
      const task::Task t = make_task(shape);
      CHECK(check_draws(t, target) > 0);
      INFO(t.workload << " on " << target.name);
      CHECK(count_calls(t, target) > 0);
    }
  const ByteConv depthwise{.channels = 32,
                           .filters = 32,
                           .size = {7, 9},
                           .kernel = {3, 3},
                           .pad = 1,
                           .group = 32,
                           .block_in = 16,
                           .block_out = 16,
                           .zero = 131};
  for (const target::Target& target : targets) CHECK(check_draws(make_task(depthwise), target) > 0);
}

TEST_CASE("convolutions of bytes on tiles compute what the naive nest computes") {
  const target::Target target = with_vnni_and_tiles();
  const std::vector<ByteConv> shapes = {
      // Rows that are whole tiles, two of them; channels that fill a tile.
      {.channels = 64,
       .filters = 64,
       .size = {4, 16},
       .kernel = {3, 3},
       .pad = 1,
       .block_in = 64,
       .block_out = 64,
       .zero = 131},
      // Neither positions nor channels nor filters fill a tile.
      {.channels = 64, .filters = 48, .size = {5, 21}, .kernel = {3, 3}, .pad = 1, .block_in = 32, .block_out = 16},
      // Positions that a stride leaves out, and few of them.
      {.channels = 128,
       .filters = 32,
       .size = {9, 11},
       .kernel = {3, 3},
       .stride = 2,
       .pad = 1,
       .block_in = 64,
       .block_out = 32,
       .zero = 7},
      {.channels = 64, .filters = 64, .size = {14, 13}, .kernel = {1, 1}, .stride = 2, .block_in = 64, .block_out = 64},
      // One and three dimensions.
      {.channels = 64,
       .filters = 64,
       .size = {37},
       .kernel = {5},
       .pad = 2,
       .block_in = 64,
       .block_out = 32,
       .zero = 255},
      {.channels = 64,
       .filters = 64,
       .size = {3, 4, 17},
       .kernel = {2, 3, 3},
       .pad = 1,
       .block_in = 64,
       .block_out = 64,
       .left = DType::kI8}};
  for (const ByteConv& shape : shapes) {
    const task::Task t = make_task(shape);
    INFO(t.workload);
    CHECK(check_draws(t, target) > 0);
    const std::vector<int64_t> products = tile_products(t, target);
    CHECK(std::count(products.begin(), products.end(), 0) < static_cast<std::ptrdiff_t>(products.size()));
  }
  // Vectors multiply where tiles would hold padding for the most part.
  const task::Task thin = make_task(
      {.channels = 4, .filters = 16, .size = {9, 9}, .kernel = {3, 3}, .pad = 1, .block_in = 4, .block_out = 16});
  for (int64_t products : tile_products(thin, target)) CHECK(products == 0);
  CHECK(count_calls(thin, target) > 0);
}

TEST_CASE("products of bytes compute what the naive nest computes") {
  std::vector<target::Target> targets = {with_vnni()};
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) targets.push_back(named_target(name));
  for (const target::Target& target : targets)
    for (bool transposed : {false, true})  // the graph transposes weights for CPUs
      for (auto [m, n, k] : {std::array<int64_t, 3>{24, 32, 64}, {7, 35, 10}, {1, 17, 5}}) {
        const task::Task t = make_product(DType::kU8, m, n, k, transposed);
        CHECK(check_draws(t, target) > 0);
        INFO(t.workload << " on " << target.name);
        if (!transposed) CHECK(count_calls(t, target) > 0);
      }
}

TEST_CASE("GPUs multiply signed bytes, by matrix instructions where they have them", "[gpu_space]") {
  for (const char* name : {"t4", "a100"}) {
    const target::Target target = named_target(name);
    CHECK(target::multiplies_signed_bytes(target));
    const task::Task product = make_product(DType::kI8, 64, 64, 128);
    CHECK(check_draws(product, target) > 0);
    const bool has_rows = target.cuda.features.mma_m16n8k16;
    CHECK((count_calls(product, target) > 0) == has_rows);
    const ByteConv conv{
        .channels = 8, .filters = 16, .size = {6, 5}, .kernel = {3, 3}, .pad = 1, .zero = -3, .left = DType::kI8};
    CHECK(check_draws(make_task(conv), target) > 0);
    // Channels side by side: the copies of both operands into shared memory have vectors.
    for (int64_t kernel : {1, 3}) {
      const task::Task blocked = make_task({.channels = 64,
                                            .filters = 32,
                                            .size = {6, 5},
                                            .kernel = {kernel, kernel},
                                            .pad = kernel / 2,
                                            .block_in = 32,
                                            .block_out = 32,
                                            .zero = -3,
                                            .left = DType::kI8});
      CHECK(check_draws(blocked, target) > 0);
      CHECK((count_calls(blocked, target) > 0) == has_rows);
    }
  }
}
