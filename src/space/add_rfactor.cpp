// Add-rfactor: a long reduction with few results. Where the results alone do not keep the cores busy, the sum is cut
// into parts that run in parallel, and each part is summed with a vector of partial results:
//
//   parallel (part, i) { p[part, i, 0..15] = 0; k { vectorized l { p[part, i, l] += x } }; P[part, i] = sum of p }
//   i { y[i] = sum over parts of P[part, i] }
//
// (MetaSchedule's rule of this name, there with both factors sampled and the partial results left to other rules.) The
// module also returns the schedule as it was.
#include <algorithm>
#include <array>

#include "space/access.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

constexpr int64_t kLongSum = 4096;  // terms of one result, below which cutting it costs more than it saves

// The only reduction of the kernel, with fewer results than a few for each thread.
std::optional<NaiveNest> find_long_sum(const Kernel& k, const target::Target& target) {
  const Block* found = nullptr;
  for (const Block* block : collect_blocks(k.root)) {
    if (block->init == nullptr) continue;
    if (found != nullptr) return std::nullopt;
    found = block;
  }
  if (found == nullptr || has_scheduled_loop(k, found->id)) return std::nullopt;
  std::optional<NaiveNest> nest = naive_nest(k, *found);
  if (!nest || !nest->is_reduction() || nest->loads.empty()) return std::nullopt;
  int64_t results = 1, terms = 1;
  for (size_t i = 0; i < nest->extents.size(); ++i) (nest->reduce[i] ? terms : results) *= nest->extents[i];
  return results <= 4 * std::max<int64_t>(target.cpu.threads, 1) && terms >= kLongSum ? nest : std::nullopt;
}

bool cut(Schedule& s, const NaiveNest& nest, const target::Target& target) {
  BlockRv block = s.get_block(nest.name);
  std::vector<LoopRv> loops = s.get_loops(block), spatial, reduce;
  for (size_t i = 0; i < loops.size(); ++i) (nest.reduce[i] ? reduce : spatial).push_back(loops[i]);
  if (!s.ok() || reduce.empty()) return false;
  s.reorder(spatial, reduce);
  LoopRv sum = reduce.size() > 1 ? s.fuse(reduce) : reduce[0];
  // Parts for each thread, and lanes of several vectors: independent sums hide the latency of one.
  const int64_t threads = std::max<int64_t>(target.cpu.threads, 1), lanes = vector_lanes(target);
  const std::array<int64_t, 3> parts = {threads, 2 * threads, 4 * threads};
  const std::array<int64_t, 3> vectors = {lanes, 2 * lanes, 4 * lanes};
  static constexpr std::array<double, 3> kWeights = {0.4, 0.3, 0.3};
  ExprRv part = s.sample_categorical(parts, kWeights), vector = s.sample_categorical(vectors, kWeights);
  std::vector<LoopRv> pieces = s.split(sum, {part, ExprRv{}, vector});
  if (!s.ok()) return false;
  // Parts outermost: each is finished where it is made.
  s.reorder(pieces[0], spatial, pieces[1], pieces[2]);
  BlockRv partial = s.rfactor(block, pieces[0]);
  std::vector<LoopRv> inner = s.get_loops(partial);
  if (!s.ok() || inner.size() < 2) return false;
  BlockRv vectorized = s.rfactor(partial, inner.back());
  std::vector<LoopRv> made = s.get_loops(vectorized), outer = s.get_loops(partial);
  if (!s.ok() || made.empty() || outer.size() < 2) return false;
  s.vectorize(made.back());
  s.annotate(outer.back(), AnnotationKey::kTreeReduce, lit(1));
  outer.pop_back();
  fuse_parallel(s, outer);
  return s.ok();
}

}  // namespace

Ways add_rfactor(const Schedule& state, const target::Target& target, const SpaceOptions&) {
  std::optional<NaiveNest> nest = find_long_sum(state.kernel(), target);
  if (!nest) return {state};
  Ways ways;
  ways.attempt(state, [&](Schedule& s) { return cut(s, *nest, target); });
  return ways.or_also(state);
}

}  // namespace tcc::space
