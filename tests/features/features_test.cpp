#include "tcc/features/features.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "features/statement.h"
#include "sample_tasks.h"
#include "space/int_product.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/schedule.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/task/task.h"

using namespace tcc;
using features::Feature;

namespace {

target::Target avx512() {
  return *target::find_target("x86-64-v4");
}
double at(const features::Row& row, Feature f) {
  return static_cast<double>(row[static_cast<size_t>(f)]);
}
double count_of(const features::Row& row, Feature f) {
  return std::exp2(at(row, f)) - 1;
}

ir::Kernel to_nest(const ir::Kernel& k) {
  auto arena = std::make_shared<Arena>();
  auto nest = lower::lower(k, avx512(), ir::Stage::kNest, arena);
  REQUIRE(nest.has_value());
  return *nest;
}

}  // namespace

TEST_CASE("features of the naive matrix product") {
  task::Task t = task::make_gemm({.m = 32, .n = 64, .k = 16});
  features::Row row = features::extract(features::kHotStatement, to_nest(t.kernel), avx512(), 1);
  CHECK(count_of(row, Feature::flops) == Approx(2 * 32 * 64 * 16).epsilon(1e-4));
  CHECK(count_of(row, Feature::param_bytes) == Approx(4 * (32 * 16 + 16 * 64 + 32 * 64)).epsilon(1e-4));
  CHECK(at(row, Feature::hot_share) == Approx(1));
  CHECK(at(row, Feature::vector_share) == 0);
  CHECK(count_of(row, Feature::parallel_extent) == Approx(1));
  CHECK(at(row, Feature::hot_accumulator_local) == 0);
  CHECK(at(row, Feature::hot_reduce_inside) == 1);
  CHECK(row.values.size() == features::kHotStatement.columns.size());
  CHECK(features::kHotStatement.columns[0] == "flops");
}

TEST_CASE("features of a register tile") {
  task::Task t = task::make_gemm({.m = 48, .n = 128, .k = 64});
  auto arena = std::make_shared<Arena>();
  schedule::Schedule s(t.kernel, arena, nullptr);
  schedule::BlockRv block = s.get_block("gemm");
  schedule::BlockRv copy = s.cache_write(block, ir::Scope::kLocal);
  auto loops = s.get_loops(block);
  auto i = s.split(loops[0], std::vector<schedule::ExprRv>{schedule::lit(4), schedule::lit(12)});
  auto j = s.split(loops[1], std::vector<schedule::ExprRv>{schedule::lit(4), schedule::lit(32)});
  s.reorder(std::vector<schedule::LoopRv>{i[0], j[0], loops[2], i[1], j[1]});
  s.reverse_compute_at(copy, j[0]);
  s.unroll(i[1]);
  s.vectorize(j[1]);
  s.parallel(i[0]);
  REQUIRE(s.ok());
  features::Row row = features::extract(features::kHotStatement, to_nest(s.kernel()), avx512(), 2);
  CHECK(count_of(row, Feature::hot_vector) == Approx(32));
  CHECK(count_of(row, Feature::hot_vector_registers) == Approx(2));
  CHECK(count_of(row, Feature::hot_register_tile) == Approx(24));
  CHECK(at(row, Feature::hot_vector_fill) == Approx(1));
  CHECK(at(row, Feature::hot_spills) == 0);
  CHECK(at(row, Feature::hot_accumulator_local) == 1);
  CHECK(at(row, Feature::hot_reduce_inside) == 1);
  CHECK(count_of(row, Feature::parallel_extent) == Approx(4));
  CHECK(at(row, Feature::parallel_balance) == Approx(1));
  // 12 broadcasts of A and 2 vectors of B for 24 multiply-adds.
  CHECK(count_of(row, Feature::hot_loads_per_flop) == Approx(14.0 / 24).epsilon(1e-3));
  CHECK(at(row, Feature::vector_share) == Approx(1));
}

TEST_CASE("features are finite and tell programs apart") {
  for (const task::Task& t :
       {task::make_conv(
            {.channels = 8, .filters = 32, .size = {14, 14}, .kernel = {3, 3}, .pads = {1, 1}, .bias = true}),
        task::make_softmax({12, 40}, 1), task::make_elementwise({2, 8, 14, 28}),
        task::make_pool({.average = true, .channels = 4, .size = {9, 9}, .kernel = {3, 3}, .pads = {1, 1}})}) {
    INFO(t.workload);
    std::set<features::Row> rows;
    Rng rng(1);
    for (const schedule::Trace& trace : space::generate_space(t.kernel, avx512())) {
      auto sketch = space::make_sketch(trace, t.kernel, avx512());
      REQUIRE(sketch.has_value());
      std::vector<int64_t> decisions = trace.decisions;
      for (int d = 0; d < 8; ++d) {
        space::draw_decisions(*sketch, decisions, rng);
        auto arena = std::make_shared<Arena>();
        auto nest = space::instantiate(*sketch, decisions, avx512(), arena);
        if (!nest) continue;
        features::Row row = features::extract(features::kHotStatement, *nest, avx512(), 2);
        for (size_t f = 0; f < row.values.size(); ++f) {
          INFO(features::kHotStatement.columns[f]);
          CHECK(std::isfinite(row[f]));
          CHECK(row[f] >= 0);
        }
        rows.insert(row);
      }
    }
    CHECK(rows.size() > 2);
  }
}

namespace {

// A processor with AMX, AVX-512 BF16 and VNNI.
target::Target with_dots(bool tiles) {
  target::Target t = avx512();
  t.cpu.features.amx_tile = t.cpu.features.amx_bf16 = t.cpu.features.amx_int8 = tiles;
  t.cpu.features.avx512_bf16 = t.cpu.features.avx512_vnni = true;
  return t;
}

bool calls_instructions(const ir::Kernel& k) {
  bool found = false;
  ir::visit(k.root, [&](ir::Stmt s) {
    found |= s->kind == ir::StmtKind::kInstrCall;
    return !found;
  });
  return found;
}

// Rows of drawn programs of the space, apart for those that call instructions and those that do not.
struct DrawnRows {
  std::set<features::Row> with, without;
  std::set<uint64_t> programs;  // hashes of those with instructions
};
DrawnRows draw_rows(const ir::Kernel& kernel, const target::Target& target) {
  DrawnRows out;
  Rng rng(3);
  for (const schedule::Trace& trace : space::generate_space(kernel, target)) {
    auto sketch = space::make_sketch(trace, kernel, target);
    REQUIRE(sketch.has_value());
    std::vector<int64_t> decisions = trace.decisions;
    for (int d = 0; d < 12; ++d) {
      space::draw_decisions(*sketch, decisions, rng);
      auto nest = space::instantiate(*sketch, decisions, target, std::make_shared<Arena>());
      if (!nest) continue;
      const bool calls = calls_instructions(*nest);
      (calls ? out.with : out.without).insert(features::extract(features::kHotStatement, *nest, target, 1));
      if (calls) out.programs.insert(ir::hash_kernel(*nest));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("calls of instructions are statements: their work, and what tells them apart") {
  const ir::Kernel bf16 =
      task::make_gemm({.m = 256, .n = 192, .k = 96, .constant_weights = true, .dtype = graph::DType::kBF16}).kernel;
  const double work = 2.0 * 256 * 192 * 96;
  for (bool tiles : {true, false}) {
    INFO((tiles ? "AMX" : "AVX-512 BF16 and VNNI"));
    const DrawnRows rows = draw_rows(bf16, with_dots(tiles));
    CHECK(rows.programs.size() >= 8);
    CHECK(10 * rows.with.size() >= 7 * rows.programs.size());
    for (const features::Row& row : rows.with) {
      CHECK(count_of(row, Feature::flops) >= 0.99 * work);
      CHECK(count_of(row, Feature::flops) < 2 * work);
      CHECK(at(row, Feature::vector_share) > 0.98);
      CHECK(at(row, Feature::hot_share) > 0.98);
      CHECK(at(row, Feature::hot_accumulator_local) == 1);
      CHECK(count_of(row, Feature::hot_vector) == Approx(tiles ? 256 : 16));
      CHECK(count_of(row, Feature::touched_outer) >= 2 * 96 * 16);
    }
    const DrawnRows ints = draw_rows(testing::int_product(tiles ? "i8" : "u8", 64, 128, 128), with_dots(tiles));
    CHECK(10 * ints.with.size() >= 7 * ints.programs.size());
    for (const std::set<features::Row>* each : {&ints.with, &ints.without})
      for (const features::Row& row : *each) {
        CHECK(count_of(row, Feature::int_ops) >= 0.99 * 2 * 64 * 128 * 128);
        CHECK(at(row, Feature::hot_share) > 0.9);
      }
  }
}

TEST_CASE("regions of operands, and bodies of roles") {
  auto kernel = ir::parse(R"(kernel nest {
  input S: bf16[64, 96]
  output D: f32[16, 16]
  temp a: bf16[16, 32] amx_tile
  temp d: f32[16, 16] amx_tile
  alloc a, d {
    instr amx.config(; 16, 64)
    roles {
      role warps 1 from 0 {
        for i in 4 {
          for k in 3 {
            instr amx.load.bf16(a[0, 0], S[i*16, k*32])
          }
        }
      }
      role warps 1 from 1 {
        instr amx.store.f32(D[0, 0], d[0, 0])
      }
    }
  }
})");
  INFO((kernel ? "" : kernel.error().message));
  REQUIRE(kernel.has_value());
  const std::vector<features::Statement> statements = features::list_statements(*kernel);
  REQUIRE(statements.size() == 2);
  const features::Statement& load = statements[0];
  REQUIRE(load.instr != nullptr);
  CHECK(load.instr->name == "amx.load.bf16");
  CHECK(load.executions == 12);
  REQUIRE(load.accesses.size() == 2);
  CHECK_FALSE(load.accesses[0].write);
  CHECK(load.accesses[0].tile == std::vector<int64_t>{16, 32});
  CHECK(load.accesses[0].bytes() == 1024);
  CHECK(load.accesses[0].stride == std::vector<int64_t>{16 * 96, 32});
  CHECK(load.accesses[1].write);
  // All of S and the tile; three tiles of S; one.
  CHECK(features::touched_bytes(load, 0) == 64 * 96 * 2 + 1024);
  CHECK(features::touched_bytes(load, 1) == 16 * 96 * 2 + 1024);
  CHECK(features::touched_bytes(load, 2) == 2 * 1024);
}
