#include "space/gpu_row_blocks.h"

#include <algorithm>

#include "tcc/ir/walk.h"

namespace tcc::space {

int64_t reduced_extent(const NaiveNest& nest) {
  int64_t n = 1;
  for (size_t i = 0; i < nest.extents.size(); ++i) n *= nest.reduce[i] ? nest.extents[i] : 1;
  return n;
}

BlockLoops loops_below(Schedule& s, BlockRv block, size_t depth) {
  BlockLoops out;
  std::vector<LoopRv> loops = s.get_loops(block);
  const Block* found = s.ok() ? find_block(s.kernel().root, s.id(block)) : nullptr;
  for (size_t i = depth; i < loops.size() && found != nullptr; ++i) {
    bool feeds = false;
    for (const Iter& it : found->iters) feeds |= it.kind == IterKind::kReduce && mentions(it.binding, s.id(loops[i]));
    (feeds ? out.terms : out.spatial).push_back(loops[i]);
  }
  return out;
}

std::optional<Rows> find_rows(const Kernel& k) {
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
        if (last->extents[i] > 1 && dim_of_iter(l->indices, last->block->iters[i].id) < 0) rows.is_row[i] = false;
  }
  if (!rows.last_reduces && rows.reductions.empty()) return std::nullopt;
  for (size_t i = 0; i < rows.is_row.size(); ++i)
    rows.rows *= rows.is_row[i] ? static_cast<double>(last->extents[i]) : 1;
  return rows;
}

}  // namespace tcc::space
