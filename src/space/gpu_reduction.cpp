// Cross-thread reduction: the threads of a block share one row of a reduction.
//
//   grid (row) {
//     threads t { part[t] = 0; r { i { part[t] += x[row, (r*T + t)*I + i] } } }   shared, in a register while summed
//     u @tree_reduce { sum += part[u] }                                                  shared
//     threads t { r { i { y[row, (r*T + t)*J + i] = f(x[row, (r*T + t)*J + i], sum) } } } }
//
// I and J are drawn for each step: neighboring elements of a thread, for loads of neighbors in memory.
// Steps of a row (the maximum and the sum of a softmax, the moments of a normalization) and what reads them stay in one
// launch. Beside it the schedule as it was: many short rows do better with a thread each.
#include <algorithm>
#include <array>

#include "space/gpu.h"
#include "space/gpu_row_blocks.h"

namespace tcc::space {
namespace {

constexpr int kAttempts = 16;

// What all steps of a row share.
struct Choices {
  ExprRv threads, unroll;  // of a row; statements that a thread's loops are written out to
};

class GpuReduction {
 public:
  static Ways apply(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
    Ways ways;
    if (std::optional<Rows> rows = find_rows(state.kernel())) {
      // Some draws leave threads without elements, which lowering refuses.
      for (int attempt = 0; attempt < kAttempts && ways.states.empty(); ++attempt)
        ways.attempt(state, [&](Schedule& s) { return together(s, *rows, target, options.gpu); });
    }
    return ways.or_also(state);
  }

 private:
  static bool together(Schedule& s, const Rows& rows, const target::Target& target, const GpuSpaceOptions& options) {
    std::vector<int64_t> candidates;
    for (int64_t n : options.reduction_threads)
      if (n <= std::min(rows.shortest, target.cuda.max_threads_per_block)) candidates.push_back(n);
    if (candidates.empty()) return false;
    BlockRv last = s.get_block(rows.last);
    std::vector<LoopRv> loops = s.get_loops(last), row, along;
    if (!s.ok() || loops.size() != rows.is_row.size()) return false;
    for (size_t i = 0; i < loops.size(); ++i) (rows.is_row[i] ? row : along).push_back(loops[i]);
    const bool has_rows = !row.empty();
    if (!has_rows && !rows.reductions.empty()) return false;
    const Choices drawn = {sample_uniform(s, candidates), sample_uniform(s, options.row_unroll)};
    LoopRv grid;
    if (has_rows) {
      std::vector<LoopRv> order = row;
      order.insert(order.end(), along.begin(), along.end());
      s.reorder(order);
      grid = fuse_all(s, row);
      s.bind(grid, Axis::kGridX);
    }
    if (rows.last_reduces) {
      if (!reduce(s, last, has_rows ? 1 : 0, drawn, options)) return false;
    } else if (!along.empty()) {
      std::vector<LoopRv> parts =
          s.split(fuse_all(s, along), std::array{ExprRv{}, drawn.threads, sample_uniform(s, options.reduction_inner)});
      if (!s.ok()) return false;
      s.reorder(std::array{parts[1], parts[0], parts[2]});
      s.bind(parts[1], Axis::kThreadX);
      s.annotate(parts[0], AnnotationKey::kUnrollMax, drawn.unroll);
      s.unroll(parts[2]);
    }
    // Each reduction next to its readers, later ones first.
    for (size_t i = rows.reductions.size(); i-- > 0 && s.ok();) {
      BlockRv block = s.get_block(rows.reductions[i]);
      s.compute_at(block, grid);
      if (!s.ok() || !reduce(s, block, 1, drawn, options)) return false;
    }
    return s.ok();
  }

  // Partial results of the threads, and the loop that combines them. The block has `depth` loops around it.
  static bool reduce(Schedule& s, BlockRv block, size_t depth, const Choices& drawn, const GpuSpaceOptions& options) {
    const auto [spatial, terms] = loops_below(s, block, depth);
    if (!s.ok()) return false;
    if (terms.empty()) return false;
    std::vector<LoopRv> order = spatial;
    order.insert(order.end(), terms.begin(), terms.end());
    s.reorder(order);
    std::vector<LoopRv> parts =
        s.split(fuse_all(s, terms), std::array{ExprRv{}, drawn.threads, sample_uniform(s, options.reduction_inner)});
    if (!s.ok()) return false;
    BlockRv partial = s.rfactor(block, parts[1]);
    if (!s.ok()) return false;
    std::vector<LoopRv> all = s.get_loops(partial);
    if (!s.ok() || all.size() < 3) return false;
    std::span<const LoopRv> last = std::span(all).last(3);  // serial, thread, inner
    s.reorder(std::array{last[1], last[0], last[2]});
    s.bind(last[1], Axis::kThreadX);
    s.annotate(last[0], AnnotationKey::kUnrollMax, drawn.unroll);
    s.unroll(last[2]);
    std::vector<LoopRv> combining = s.get_loops(block);
    if (s.ok()) s.annotate(combining.back(), AnnotationKey::kTreeReduce, lit(1));
    return s.ok();
  }
};

}  // namespace

Ways gpu_reduction(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  return GpuReduction::apply(state, target, options);
}

}  // namespace tcc::space
