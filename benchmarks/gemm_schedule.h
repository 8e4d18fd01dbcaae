// The schedule that the search benchmarks and the trace tests share: SSRSRS tiles with a local accumulator, parallel
// outer tiles, vectorized inner columns.
#pragma once

#include <array>

#include "tcc/schedule/schedule.h"
#include "tcc/support/check.h"

namespace tcc::benchmarks {

// Records the trace on `start`, whose contraction block is `block` with loops i, j, k.
inline schedule::Trace gemm_trace(const ir::Kernel& start, const std::string& block, Rng& rng) {
  using namespace schedule;
  Schedule s(start, std::make_shared<Arena>(), &rng);
  BlockRv b = s.get_block(block);
  BlockRv out = s.cache_write(b, ir::Scope::kLocal);
  std::vector<LoopRv> l = s.get_loops(b);
  TCC_CHECK(s.ok() && l.size() == 3, "gemm_trace needs loops i, j, k");
  std::vector<LoopRv> i = s.split(l[0], s.sample_perfect_tile(l[0], 4, 64));
  std::vector<LoopRv> j = s.split(l[1], s.sample_perfect_tile(l[1], 4, 64));
  std::vector<LoopRv> k = s.split(l[2], s.sample_perfect_tile(l[2], 2, 64));
  s.reorder(std::array{i[0], j[0], i[1], j[1], k[0], i[2], j[2], k[1], i[3], j[3]});
  s.reverse_compute_at(out, j[1]);
  s.parallel(s.fuse(std::array{i[0], j[0]}));
  s.vectorize(j[3]);
  BlockRv init = s.decompose_reduction(b, k[0]);
  (void)init;
  std::vector<LoopRv> copy = s.get_loops(out);
  s.vectorize(copy.back());
  std::array<int64_t, 4> steps = {0, 16, 64, 512};
  std::array<double, 4> weights = {0.25, 0.25, 0.25, 0.25};
  s.annotate(b, ir::AnnotationKey::kUnrollMax, s.sample_categorical(steps, weights));
  TCC_CHECK(s.ok(), "{}", s.ok() ? "" : s.reject().text);
  return s.trace();
}

}  // namespace tcc::benchmarks
