// Results that transpose an operand on a CPU: squares of elements that are transposed in registers.
//
//   for p { for q { y[p, q] = g(x[q, p]) } }
//
//   parallel p0 { q0 { p1 unrolled { q1 vectorized { y[p0*P + p1, q0*Q + q1] = g(x[q0*Q + q1, p0*P + p1]) } } } }
//
// The columns p1 of Q rows are read as rows of P elements (lower's transpose_accesses). Both sides have whole lines of
// the cache: Q is a register's elements, P at most as many. Rows of the result or of the operand may follow each other:
// both orders are sketches. Tiles at the end begin earlier and overlap their neighbors, so that all of them are whole.
#include <algorithm>
#include <bit>

#include "space/transposed.h"
#include "tcc/analysis/lanes.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

constexpr int64_t kMaxRows = 16;  // squares of more rows need more registers than there are

enum class Order { kAlongResult, kAlongOperand };

int64_t floor_power(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n)));
}

void shift_tail(Schedule& s, LoopRv loop, int64_t extent, int64_t tile) {
  if (s.ok() && extent % tile != 0) s.annotate(loop, AnnotationKey::kTail, lit(static_cast<int64_t>(TailMode::kShift)));
}

bool tile(Schedule& s, const NaiveNest& nest, const Transposed& t, Order order, const target::Target& target) {
  const BlockRv block = s.get_block(nest.name);
  const std::vector<LoopRv> loops = s.get_loops(block);
  const Type type = s.kernel().buffer(nest.store->buffer)->type;
  const int64_t lanes = std::min(vector_lanes(target, type), floor_power(nest.extents[t.inner]));
  const int64_t rows = std::min({lanes, kMaxRows, floor_power(nest.extents[t.outer])});
  if (rows < analysis::kMinTransposed) return false;
  const std::vector<LoopRv> inner = s.split(loops[t.inner], {{}, lit(lanes)});
  const std::vector<LoopRv> outer = s.split(loops[t.outer], {{}, lit(rows)});
  if (!s.ok()) return false;
  std::vector<LoopRv> all;
  for (size_t i = 0; i < loops.size(); ++i)
    if (i != t.inner && i != t.outer) all.push_back(loops[i]);
  const bool along_result = order == Order::kAlongResult;
  all.push_back(along_result ? outer[0] : inner[0]);
  const std::vector<LoopRv> parallel = all;
  all.insert(all.end(), {along_result ? inner[0] : outer[0], outer[1], inner[1]});
  s.reorder(all);
  s.unroll(outer[1]);
  s.vectorize(inner[1]);
  LoopRv fused;
  if (!s.ok() || !fuse_parallel(s, parallel, &fused)) return false;
  shift_tail(s, along_result ? fused : outer[0], nest.extents[t.outer], rows);
  shift_tail(s, along_result ? inner[0] : fused, nest.extents[t.inner], lanes);
  stream_large_output(s, fused, target);
  return s.ok();
}

}  // namespace

Ways transpose_tiling(const Schedule& state, const target::Target& target, const SpaceOptions&) {
  Ways ways;
  for (Order order : {Order::kAlongResult, Order::kAlongOperand}) {
    Schedule tiled = state;
    bool any = false;
    for (const Block* b : collect_blocks(state.kernel().root)) {
      if (has_scheduled_loop(state.kernel(), b->id)) continue;
      const std::optional<NaiveNest> nest = naive_nest(state.kernel(), *b);
      const std::optional<Transposed> found = nest ? find_transposed(*nest, analysis::kMinTransposed) : std::nullopt;
      if (!found || nest->group[found->inner] != 0 || nest->group[found->outer] != 0) continue;
      Schedule trial = tiled;
      if (tile(trial, *nest, *found, order, target)) {
        tiled = std::move(trial);
        any = true;
      } else if (!trial.ok()) {
        ways.rejects.add(trial.reject());
      }
    }
    if (any) ways.states.push_back(std::move(tiled));
  }
  if (ways.states.empty()) ways.states.push_back(state);
  return ways;
}

}  // namespace tcc::space
