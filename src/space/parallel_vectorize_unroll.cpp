// Parallel-vectorize-unroll, done concretely: every nest that no module has scheduled gets its outer spatial loops
// fused and run in parallel and its innermost spatial loop vectorized. Spatial kernels have a variant that fuses
// everything first, for tensors whose last axis is short. A last variant only runs the outer loops in parallel.

#include "space/access.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

// A plain nest around spatial iterators whose block makes several stores, as transforms of tiles do.
bool is_map_of_many(const Kernel& k, const Block& block) {
  const std::vector<Id> loops = schedule::loops_of(k, block.id);
  if (block.body->kind != StmtKind::kSeq || block.predicate != nullptr || loops.size() != block.iters.size() ||
      loops.size() < 2 || schedule::find_block_by_name(k, name_hint(k, block.id)) != block.id)
    return false;
  for (size_t i = 0; i < loops.size(); ++i) {
    const Loop* l = find_loop(k.root, loops[i]);
    const Var* v = as<Var>(block.iters[i].binding);
    if (v == nullptr || v->id != loops[i] || !is_int(l->extent) || !l->annotations.empty() ||
        block.iters[i].kind != IterKind::kSpatial || l->body->kind == StmtKind::kSeq)
      return false;
  }
  return true;
}

enum class Form { kLastAxis, kFused, kParallelOnly };

bool mark(Schedule& s, const std::string& name, Form form, const target::Target& target, const SpaceOptions& options) {
  BlockRv block = s.get_block(name);
  std::vector<LoopRv> loops = s.get_loops(block), spatial, reduce;
  const Block* found = find_block(s.kernel().root, s.id(block));
  if (!s.ok() || found == nullptr || loops.empty()) return false;
  std::vector<int64_t> extents;
  for (size_t i = 0; i < loops.size(); ++i) {
    bool is_spatial = found->iters[i].kind == IterKind::kSpatial;
    (is_spatial ? spatial : reduce).push_back(loops[i]);
    if (is_spatial) extents.push_back(int_value(find_loop(s.kernel().root, s.id(loops[i]))->extent));
  }
  if (spatial.empty()) return false;
  if (form == Form::kParallelOnly || !reduce.empty()) {
    if (!reduce.empty() && form == Form::kLastAxis)
      keep_if_legal(
          s, [&](Schedule& trial) { trial.reorder(spatial, reduce); });  // so that the spatial ones may run in parallel
    return fuse_parallel(s, spatial);
  }
  int64_t lanes = vector_lanes(target);
  LoopRv inner = spatial.back();
  int64_t extent = extents.back();
  if (form == Form::kFused) {
    inner = spatial.size() > 1 ? s.fuse(spatial) : spatial[0];
    extent = 1;
    for (int64_t e : extents) extent *= e;
    spatial.clear();
  } else {
    spatial.pop_back();
  }
  // Tiles of one vector at least, where the extent has them.
  int64_t limit = options.max_innermost;
  std::vector<ExprRv> factors = extent % lanes == 0 || extent <= limit ? s.sample_perfect_tile(inner, 3, limit)
                                                                       : s.sample_tile(inner, 3, limit, lanes);
  std::vector<LoopRv> parts = s.split(inner, factors);
  if (!s.ok()) return false;
  s.vectorize(parts[2]);
  spatial.push_back(parts[0]);
  LoopRv outer;
  if (fuse_parallel(s, spatial, &outer)) stream_large_output(s, outer, target);
  return s.ok();
}

}  // namespace

Ways parallel_vectorize_unroll(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  std::vector<std::string> open;
  bool fusible = false;
  for (const Block* block : collect_blocks(state.kernel().root)) {
    if (has_scheduled_loop(state.kernel(), block->id)) continue;
    std::optional<NaiveNest> nest = naive_nest(state.kernel(), *block);
    const bool stores_many = !nest && is_map_of_many(state.kernel(), *block);
    if (!nest && !stores_many) continue;
    open.push_back(name_hint(state.kernel(), block->id));
    fusible |= stores_many || (!nest->is_reduction() && nest->extents.size() > 1);
  }
  if (open.empty()) return {state};
  // Beside a tiled anchor what is left over is a small part of the work: one form is enough.
  bool beside_anchor = open.size() < collect_blocks(state.kernel().root).size();
  Ways ways;
  for (Form form : {Form::kLastAxis, Form::kFused, Form::kParallelOnly}) {
    if ((form == Form::kFused && !fusible) || (form != Form::kLastAxis && beside_anchor)) continue;
    Schedule s = state;
    for (const std::string& name : open) {
      Schedule trial = s;
      if (mark(trial, name, form, target, options) && trial.ok()) s = std::move(trial);
    }
    ways.states.push_back(std::move(s));
  }
  return ways;
}

}  // namespace tcc::space
