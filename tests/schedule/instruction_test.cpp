// pad_einsum and tensorize with random arguments: a reject, or a kernel that verifies and computes the same.
#include <catch2/catch.hpp>

#include <array>

#include "sample_tasks.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/schedule/schedule.h"
#include "tcc/task/task.h"

using namespace tcc;
using namespace tcc::schedule;

namespace {

std::vector<interp::TensorData> values_after(const ir::Kernel& k) {
  std::vector<interp::TensorData> data;
  for (const ir::Buffer* b : k.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    std::vector<int64_t> shape;
    for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
    if (b->layout != nullptr) shape.assign(b->layout->shape.begin(), b->layout->shape.end());
    data.push_back(interp::TensorData::make_random_integers(b->type, shape, 5 + data.size()));
  }
  std::vector<interp::TensorData*> params;
  for (interp::TensorData& d : data) params.push_back(&d);
  interp::Report report = interp::run(k, params);
  INFO(report.text());
  REQUIRE(report.ok());
  return data;
}

void check_same(const ir::Kernel& k, const std::vector<interp::TensorData>& want) {
  INFO(ir::print(k));
  REQUIRE(ir::verify(k).empty());
  std::vector<interp::TensorData> got = values_after(k);
  for (size_t p = 0; p < want.size(); ++p) REQUIRE(got[p].to_doubles() == want[p].to_doubles());
}

}  // namespace

TEST_CASE("random padding of products keeps their meaning") {
  Rng rng(17);
  int64_t padded = 0;
  for (int round = 0; round < 120; ++round) {
    auto draw = [&](int64_t n) { return rng.below(n) + 1; };
    task::Task t = task::make_gemm({.m = draw(9),
                                    .n = draw(9),
                                    .k = draw(9),
                                    .bias = rng.below(2) == 0,
                                    .relu = rng.below(2) == 0,
                                    .constant_weights = rng.below(2) == 0,
                                    .dtype = rng.below(2) == 0 ? graph::DType::kF32 : graph::DType::kBF16});
    std::vector<interp::TensorData> want = values_after(t.kernel);
    Schedule s(t.kernel, std::make_shared<Arena>(), &rng);
    BlockRv block = s.get_block(t.anchor_block);
    s.pad_einsum(block, std::array{draw(6), draw(6), draw(6), rng.below(2)});
    if (!s.ok()) continue;
    const ir::Buffer* b = s.kernel().buffer(read_buffers(s.kernel(), s.id(block))[1]);
    if (b->layout != nullptr)
      s.transform_layout(block, 1, std::array<int32_t, 2>{1, 0},
                         std::array<std::pair<int32_t, int64_t>, 2>{{{1, draw(4)}, {0, draw(4)}}});
    ++padded;
    check_same(s.kernel(), want);
    std::vector<LoopRv> loops = s.get_loops(block);
    std::vector<LoopRv> parts = s.split(loops[static_cast<size_t>(rng.below(3))], std::array{ExprRv{}, lit(draw(5))});
    s.cache_write(block, ir::Scope::kLocal);
    INFO(print_trace(s.trace()));
    REQUIRE(s.ok());
    check_same(s.kernel(), want);
  }
  CHECK(padded > 60);
}

TEST_CASE("random instructions in the place of random loops keep the meaning") {
  auto start = ir::parse(R"(kernel built {
  input A: bf16[32, 32]
  input B: bf16[32, 32]
  output C: f32[32, 32]
  for i in 32 {
    for j in 32 {
      for k in 32 {
        block gemm(vi: spatial 32 = i, vj: spatial 32 = j, vk: reduce 32 = k) reduce(sum) {
          init {
            C[vi, vj] = 0.0
          }
          C[vi, vj] = C[vi, vj] + f32(A[vi, vk]) * f32(B[vk, vj])
        }
      }
    }
  }
})");
  REQUIRE(start);
  std::vector<interp::TensorData> want = values_after(*start);
  constexpr std::array<const char*, 8> kNames = {"amx.zero.f32",          "amx.load.bf16", "amx.load.bf16.pairs",
                                                 "amx.tdpbf16ps",         "amx.store.f32", "amx.tdpbf16ps.kn",
                                                 "zmm.fma.broadcast.f32", "amx.load.f32"};
  Rng rng(29);
  int64_t taken = 0, refused = 0;
  for (int round = 0; round < 150; ++round) {
    Schedule s(*start, std::make_shared<Arena>(), &rng);
    BlockRv gemm = s.get_block("gemm");
    std::vector<BlockRv> blocks = {s.cache_write(gemm, ir::Scope::kAmxTile), s.cache_read(gemm, 0, ir::Scope::kAmxTile),
                                   s.cache_read(gemm, 1, ir::Scope::kAmxTile)};
    std::vector<LoopRv> loops = s.get_loops(gemm);
    blocks.push_back(s.decompose_reduction(gemm, loops[2]));
    // The initialization before k is inside of i and j: no instruction fits there.
    blocks.push_back(gemm);
    REQUIRE(s.ok());
    for (BlockRv block : blocks) {
      Schedule trial = s;
      std::vector<LoopRv> l = trial.get_loops(block), outer, inner;
      for (LoopRv loop : l) {
        std::vector<LoopRv> parts = trial.split(loop, std::array{ExprRv{}, lit(rng.below(3) == 0 ? 32 : 16)});
        if (!trial.ok()) break;
        outer.push_back(parts[0]);
        inner.push_back(parts[1]);
      }
      if (!trial.ok() || inner.empty()) continue;
      if (rng.below(2) == 0) std::swap(inner.front(), inner.back());
      LoopRv first = inner.front();
      outer.insert(outer.end(), inner.begin(), inner.end());
      trial.reorder(outer);
      trial.tensorize(first, kNames[static_cast<size_t>(rng.below(kNames.size()))]);
      if (!trial.ok()) {
        ++refused;
        continue;
      }
      ++taken;
      s = trial;
      INFO(print_trace(s.trace()));
      check_same(s.kernel(), want);
    }
  }
  CHECK(taken > 20);
  CHECK(refused > 100);
}
