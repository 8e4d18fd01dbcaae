// Cross-thread reduction: the threads of a block share one row of a reduction.
//
//   grid (row) {
//     threads t { part[t] = 0; r { i { part[t] += x[row, (r*T + t)*I + i] } } }   shared, in a register while summed
//     u @tree_reduce { sum += part[u] }                                                  shared
//     threads t { r { i { y[row, (r*T + t)*J + i] = f(x[row, (r*T + t)*J + i], sum) } } } }
//
// I and J are drawn for each step: neighbouring elements of a thread, for loads of neighbors in memory.
// Steps of a row (the maximum and the sum of a softmax, the moments of a normalisation) and what reads them stay in one
// launch. Beside it the schedule as it was: many short rows do better with a thread each.
#include <algorithm>
#include <array>

#include "space/gpu.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

constexpr int kAttempts = 16;

// Blocks that end in `last`: reductions whose rows `last` reads, or `last` itself.
struct Rows {
  std::string last;
  std::vector<std::string> reductions;  // in program order, `last` not among them
  std::vector<bool> is_row;             // of last's iterators
  bool last_reduces = false;
  int64_t shortest = 0;  // of the rows that are reduced
  double rows = 1;
};

// What all steps of a row share.
struct Choices {
  ExprRv threads, unroll;  // of a row; statements that a thread's loops are written out to
};

int64_t reduced_extent(const NaiveNest& nest) {
  int64_t n = 1;
  for (size_t i = 0; i < nest.extents.size(); ++i) n *= nest.reduce[i] ? nest.extents[i] : 1;
  return n;
}

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
  // The last block of the kernel, when it reads rows that reductions make, or is one.
  static std::optional<Rows> find_rows(const Kernel& k) {
    std::vector<const Block*> blocks = collect_blocks(k.root);
    if (blocks.empty()) return std::nullopt;
    std::optional<NaiveNest> last = naive_nest(k, *blocks.back());
    if (!last) return std::nullopt;
    Rows rows;
    rows.last = last->name;
    rows.last_reduces = last->is_reduction();
    for (size_t i = 0; i < last->extents.size(); ++i) rows.is_row.push_back(!last->reduce[i]);
    rows.shortest = rows.last_reduces ? reduced_extent(*last) : 0;
    for (size_t b = 0; b + 1 < blocks.size(); ++b) {
      std::optional<NaiveNest> nest = naive_nest(k, *blocks[b]);
      if (!nest || !nest->is_reduction() || blocks[b]->init == nullptr) return std::nullopt;
      rows.reductions.push_back(nest->name);
      const int64_t n = reduced_extent(*nest);
      rows.shortest = rows.shortest == 0 ? n : std::min(rows.shortest, n);
      for (const Load* l : last->loads)
        for (size_t i = 0; i < rows.is_row.size() && l->buffer == nest->store->buffer; ++i)
          if (dim_of_iter(l->indices, last->block->iters[i].id) < 0) rows.is_row[i] = false;
    }
    if (!rows.last_reduces && rows.reductions.empty()) return std::nullopt;
    for (size_t i = 0; i < rows.is_row.size(); ++i)
      rows.rows *= rows.is_row[i] ? static_cast<double>(last->extents[i]) : 1;
    return rows;
  }

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
    std::vector<LoopRv> loops = s.get_loops(block), spatial, terms;
    const Block* found = s.ok() ? find_block(s.kernel().root, s.id(block)) : nullptr;
    if (found == nullptr) return false;
    for (size_t i = depth; i < loops.size(); ++i) {
      bool feeds = false;
      for (const Iter& it : found->iters) feeds |= it.kind == IterKind::kReduce && mentions(it.binding, s.id(loops[i]));
      (feeds ? terms : spatial).push_back(loops[i]);
    }
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
