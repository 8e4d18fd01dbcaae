// Parallel-vectorize-unroll, done concretely: every nest that no module has scheduled gets its outer spatial loops
// fused and run in parallel and its innermost spatial loop vectorized, last axes as one where that fills vectors.
// Spatial kernels have a variant that fuses everything first, where that keeps vectors or nothing makes any. A last
// variant only runs the outer loops in parallel, where vectors may be slower than single elements.

#include <set>

#include "space/access.h"
#include "tcc/analysis/lanes.h"
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

// A plain nest of spatial loops around statements that run in order, as those of a sort do.
bool runs_in_order(const Kernel& k, const Block& block) {
  const std::vector<Id> loops = schedule::loops_of(k, block.id);
  if (loops.size() != block.iters.size() || loops.size() < 2 ||
      schedule::find_block_by_name(k, name_hint(k, block.id)) != block.id)
    return false;
  for (size_t i = 0; i < loops.size(); ++i) {
    const Loop* l = find_loop(k.root, loops[i]);
    const Var* v = as<Var>(block.iters[i].binding);
    const IterKind kind = i + 1 == loops.size() ? IterKind::kCarried : IterKind::kSpatial;
    if (v == nullptr || v->id != loops[i] || !is_int(l->extent) || !l->annotations.empty() ||
        block.iters[i].kind != kind || (i + 1 < loops.size() && l->body->kind == StmtKind::kSeq))
      return false;
  }
  return true;
}

// The place of the only carried iterator of a plain nest, where spatial ones are inside of it, as in sums that run
// along another axis than the last.
std::optional<size_t> carried_outside(const Kernel& k, const Block& block) {
  const std::vector<Id> loops = schedule::loops_of(k, block.id);
  if (as<Store>(block.body) == nullptr || loops.size() != block.iters.size() ||
      schedule::find_block_by_name(k, name_hint(k, block.id)) != block.id)
    return std::nullopt;
  std::optional<size_t> carried;
  for (size_t i = 0; i < loops.size(); ++i) {
    const Loop* l = find_loop(k.root, loops[i]);
    const Var* v = as<Var>(block.iters[i].binding);
    if (v == nullptr || v->id != loops[i] || !is_int(l->extent) || !l->annotations.empty()) return std::nullopt;
    if (block.iters[i].kind == IterKind::kSpatial) continue;
    if (block.iters[i].kind != IterKind::kCarried || carried) return std::nullopt;
    carried = i;
  }
  return carried && *carried + 1 < loops.size() ? carried : std::nullopt;
}

enum class Form { kLastAxis, kFused, kParallelOnly };

// Does a load walk through memory along another axis than the last when the block's last iterator moves? Single
// elements and vectors that are transposed in registers compete there. Elements that are few apart, as every other one
// of a row, are vectors and shuffles.
bool reads_across(const Kernel& k, const Block& block) {
  const Id last = block.iters.back().id;
  bool across = false;
  visit_loads(block.body, [&](const Load& load) {
    const std::optional<int64_t> stride = analysis::flat_stride(k, load.buffer, load.indices, last);
    if (stride && *stride >= 0 && *stride <= kFewApart) return;
    for (size_t i = 0; i + 1 < load.indices.size(); ++i) across |= mentions(load.indices[i], last);
  });
  return across;
}

// May a vector of one index over all axes go through the access as through one run of memory? Not where it reads one
// number for a run of results, one run again and again, or touches parts of longer rows, and vectors cross the runs'
// ends.
bool keeps_vectors(const Kernel& k, const Block& block, Id buffer, std::span<const Expr> indices, int64_t lanes) {
  const std::vector<Id> loops = schedule::loops_of(k, block.id);
  struct Axis {
    int64_t extent = 0;
    bool moves = false;
    std::optional<int64_t> stride;
  };
  int64_t run = 1;
  std::optional<Axis> last;
  for (size_t i = block.iters.size(); i-- > 0;) {
    const Id iter = block.iters[i].id;
    const int64_t extent = int_value(find_loop(k.root, loops[i])->extent);
    if (extent == 1) continue;
    const Axis axis{extent, std::any_of(indices.begin(), indices.end(), [&](Expr e) { return mentions(e, iter); }),
                    analysis::flat_stride(k, buffer, indices, iter)};
    if (last &&
        !(axis.stride && last->stride ? *axis.stride == *last->stride * last->extent : axis.moves == last->moves))
      return run % lanes == 0;
    last = axis;
    run *= extent;
  }
  return true;
}

// Does the block compute with the iterator itself, as in conditions, beside addresses?
bool computes_with(const Block& block, Id iter) {
  bool found = false;
  visit(block.body, [&](Stmt s) {
    const Store* store = as<Store>(s);
    if (store == nullptr) return true;
    visit(store->value, [&](Expr e) {
      const Var* v = as<Var>(e);
      found |= v != nullptr && v->id == iter;
      return as<Load>(e) == nullptr;
    });
    return true;
  });
  return found;
}

// Lanes that cross the end of a row have numbers of their own for its axes: divisions for each lane.
bool keeps_vectors_of_numbers(const Kernel& k, const Block& block, int64_t lanes) {
  const std::vector<Id> loops = schedule::loops_of(k, block.id);
  int64_t run = 1;
  for (size_t i = block.iters.size(); i-- > 0;) {
    const int64_t outer = run * int_value(find_loop(k.root, loops[i])->extent);
    if ((run == 1 ? outer : run) % lanes != 0 && computes_with(block, block.iters[i].id)) return false;
    run = outer;
  }
  return true;
}

bool keeps_all_vectors(const Kernel& k, const Block& block, int64_t lanes) {
  bool plain = !reads_across(k, block) && keeps_vectors_of_numbers(k, block, lanes);
  visit_loads(block.body, [&](const Load& load) {
    plain &= load.predicate == nullptr && keeps_vectors(k, block, load.buffer, load.indices, lanes);
  });
  visit(block.body, [&](Stmt s) {
    if (const Store* store = as<Store>(s)) plain &= keeps_vectors(k, block, store->buffer, store->indices, lanes);
    return true;
  });
  return plain;
}

int64_t last_extent(const Kernel& k, const Block& block) {
  return int_value(find_loop(k.root, schedule::loops_of(k, block.id).back())->extent);
}

// How much of the lanes vectors of this width use.
double used_lanes(int64_t width, int64_t lanes) {
  return static_cast<double>(width) / static_cast<double>((width + lanes - 1) / lanes * lanes);
}

// The vector that divides the extent and leaves the fewest lanes idle, the shortest of equals. 0: the divisors fill
// less than half of a vector, or exceed the limit.
int64_t fullest_vector(int64_t extent, int64_t lanes, int64_t limit) {
  if (extent < lanes) return extent > 1 ? extent : 0;
  if (extent % lanes == 0) return lanes;
  int64_t best = 0;
  double best_share = 0.5;
  for (int64_t d = 2; d <= std::min(extent, limit); ++d) {
    const double share = used_lanes(d, lanes);
    if (extent % d == 0 && share > best_share) best = d, best_share = share;
  }
  return best;
}

// The last axes that become one loop, and its vector.
struct LastAxes {
  size_t count = 1;
  int64_t extent = 0;
  int64_t vector = 0;  // 0: none
  // Of the lanes of all registers. A rest costs more than its lanes: it takes a copy of the code, under masks.
  double used(int64_t lanes) const {
    if (vector == 0) return 0;
    if (extent % vector == 0) return used_lanes(vector, lanes);
    const int64_t vectors = (extent + vector - 1) / vector;
    return 0.95 * used_lanes(vector, lanes) * static_cast<double>(extent) / static_cast<double>(vectors * vector);
  }
};

// Are whole registers, with a rest behind them, better than the other vectors? The last of several registers is moved
// in pieces where it is not full: 127 lanes took 1.8 times as long. In short rows the rest's own code costs as much.
bool is_better_uneven(const LastAxes& uneven, const LastAxes& other, int64_t lanes) {
  constexpr double kInPieces = 0.9;
  constexpr int64_t kManyVectors = 16;
  const bool pieces = other.vector > lanes && other.vector % lanes != 0 && uneven.extent >= kManyVectors * lanes;
  return uneven.used(lanes) > (pieces ? kInPieces : 1) * other.used(lanes);
}

// Do the lanes of a vector over the last axes read a few windows of memory, register by register?
bool reads_windows(const analysis::Operand& o, const std::vector<int64_t>& extents, const LastAxes& last,
                   int64_t lanes) {
  if (o.load != nullptr && o.load->predicate != nullptr) return false;
  std::set<int64_t> elements;
  for (int64_t l = 0; l < last.vector; ++l) {
    int64_t rest = l, element = 0;
    for (size_t i = extents.size(); i-- > extents.size() - last.count; rest /= extents[i]) {
      if (!o.stride[i]) return false;
      element += rest % extents[i] * *o.stride[i];
    }
    elements.insert(element);
    if (l + 1 < last.vector && (l + 1) % lanes != 0) continue;
    int64_t windows = 0, low = 0;
    for (int64_t e : elements)
      if (windows == 0 || e - low >= lanes) ++windows, low = e;
    if (windows > 1 && !analysis::are_few_windows(windows, std::min(last.vector, lanes))) return false;
    elements.clear();
  }
  return true;
}

// Last axes make fuller vectors as one. Where the result and every load pass through them as through a single one, like
// the rows and columns of a plane of 7 x 7 with a factor for each channel, any vector serves. Otherwise its lanes must
// differ by constants: it has whole inner axes, as in rows that are woven into one another.
LastAxes choose_last_axes(const Kernel& k, const Block& block, int64_t lanes, int64_t limit) {
  const bool across = reads_across(k, block);
  const int64_t extent = last_extent(k, block);
  LastAxes best{1, extent, across ? 0 : fullest_vector(extent, lanes, limit)};
  const auto may_leave_rest = [](const LastAxes& a) { return a.extent >= 4 * a.vector; };
  const auto try_uneven = [&](const LastAxes& axes) {
    const LastAxes uneven{axes.count, axes.extent, lanes};
    if (may_leave_rest(uneven) && is_better_uneven(uneven, best, lanes)) best = uneven;
  };
  if (!across) try_uneven(best);
  const std::optional<NaiveNest> nest = naive_nest(k, block);
  if (!nest || best.used(lanes) == 1) return best;
  std::vector<const analysis::Operand*> accesses{&nest->result};
  for (const analysis::Operand& o : nest->operands) accesses.push_back(&o);
  const auto all = [&](auto&& holds) { return std::all_of(accesses.begin(), accesses.end(), holds); };
  LastAxes now{1, extent, 0};
  bool as_one = !across;
  constexpr double kFull = 0.7;  // of the lanes: further axes are not worth shuffles
  // Strides of an iterator with groups are those inside of a group.
  for (size_t i = nest->extents.size() - 1; i-- > 0 && nest->group[i] == 0 && nest->group[i + 1] == 0;) {
    const int64_t inner = now.extent, outer = nest->extents[i];
    as_one = as_one && !computes_with(block, block.iters[i].id) && !computes_with(block, block.iters[i + 1].id) &&
             all([&](const analysis::Operand* o) {
               return (o->load == nullptr || o->load->predicate == nullptr) && o->stride[i] && o->stride[i + 1] &&
                      *o->stride[i] == *o->stride[i + 1] * nest->extents[i + 1];
             });
    if (!as_one && (best.used(lanes) >= kFull || inner > limit)) break;
    now = {now.count + 1, inner * outer, 0};
    if (as_one) {
      now.vector = fullest_vector(now.extent, lanes, limit);
      if (now.used(lanes) > best.used(lanes)) best = now;
      try_uneven(now);
      continue;
    }
    for (int64_t d = 1; d <= outer && d * inner <= limit; ++d) {
      now.vector = d * inner;
      if ((outer % d == 0 || may_leave_rest(now)) && now.used(lanes) > best.used(lanes) &&
          all([&](const analysis::Operand* o) { return reads_windows(*o, nest->extents, now, lanes); }))
        best = now;
    }
  }
  return best;
}

// One index over all axes costs divisions for each vector. Where a load has a condition, another order of its axes or
// fewer of them, lanes are computed one by one, too: only last axes that make no vectors are worth that.
bool gains_by_fusing(const Kernel& k, const Block& block, int64_t lanes, int64_t limit) {
  return keeps_all_vectors(k, block, lanes) ||
         (2 * last_extent(k, block) < lanes && choose_last_axes(k, block, lanes, limit).used(lanes) < 0.5);
}

// Single elements are slower for certain: every access is plain, and vectors are full enough. A condition that is the
// same for a whole row, as padding above it has, leaves an access plain.
bool makes_vectors(const Kernel& k, const Block& block, int64_t lanes, int64_t limit) {
  const std::optional<NaiveNest> nest = naive_nest(k, block);
  if (!nest || nest->extents.empty() || nest->is_reduction()) return false;
  bool plain = true;
  visit_loads(block.body, [&](const Load& load) {
    plain &= load.predicate == nullptr || !mentions(load.predicate, block.iters.back().id);
  });
  for (const analysis::Operand& o : nest->operands)
    plain &= std::all_of(o.stride.begin(), o.stride.end(), [](const auto& stride) { return stride.has_value(); });
  plain &= std::all_of(nest->group.begin(), nest->group.end(), [](int64_t group) { return group == 0; });
  return plain && choose_last_axes(k, block, lanes, limit).used(lanes) > 0.5;
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
  const int64_t lanes = vector_lanes(target), limit = options.max_innermost, widest = 2 * limit;
  if (form == Form::kFused && !gains_by_fusing(s.kernel(), *found, lanes, widest)) form = Form::kLastAxis;
  LastAxes last = choose_last_axes(s.kernel(), *found, lanes, widest);
  if (form == Form::kFused) {
    last = {spatial.size(), 1, 0};
    for (int64_t e : extents) last.extent *= e;
    if (!reads_across(s.kernel(), *found)) last.vector = fullest_vector(last.extent, lanes, limit);
    const LastAxes uneven{last.count, last.extent, lanes};
    if (last.extent >= 4 * lanes && is_better_uneven(uneven, last, lanes) &&
        keeps_all_vectors(s.kernel(), *found, lanes))
      last = uneven;
  }
  const size_t first = spatial.size() - last.count;
  const LoopRv inner = last.count > 1 ? s.fuse(std::span(spatial).subspan(first)) : spatial.back();
  spatial.resize(first);
  const int64_t extent = last.extent, vector = last.vector;
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

// Vectors of the last axis, or of all axes inside of the carried one together, are inside of it. What is left of these
// axes goes outside.
bool mark_carried(Schedule& s, const std::string& name, size_t carried, const target::Target& target, bool together) {
  constexpr int64_t kVectors = 4;  // of a tile: each waits for its sum of the step before
  // A step takes rows of up to two pages whole, where threads leave them so, and of longer ones a page: the hardware's
  // prefetcher follows, and the rows of the step before are in the first cache.
  constexpr int64_t kPageElements = 1024;
  const std::vector<LoopRv> loops = s.get_loops(s.get_block(name));
  if (!s.ok()) return false;
  std::vector<LoopRv> outer(loops.begin(), loops.begin() + static_cast<int64_t>(carried));
  const auto inside = std::span(loops).subspan(carried + 1);
  if (!together) outer.insert(outer.end(), inside.begin(), inside.end() - 1);
  const LoopRv inner = together ? s.fuse(inside) : inside.back();
  if (!s.ok()) return false;
  const auto extent_of = [&](LoopRv loop) { return int_value(find_loop(s.kernel().root, s.id(loop))->extent); };
  const int64_t extent = extent_of(inner), width = std::min(extent, kVectors * vector_lanes(target));
  int64_t strips = std::max<int64_t>(target.cpu.threads, 1);
  for (LoopRv loop : outer) strips = (strips + extent_of(loop) - 1) / extent_of(loop);
  if (extent > 2 * kPageElements) strips = extent / kPageElements;
  const int64_t tiles = (extent + width - 1) / width / strips;  // of a strip
  const std::vector<LoopRv> parts =
      tiles > 1 ? s.split(inner, {{}, lit(tiles), lit(width)}) : s.split(inner, {{}, lit(width)});
  if (!s.ok()) return false;
  outer.push_back(parts[0]);
  s.reorder(outer, loops[carried], std::span(parts).subspan(1));
  s.vectorize(parts.back());
  fuse_parallel(s, outer);
  return s.ok();
}

}  // namespace

Ways parallel_vectorize_unroll(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  std::vector<std::string> open, ordered;
  std::vector<std::pair<std::string, size_t>> carried;
  const int64_t lanes = vector_lanes(target), widest = 2 * options.max_innermost;
  bool fusible = false, vectors = true;
  for (const Block* block : collect_blocks(state.kernel().root)) {
    if (has_scheduled_loop(state.kernel(), block->id)) continue;
    if (runs_in_order(state.kernel(), *block)) {
      ordered.push_back(name_hint(state.kernel(), block->id));
      continue;
    }
    if (const std::optional<size_t> place = carried_outside(state.kernel(), *block)) {
      carried.emplace_back(name_hint(state.kernel(), block->id), *place);
      continue;
    }
    std::optional<NaiveNest> nest = naive_nest(state.kernel(), *block);
    const bool stores_many = !nest && is_map_of_many(state.kernel(), *block);
    if (!nest && !stores_many) continue;
    open.push_back(name_hint(state.kernel(), block->id));
    vectors &= makes_vectors(state.kernel(), *block, lanes, widest);
    fusible |= stores_many || (!nest->is_reduction() && nest->extents.size() > 1 &&
                               gains_by_fusing(state.kernel(), *block, lanes, widest));
  }
  Schedule start = state;
  for (const auto& [name, place] : carried) {
    const auto loops = schedule::loops_of(start.kernel(), schedule::find_block_by_name(start.kernel(), name));
    const bool several = loops.size() > place + 2;
    for (const bool together : {true, false}) {
      Schedule trial = start;
      if ((together && !several) || !mark_carried(trial, name, place, target, together)) continue;
      start = std::move(trial);
      break;
    }
  }
  for (const std::string& name : ordered) {
    Schedule trial = start;
    if (mark(trial, name, Form::kParallelOnly, target, options) && trial.ok()) start = std::move(trial);
  }
  if (open.empty()) return {start};
  // Beside a tiled anchor what is left over is a small part of the work: one form is enough.
  bool beside_anchor = open.size() + ordered.size() + carried.size() < collect_blocks(state.kernel().root).size();
  Ways ways;
  for (Form form : {Form::kLastAxis, Form::kFused, Form::kParallelOnly}) {
    if ((form == Form::kFused && !fusible) || (form == Form::kParallelOnly && vectors) ||
        (form != Form::kLastAxis && beside_anchor))
      continue;
    Schedule s = start;
    for (const std::string& name : open) {
      Schedule trial = s;
      if (mark(trial, name, form, target, options) && trial.ok()) s = std::move(trial);
    }
    ways.states.push_back(std::move(s));
  }
  return ways;
}

}  // namespace tcc::space
