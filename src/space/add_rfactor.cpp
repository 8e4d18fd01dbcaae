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
#include <limits>

#include "space/access.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

// Terms of one result: below the first, a vector of partial results costs more than it saves; below the second, parts
// that run in parallel do.
constexpr int64_t kLeastVectors = 2, kLongSum = 4096;

struct LongSums {
  std::vector<NaiveNest> nests;  // every reduction of the kernel
  bool parts = false;            // they are long enough to run in parallel parts
};

// The reductions of a kernel that all have fewer results than a few for each thread: one, or several over the same
// tensor, as the greatest element and whether one is NaN.
std::optional<LongSums> find_long_sums(const Kernel& k, const target::Target& target) {
  LongSums sums;
  int64_t least_terms = std::numeric_limits<int64_t>::max();
  for (const Block* block : collect_blocks(k.root)) {
    if (block->init == nullptr) continue;
    if (has_scheduled_loop(k, block->id)) return std::nullopt;
    std::optional<NaiveNest> nest = naive_nest(k, *block);
    if (!nest || !nest->is_reduction() || nest->loads.empty()) return std::nullopt;
    int64_t results = 1, terms = 1;
    for (size_t i = 0; i < nest->extents.size(); ++i) (nest->reduce[i] ? terms : results) *= nest->extents[i];
    if (results > 4 * std::max<int64_t>(target.cpu.threads, 1)) return std::nullopt;
    least_terms = std::min(least_terms, terms);
    sums.nests.push_back(std::move(*nest));
  }
  sums.parts = least_terms >= kLongSum;
  return !sums.nests.empty() && least_terms >= kLeastVectors * vector_lanes(target) ? std::optional(std::move(sums))
                                                                                    : std::nullopt;
}

// `part`: the number of parts, nullopt where the sum is whole.
bool cut(Schedule& s, const NaiveNest& nest, const std::optional<ExprRv>& part, ExprRv vector, int64_t lanes) {
  BlockRv block = s.get_block(nest.name);
  std::vector<LoopRv> loops = s.get_loops(block), spatial, reduce;
  for (size_t i = 0; i < loops.size(); ++i) (nest.reduce[i] ? reduce : spatial).push_back(loops[i]);
  if (!s.ok() || reduce.empty()) return false;
  s.reorder(spatial, reduce);
  const ReducedRun run = find_run(nest, lanes);
  const size_t along = std::min(run.loops(), reduce.size());
  LoopRv sum = along > 1 ? s.fuse(std::span(reduce).last(along)) : reduce.back();
  reduce.resize(reduce.size() - along);
  BlockRv partial = block;
  std::vector<LoopRv> pieces;
  if (run.unit > 0) vector = lit(run.unit);
  if (reduce.empty()) {
    pieces = part ? s.split(sum, {*part, ExprRv{}, vector}) : s.split(sum, {ExprRv{}, vector});
  } else {
    // Vectors stay inside of runs; the loop over them is one with those over the runs.
    const std::vector<LoopRv> vectors = s.split(sum, {ExprRv{}, vector});
    if (!s.ok()) return false;
    reduce.push_back(vectors[0]);
    pieces = {s.fuse(reduce)};
    if (part) pieces = s.split(pieces[0], {*part, ExprRv{}});
    pieces.push_back(vectors[1]);
  }
  if (!s.ok()) return false;
  if (part) {
    // Parts outermost: each is finished where it is made.
    s.reorder(pieces[0], spatial, pieces[1], pieces[2]);
    partial = s.rfactor(block, pieces[0]);
  }
  std::vector<LoopRv> inner = s.get_loops(partial);
  if (!s.ok() || inner.size() < 2) return false;
  BlockRv vectorized = s.rfactor(partial, inner.back());
  std::vector<LoopRv> made = s.get_loops(vectorized), outer = s.get_loops(partial);
  if (!s.ok() || made.empty() || outer.size() < (part ? 2 : 1)) return false;
  s.vectorize(made.back());
  s.annotate(outer.back(), AnnotationKey::kTreeReduce, lit(1));
  outer.pop_back();
  if (!outer.empty()) fuse_parallel(s, outer);
  return s.ok();
}

bool cut_all(Schedule& s, const LongSums& sums, const target::Target& target) {
  // Parts for each thread, and lanes of several vectors: independent sums hide the latency of one.
  const int64_t threads = std::max<int64_t>(target.cpu.threads, 1), lanes = vector_lanes(target);
  const std::array<int64_t, 3> parts = {threads, 2 * threads, 4 * threads};
  const std::array<int64_t, 3> vectors = {lanes, 2 * lanes, 4 * lanes};
  static constexpr std::array<double, 3> kWeights = {0.4, 0.3, 0.3};
  std::optional<ExprRv> part;
  if (sums.parts) part = s.sample_categorical(parts, kWeights);
  const bool any_vector = std::any_of(sums.nests.begin(), sums.nests.end(),
                                      [&](const NaiveNest& nest) { return find_run(nest, lanes).unit == 0; });
  const ExprRv vector = any_vector ? s.sample_categorical(vectors, kWeights) : lit(lanes);
  return std::all_of(sums.nests.begin(), sums.nests.end(),
                     [&](const NaiveNest& nest) { return cut(s, nest, part, vector, lanes); });
}

}  // namespace

Ways add_rfactor(const Schedule& state, const target::Target& target, const SpaceOptions&) {
  std::optional<LongSums> sums = find_long_sums(state.kernel(), target);
  if (!sums) return {state};
  Ways ways;
  ways.attempt(state, [&](Schedule& s) { return cut_all(s, *sums, target); });
  return ways.or_also(state);
}

}  // namespace tcc::space
