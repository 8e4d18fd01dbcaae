#include "tcc/features/features.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "sample_tasks.h"
#include "tcc/ir/text.h"
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
        task::make_softmax({12, 40}, 1), task::make_elementwise({2, 8, 7, 7}),
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
    CHECK(rows.size() > 4);
  }
}
