// Row-wise operators (softmax, layernorm): several reductions of the same rows, and a last block that needs them all.
// Before: one nest per step. After:
//
//   parallel (rows...) { every step for a tile of the last row axis, so that a row stays in the first-level cache }
//
// Spatial steps are vectorised along the row; reductions along the row too, with a vector of partial results, or across
// the rows of a tile.
#include <algorithm>

#include "space/access.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

using namespace ir;
using schedule::BlockRv;
using schedule::ExprRv;
using schedule::LoopRv;
using schedule::Schedule;

struct Rows {
  NaiveNest last;                   // writes the output
  std::vector<std::string> others;  // in program order
  std::vector<bool> is_row;         // per iterator of `last`
};

std::optional<Rows> find_rows(const Kernel& k) {
  std::vector<const Block*> blocks = collect_blocks(k.root);
  size_t reductions = 0;
  for (const Block* b : blocks) reductions += b->init != nullptr ? 1 : 0;
  if (reductions < 2 || blocks.size() < 3) return std::nullopt;
  std::optional<NaiveNest> last = naive_nest(k, *blocks.back());
  if (!last || last->is_reduction()) return std::nullopt;
  Rows rows{*last, {}, std::vector<bool>(last->extents.size(), true)};
  bool any = false;
  for (size_t b = 0; b + 1 < blocks.size(); ++b) {
    std::optional<NaiveNest> nest = naive_nest(k, *blocks[b]);
    if (!nest) return std::nullopt;
    rows.others.push_back(nest->name);
    // A row iterator of the last block is one that chooses among the results of everything it reads.
    for (const Load* l : last->loads) {
      if (l->buffer != nest->store->buffer) continue;
      any = true;
      for (size_t i = 0; i < rows.is_row.size(); ++i)
        if (dim_of_iter(l->indices, last->block->iters[i].id) < 0) rows.is_row[i] = false;
    }
  }
  bool some_row = std::find(rows.is_row.begin(), rows.is_row.end(), true) != rows.is_row.end();
  if (!any || !some_row) return std::nullopt;
  return rows;
}

class RowTiling : public Module {
 public:
  const char* name() const override { return "row_tiling"; }

  std::vector<Schedule> apply(const Schedule& state, const target::Target& target, const SpaceOptions&) const override {
    std::optional<Rows> rows = find_rows(state.kernel());
    if (!rows) return {state};
    std::vector<Schedule> out;
    for (bool across : {false, true}) {
      Schedule s = state;
      if (tile(s, *rows, across, target)) out.push_back(std::move(s));
    }
    if (out.empty()) return {state};
    return out;
  }

 private:
  static bool tile(Schedule& s, const Rows& rows, bool across, const target::Target& target) {
    BlockRv last = s.get_block(rows.last.name);
    std::vector<LoopRv> loops = s.get_loops(last), row_loops, along;
    for (size_t i = 0; i < loops.size(); ++i) (rows.is_row[i] ? row_loops : along).push_back(loops[i]);
    if (!s.ok() || row_loops.empty()) return false;
    std::vector<ExprRv> factors = s.sample_perfect_tile(row_loops.back(), 2, vector_lanes(target));
    std::vector<LoopRv> parts = s.split(row_loops.back(), factors);
    row_loops.back() = parts[0];
    std::vector<LoopRv> order = row_loops;
    order.push_back(parts[1]);
    order.insert(order.end(), along.begin(), along.end());
    s.reorder(order);
    for (size_t i = rows.others.size(); i-- > 0;) s.compute_at(s.get_block(rows.others[i]), parts[0]);
    if (!s.ok()) return false;
    for (const std::string& name : rows.others) mark(s, name, row_loops.size(), across, target);
    mark(s, rows.last.name, row_loops.size(), across, target);
    fuse_parallel(s, row_loops);
    return s.ok();
  }

  // Each step is a try of its own: what is rejected stays a plain loop.
  static void mark(Schedule& s, const std::string& name, size_t depth, bool across, const target::Target& target) {
    Schedule trial = s;
    BlockRv block = trial.get_block(name);
    std::vector<LoopRv> loops = trial.get_loops(block);
    if (!trial.ok() || loops.size() <= depth) return;
    const Block* found = find_block(trial.kernel().root, trial.id(block));
    std::vector<LoopRv> spatial, reduce;
    for (size_t i = depth; i < loops.size(); ++i) {
      bool feeds_reduce = false;
      for (const Iter& it : found->iters)
        feeds_reduce |= it.kind != IterKind::kSpatial && mentions(it.binding, trial.id(loops[i]));
      (feeds_reduce ? reduce : spatial).push_back(loops[i]);
    }
    if (reduce.empty()) {
      trial.vectorize(tile_vector(trial, spatial.back(), target)[1]);
    } else if (across) {
      if (spatial.empty()) return;
      std::vector<LoopRv> order = reduce;
      order.insert(order.end(), spatial.begin(), spatial.end());
      trial.reorder(order);
      trial.vectorize(spatial.back());
    } else {
      // A vector of partial results for each row, whose lanes are combined at its end.
      if (reduce.size() != 1) return;
      std::vector<LoopRv> parts = tile_vector(trial, reduce[0], target);
      BlockRv partial = trial.rfactor(block, parts[1]);
      std::vector<LoopRv> lanes = trial.get_loops(partial), rest = trial.get_loops(block);
      if (!trial.ok()) return;
      trial.vectorize(lanes.back());
      trial.annotate(rest.back(), AnnotationKey::kTree, schedule::lit(1));
    }
    if (trial.ok()) s = std::move(trial);
  }

  // [outer, vector]: divisors where some fill a vector, else any width of whole vectors.
  static std::vector<LoopRv> tile_vector(Schedule& s, LoopRv loop, const target::Target& target) {
    const Loop* l = find_loop(s.kernel().root, s.id(loop));
    int64_t lanes = vector_lanes(target), limit = 4 * lanes;
    if (l == nullptr || !is_int(l->extent)) return {loop, loop};
    int64_t extent = int_value(l->extent);
    if (extent <= lanes || best_divisor(extent, limit) >= lanes)
      return s.split(loop, s.sample_perfect_tile(loop, 2, limit));
    ExprRv tail;
    constexpr int64_t kModes = 1 << static_cast<int>(TailMode::kMask) | 1 << static_cast<int>(TailMode::kPeel);
    std::vector<LoopRv> parts = s.split(loop, s.sample_tile(loop, 2, limit, lanes, &tail, kModes));
    s.annotate(parts[0], AnnotationKey::kTail, tail);
    return parts;
  }
};

}  // namespace

std::unique_ptr<Module> make_row_tiling() {
  return std::make_unique<RowTiling>();
}

}  // namespace tcc::space
