#include "space/gpu.h"

#include "space/contraction.h"
#include "tcc/ir/walk.h"

namespace tcc::space {

bool is_unscheduled(const Kernel& k, Id block) {
  for (Id id : schedule::loops_of(k, block)) {
    const Loop* l = find_loop(k.root, id);
    if (l->loop_kind != LoopKind::kSerial || !l->annotations.empty()) return false;
  }
  return true;
}

std::vector<std::string> unscheduled_blocks(const Kernel& k) {
  std::vector<std::string> names;
  for (const Block* block : collect_blocks(k.root)) {
    const std::string name = name_hint(k, block->id);
    if (schedule::find_block_by_name(k, name) == block->id && is_unscheduled(k, block->id)) names.push_back(name);
  }
  return names;
}

ExprRv sample_uniform(Schedule& s, const std::vector<int64_t>& candidates) {
  if (candidates.size() == 1) return schedule::lit(candidates[0]);
  const std::vector<double> weights(candidates.size(), 1.0 / static_cast<double>(candidates.size()));
  return s.sample_categorical(candidates, weights);
}

ExprRv sample_widths(Schedule& s, int64_t widest) {
  std::vector<int64_t> widths;
  std::vector<double> weights;
  for (int64_t n = 1; n <= widest; n *= 2) {
    widths.push_back(n);
    weights.push_back(static_cast<double>(n) / static_cast<double>(2 * widest - 1));
  }
  return widths.size() == 1 ? schedule::lit(1) : s.sample_categorical(widths, weights);
}

LoopRv fuse_all(Schedule& s, std::span<const LoopRv> loops) {
  return loops.size() > 1 ? s.fuse(loops) : loops[0];
}

void cooperative_fetch(Schedule& s, BlockRv copy, size_t depth, std::vector<int64_t> vector_lengths) {
  std::vector<LoopRv> loops = s.get_loops(copy);
  if (!s.ok() || loops.size() <= depth) return;
  const Buffer* out = s.kernel().buffer(schedule::written_buffer(s.kernel(), s.id(copy)));
  if (out == nullptr) return;
  std::erase_if(vector_lengths, [&](int64_t n) { return n > 1 && n * type_bytes(out->type) > 16; });
  LoopRv all = fuse_all(s, std::span(loops).subspan(depth));
  s.annotate(all, AnnotationKey::kCooperativeFetch, sample_uniform(s, vector_lengths));
}

std::optional<NaiveNest> find_reuse(const Kernel& k) {
  for (const Block* block : collect_blocks(k.root)) {
    if (block->init == nullptr || !is_unscheduled(k, block->id)) continue;
    std::optional<NaiveNest> nest = naive_nest(k, *block);
    if (!nest || !nest->is_reduction() || nest->loads.empty()) continue;
    bool plain = true, reuse = false;
    for (Expr i : nest->store->indices) plain &= as<Var>(i) != nullptr || is_int(i);
    for (size_t i = 0; i < nest->extents.size(); ++i)
      reuse |= !nest->reduce[i] && nest->extents[i] > 1 && nest->has_reuse(i);
    if (plain && reuse) return nest;
  }
  return std::nullopt;
}

}  // namespace tcc::space
