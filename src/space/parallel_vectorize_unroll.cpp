// Parallel-vectorize-unroll, done concretely: every nest that no module has scheduled gets its outer spatial loops
// fused and run in parallel and its innermost spatial loop vectorized. Spatial kernels have a variant that fuses
// everything first, for tensors whose last axis is short. A last variant only runs the outer loops in parallel.

#include "space/access.h"
#include "tcc/ir/query.h"
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

// Does a load walk through memory along another axis than the last when the block's last iterator moves? Single
// elements and vectors that are transposed in registers compete there.
bool reads_across(const Block& block) {
  const Id last = block.iters.back().id;
  bool across = false;
  visit_loads(block.body, [&](const Load& load) {
    for (size_t i = 0; i + 1 < load.indices.size(); ++i) across |= mentions(load.indices[i], last);
  });
  return across;
}

// May a vector of one index over all axes go through the load as it goes through the result? Not where it reads one
// number for a run of results, or one run again and again, and vectors cross the runs' ends.
bool keeps_vectors(const Kernel& k, const Block& block, const Load& load, int64_t lanes) {
  const std::vector<Id> loops = schedule::loops_of(k, block.id);
  int64_t run = 1;
  bool last = false, begun = false;
  for (size_t i = block.iters.size(); i-- > 0;) {
    const int64_t extent = int_value(find_loop(k.root, loops[i])->extent);
    if (extent == 1) continue;
    const bool moves =
        std::any_of(load.indices.begin(), load.indices.end(), [&](Expr e) { return mentions(e, block.iters[i].id); });
    if (begun && moves != last) return run % lanes == 0;
    begun = true, last = moves;
    run *= extent;
  }
  return true;
}

// One index over all axes costs divisions for each vector. Where a load has a condition, another order of its axes or
// fewer of them, lanes are computed one by one, too: only last axes shorter than half a vector are worth that.
bool gains_by_fusing(const Kernel& k, const Block& block, int64_t lanes) {
  bool plain = !reads_across(block);
  visit_loads(block.body,
              [&](const Load& load) { plain &= load.predicate == nullptr && keeps_vectors(k, block, load, lanes); });
  const int64_t last = int_value(find_loop(k.root, schedule::loops_of(k, block.id).back())->extent);
  return plain || 2 * last < lanes;
}

// The vector that divides the extent and leaves the fewest lanes idle, the shortest of equals. 0: the divisors fill
// less than half of a vector, or exceed the limit.
int64_t fullest_vector(int64_t extent, int64_t lanes, int64_t limit) {
  if (extent < lanes) return extent > 1 ? extent : 0;
  if (extent % lanes == 0) return lanes;
  int64_t best = 0;
  double best_share = 0.5;
  for (int64_t d = 2; d <= std::min(extent, limit); ++d) {
    const double share = static_cast<double>(d) / static_cast<double>((d + lanes - 1) / lanes * lanes);
    if (extent % d == 0 && share > best_share) best = d, best_share = share;
  }
  return best;
}

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
  const bool across = reads_across(*found);
  if (form == Form::kFused && !gains_by_fusing(s.kernel(), *found, lanes)) form = Form::kLastAxis;
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
  const int64_t limit = options.max_innermost;
  const int64_t vector = across ? 0 : fullest_vector(extent, lanes, limit);
  std::vector<LoopRv> parts;
  if (vector > 0) {
    // Programs with shorter vectors are up to 20 times slower, and no others are faster.
    const std::vector<LoopRv> whole = s.split(inner, {{}, lit(vector)});
    if (!s.ok()) return false;
    parts = s.split(whole[0], s.sample_perfect_tile(whole[0], 3, std::max<int64_t>(1, limit / vector)));
    if (!s.ok()) return false;
    s.unroll(parts[2]);
    s.vectorize(whole[1]);
  } else {
    // Tiles of one vector at least, where the extent has them.
    parts = s.split(inner, extent % lanes == 0 || extent <= limit ? s.sample_perfect_tile(inner, 3, limit)
                                                                  : s.sample_tile(inner, 3, limit, lanes));
    if (!s.ok()) return false;
    s.vectorize(parts[2]);
  }
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
    fusible |= stores_many || (!nest->is_reduction() && nest->extents.size() > 1 &&
                               gains_by_fusing(state.kernel(), *block, vector_lanes(target)));
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
