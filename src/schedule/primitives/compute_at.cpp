// compute_at and reverse_compute_at: move a block under a loop and regenerate the loops it needs there, from the region
// that the other blocks under the loop touch.
#include "common.h"
#include "tcc/analysis/injective.h"
#include "tcc/analysis/region.h"

namespace tcc::schedule {
namespace {

using analysis::DimRange;

struct Place {
  Path loop_path;         // root .. the loop
  std::vector<Id> outer;  // loop variables fixed at the place, the loop itself included
  const Loop* loop = nullptr;
};

Legal<Place> find_place(const Kernel& k, Id block, Id loop_id) {
  Place place;
  place.loop_path = find_path(k.root, loop_id);
  if (!place.loop_path.found() || (place.loop = as<Loop>(place.loop_path.nodes.back())) == nullptr)
    return unknown(k, "loop", loop_id);
  for (Stmt s : place.loop_path.nodes) {
    if (const Block* around = as<Block>(s))
      for (const Iter& it : around->iters) place.outer.push_back(it.id);
    const Loop* l = as<Loop>(s);
    if (l == nullptr) continue;
    if (l->loop_kind == LoopKind::kVectorized)
      return reject(RejectReason::kLoopKindTaken, describe(k, l->id) + " is vectorized: lanes share storage");
    place.outer.push_back(l->id);
  }
  if (Path p = find_path(place.loop, block); p.found())
    return reject(RejectReason::kNotInScope, describe(k, block) + " is already under " + describe(k, loop_id));
  return place;
}

bool is_under(const Loop& loop, Id block) {
  return find_path(loop.body, block).found();
}

// The place for a buffer that the threads of a block share: it holds what all of them read, so their loops, and those
// of virtual threads, run over their ranges.
Place for_all_threads(Place place) {
  for (const Loop* l : loops_on(place.loop_path))
    if (is_thread(l->axis) || l->axis == Axis::kVthread) std::erase(place.outer, l->id);
  return place;
}

// The box of `buffer` that accesses of the given direction under the loop touch, per dimension over the outer loops.
// A dimension without an affine box becomes the whole dimension; where numbers could give it a box, symbols are
// rejected.
Legal<std::vector<DimRange>> touched_region(Builder& b, const Kernel& k, const Place& place, Id buffer, bool writes,
                                            const analysis::Ranges& ranges, bool clip = true) {
  const Buffer* info = k.buffer(buffer);
  std::vector<std::optional<DimRange>> box(info->shape.size());
  std::vector<bool> whole(info->shape.size(), false);
  bool first = true, needs_numbers = false;
  auto inner = [&](Id v) {
    return ranges.extent(v) != nullptr && std::find(place.outer.begin(), place.outer.end(), v) == place.outer.end();
  };
  analysis::visit_accesses(
      b, place.loop->body, [&](const analysis::AccessInfo& access, const analysis::LoopStack&, const Block*) {
        if (access.buffer != buffer || access.write != writes) return;
        for (size_t d = 0; d < access.indices.size(); ++d) {
          if (whole[d]) continue;
          Expr index = analysis::simplify(b, access.indices[d], ranges);
          std::optional<DimRange> range = analysis::dim_range(b, index, ranges, inner);
          if (range && !first && box[d]) range = analysis::unite(b, *box[d], *range);
          if (!range) {
            whole[d] = true;
            needs_numbers |=
                ranges.depends_on_decisions(index) || (box[d] && ranges.depends_on_decisions(box[d]->base));
          }
          box[d] = range;
        }
        first = false;
      });
  if (needs_numbers)
    return reject(RejectReason::kDependentExtent, "which part of " + describe(k, buffer) + " is touched");
  std::vector<DimRange> out;
  for (size_t d = 0; d < box.size(); ++d) {
    if (whole[d] || !box[d])
      out.push_back({b.integer(0), info->shape[d]});
    else
      out.push_back(clip ? analysis::clip(b, *box[d], info->shape[d], ranges) : *box[d]);
  }
  return out;
}

// What the block's predicate says beyond the extents of its iterators, over their new bindings: rfactor leaves
// conditions on iterators that are loops as they are. Other conditions say that a binding is less than an extent.
Expr kept_predicate(Builder& b, const Block& block, std::span<const Iter> iters) {
  std::vector<Expr> conjuncts;
  split_conjunction(block.predicate, conjuncts);
  Substitution renamed;
  for (size_t i = 0; i < iters.size(); ++i)
    if (const Var* loop = as<Var>(block.iters[i].binding)) renamed.set(loop->id, iters[i].binding);
  Expr out = nullptr;
  for (Expr c : conjuncts) {
    bool all = true;
    visit(c, [&](Expr e) {
      if (const Var* v = as<Var>(e))
        all &= std::any_of(renamed.map.begin(), renamed.map.end(), [&](const auto& r) { return r.first == v->id; });
      return all;
    });
    if (all) out = b.logical_and(out, substitute(b, c, renamed));
  }
  return out;
}

// Rebuilds the block with iterator `i` running over ranges[i] (nullopt: its full extent), around fresh loops.
Stmt regenerate(Editor& edit, const Block& block, std::span<const std::optional<DimRange>> ranges,
                const analysis::Ranges& known) {
  Builder& b = edit.b;
  std::vector<Iter> iters(block.iters.begin(), block.iters.end());
  std::vector<std::pair<Id, Expr>> loops;
  Expr predicate = nullptr;
  for (size_t i = 0; i < iters.size(); ++i) {
    Id loop = edit.fresh(iters[i].id, static_cast<int32_t>(i));
    if (!ranges[i]) {
      loops.emplace_back(loop, iters[i].extent);
      iters[i].binding = b.var(loop);
      continue;
    }
    loops.emplace_back(loop, ranges[i]->extent);
    iters[i].binding = b.add(ranges[i]->base, b.var(loop));
    Expr last = b.offset(b.add(ranges[i]->base, ranges[i]->extent), -1);
    if (!known.prove_less(b, last, iters[i].extent))
      predicate = b.logical_and(predicate, b.lt(iters[i].binding, iters[i].extent));
    if (!known.prove_non_negative(b, ranges[i]->base))
      predicate = b.logical_and(predicate, b.le(b.integer(0), iters[i].binding));
  }
  predicate = b.logical_and(predicate, kept_predicate(b, block, iters));
  Stmt nest = b.block(block.id, iters, block.body, block.init, predicate, block.reducer, block.annotations);
  for (size_t i = loops.size(); i-- > 0;) nest = b.loop(loops[i].first, loops[i].second, nest);
  return nest;
}

// The loop's body with `extra` put before (or after) the first (last) child for which touches() holds.
Stmt put_into(Builder& b, Stmt body, Stmt extra, bool before, FunctionRef<bool(Stmt)> touches) {
  std::vector<Stmt> children;
  if (const Seq* s = as<Seq>(body))
    children.assign(s->stmts.begin(), s->stmts.end());
  else
    children.push_back(body);
  size_t at = before ? children.size() : 0;
  for (size_t i = 0; i < children.size(); ++i) {
    if (!touches(children[i])) continue;
    if (before)
      at = std::min(at, i);
    else
      at = i + 1;
  }
  children.insert(children.begin() + static_cast<std::ptrdiff_t>(at), extra);
  return b.seq(children);
}

// Deletes the block's old nest and puts the new one into the loop.
Kernel move_block(Editor& edit, const Kernel& k, Id block, Id loop, Stmt nest, bool before,
                  FunctionRef<bool(Stmt)> touches) {
  Stmt root = replace_at(edit.b, find_path(k.root, block), nullptr);
  Path path = find_path(root, loop);
  const Loop* l = as<Loop>(path.nodes.back());
  return edit.finish(replace_at(edit.b, path, edit.b.with_body(*l, put_into(edit.b, l->body, nest, before, touches))));
}

// Moving a block away must not leave behind blocks that were only computed for it: some block that stays owns the loops
// it shares with them.
Legal<void> check_remaining_blocks(Editor& edit, const Kernel& k, const Path& path, const analysis::Ranges& ranges) {
  Id leaving = as<Block>(path.nodes.back())->id;
  std::vector<const Loop*> shared;
  std::vector<const Block*> stay;
  for (const Loop* l : loops_on(path)) {
    std::vector<const Block*> others;
    for (const Block* other : collect_blocks(l->body))
      if (other->id != leaving) others.push_back(other);
    if (others.empty()) break;
    shared.push_back(l);
    stay = std::move(others);
  }
  if (shared.empty()) return {};
  for (const Block* other : stay)
    if (analysis::is_injective(edit.b, *other, shared, ranges)) return {};
  return reject(RejectReason::kNotInScope,
                describe(k, stay[0]->id) + " is computed for " + describe(k, leaving) + " and would be left behind");
}

// Every loop that `e` mentions, `binding` mentions too.
bool mentions_only(Expr e, Expr binding) {
  return !mentions_any(e, [&](Id id) { return !mentions(binding, id); });
}

// Program order of two nodes, neither of which is inside the other.
bool runs_before(Stmt root, Id first, Id second) {
  Path a = find_path(root, first), b = find_path(root, second);
  size_t i = 0;
  while (i < a.nodes.size() && i < b.nodes.size() && a.nodes[i] == b.nodes[i]) ++i;
  if (i == 0 || i >= a.nodes.size() || i >= b.nodes.size()) return false;
  const Seq* s = as<Seq>(a.nodes[i - 1]);
  if (s == nullptr) return false;
  return std::find(s->stmts.begin(), s->stmts.end(), a.nodes[i]) <
         std::find(s->stmts.begin(), s->stmts.end(), b.nodes[i]);
}

bool has_predicate_or_bound_loop(const Path& path) {
  for (const Loop* l : loops_on(path))
    if (l->loop_kind != LoopKind::kSerial) return true;
  return false;
}

// Whether the loops around the place, when they have run, have made all of the buffer that `later` reads, a consumer
// behind them. In one iteration of the place `region` is made. A dimension is whole when it does not move, or moves
// with one loop by steps without gaps.
Legal<bool> leaves_behind(Builder& b, const Kernel& k, const Place& place, Id buffer, std::span<const DimRange> region,
                          Id later, const analysis::Ranges& ranges) {
  Place shared;
  std::vector<const Loop*> own;
  for (const Loop* l : loops_on(place.loop_path)) {
    if (is_under(*l, later)) {
      shared.loop = l;
      shared.outer.push_back(l->id);
    } else if (l->loop_kind == LoopKind::kSerial) {
      own.push_back(l);
    } else {
      return false;
    }
  }
  if (own.empty() || !runs_before(k.root, own[0]->id, later)) return false;
  std::vector<DimRange> wanted;
  if (shared.loop != nullptr) {
    TCC_TRY(wanted, touched_region(b, k, shared, buffer, false, ranges));
  } else {
    for (Expr extent : k.buffer(buffer)->shape) wanted.push_back({b.integer(0), extent});
  }
  for (size_t d = 0; d < region.size(); ++d) {
    const Loop* moving = nullptr;
    for (const Loop* l : own) {
      if (!mentions(region[d].base, l->id)) continue;
      if (moving != nullptr) return false;
      moving = l;
    }
    Expr first = region[d].base, made = region[d].extent, step = nullptr;
    if (moving != nullptr) {
      Substitution start, next;
      start.set(moving->id, b.integer(0));
      next.set(moving->id, b.offset(b.var(moving->id), 1));
      first = substitute(b, region[d].base, start);
      step = analysis::simplify(b, b.sub(substitute(b, region[d].base, next), region[d].base), ranges);
      if (mentions(step, moving->id) || !ranges.prove_equal(b, step, made)) return false;
      made = b.mul(moving->extent, step);
    }
    auto reaches = [&](Expr extent) {
      return ranges.prove_equal(b, made, extent) || ranges.prove_non_negative(b, b.sub(made, extent)) ||
             (step != nullptr && ranges.prove_equal(b, moving->extent, b.ceil_div(extent, step)));
    };
    // Reads stay within the buffer, even where the box is unknown.
    bool all = is_int(first, 0) && reaches(k.buffer(buffer)->shape[d]);
    if (!all && (!ranges.prove_equal(b, first, wanted[d].base) || !reaches(wanted[d].extent))) return false;
  }
  return true;
}

}  // namespace

Legal<Kernel> compute_at(const Kernel& k, Id block_id, Id loop_id) {
  TCC_TRY(Path path, path_to_block(k, block_id));
  const Block* block = as<Block>(path.nodes.back());
  TCC_TRY(Place place, find_place(k, block_id, loop_id));
  if (has_predicate_or_bound_loop(path))
    return reject(RejectReason::kLoopKindTaken, describe(k, block_id) + " has scheduled loops");

  // Step 1. An intermediate result whose consumers are all under the loop.
  Id buffer = written_buffer(k, block_id);
  const Buffer* info = buffer == kNoId ? nullptr : k.buffer(buffer);
  if (info == nullptr) return reject(RejectReason::kManyWriters, describe(k, block_id));
  if (info->role != BufferRole::kTemp)
    return reject(RejectReason::kIsOutput, describe(k, block_id) + " writes an output of the kernel");
  std::vector<Id> consumers = consumers_of(k, block_id);
  if (consumers.empty()) return reject(RejectReason::kNotInScope, describe(k, block_id) + " has no consumer");
  std::vector<Id> later;
  for (Id c : consumers)
    if (!is_under(*place.loop, c)) later.push_back(c);
  if (later.size() == consumers.size())
    return reject(RejectReason::kNotInScope, describe(k, later[0]) + " is not under " + describe(k, loop_id));
  for (const Block* other : collect_blocks(k.root))
    if (other->id != block_id && writes_buffer(other->body, buffer))
      return reject(RejectReason::kManyWriters, describe(k, buffer));
  std::optional<std::vector<int>> plain;
  visit(block->body, [&](Stmt s) {
    if (const Store* st = as<Store>(s)) plain = plain_indices(*block, st->indices);
    return true;
  });
  if (!plain) return reject(RejectReason::kNotAffine, describe(k, block_id) + " stores at computed indices");

  // Step 2. Spatial iterators run over what is read under the loop; reduce iterators run in full.
  Editor edit(k);
  analysis::Ranges ranges = all_ranges(k);
  TCC_TRY_VOID(check_remaining_blocks(edit, k, path, ranges));
  if (info->scope == Scope::kShared || info->scope == Scope::kClusterShared) place = for_all_threads(place);
  TCC_TRY(const std::vector<DimRange> region, touched_region(edit.b, k, place, buffer, false, ranges));
  std::vector<std::optional<DimRange>> per_iter(block->iters.size());
  for (size_t d = 0; d < plain->size(); ++d)
    if ((*plain)[d] >= 0) per_iter[static_cast<size_t>((*plain)[d])] = region[d];
  for (Id c : later) {
    TCC_TRY(const bool complete, leaves_behind(edit.b, k, place, buffer, region, c, ranges));
    if (!complete)
      return reject(RejectReason::kNotInScope,
                    describe(k, c) + " is not under " + describe(k, loop_id) + ", which may not leave it all it reads");
  }
  Stmt nest = regenerate(edit, *block, per_iter, ranges);
  return move_block(edit, k, block_id, loop_id, nest, true, [&](Stmt s) { return reads_buffer(s, buffer); });
}

namespace {

// Whether one iteration of the loop fills the whole box of what the producer writes in it. It does not where a fused
// loop was split across rows: the box then has elements that another iteration writes.
Legal<bool> fills_region(Editor& edit, const Kernel& k, const Place& place, Id producer,
                         const analysis::Ranges& ranges) {
  Builder& b = edit.b;
  const Block* block = find_block(k.root, producer);
  Expr written = b.integer(1), box = b.integer(1);
  // Over the loops, through the iterators of the blocks around.
  Path path = find_path(place.loop->body, producer);
  Substitution around;
  for (Stmt s : path.nodes)
    if (const Block* outer = as<Block>(s); outer != nullptr && outer != block)
      for (const Iter& it : outer->iters) around.set(it.id, substitute(b, it.binding, around));
  for (const Loop* l : loops_on(path)) {
    bool spatial = std::any_of(block->iters.begin(), block->iters.end(), [&](const Iter& it) {
      return it.kind == IterKind::kSpatial && mentions(substitute(b, it.binding, around), l->id);
    });
    if (spatial) written = b.mul(written, l->extent);
  }
  TCC_TRY(const std::vector<DimRange> region,
          touched_region(b, k, place, written_buffer(k, producer), true, ranges, false));
  for (const DimRange& r : region) box = b.mul(box, r.extent);
  Expr missing = analysis::simplify(b, b.sub(box, written), ranges);
  return is_int(missing) && int_value(missing) <= 0;
}

// The producers of the block under the loop. They are complete at the end of an iteration, all others before the loop.
Legal<std::vector<Id>> producers_under(const Kernel& k, Id block_id, Id loop_id, const Place& place) {
  std::vector<Id> producers;
  for (Id p : producers_of(k, block_id))
    if (is_under(*place.loop, p)) producers.push_back(p);
  if (producers.empty())
    return reject(RejectReason::kNotInScope,
                  "no producer of " + describe(k, block_id) + " is under " + describe(k, loop_id));
  for (Id p : producers_of(k, block_id)) {
    if (std::find(producers.begin(), producers.end(), p) != producers.end()) continue;
    // A producer elsewhere is complete when its whole nest runs before this one. Within one nest only an
    // initialization of the same buffer, in front of the loop, is understood.
    Path other = find_path(k.root, p);
    size_t top = top_level_position(other);
    bool same_nest = other.nodes[top] == place.loop_path.nodes[top];
    bool same_buffer = std::any_of(producers.begin(), producers.end(),
                                   [&](Id q) { return written_buffer(k, q) == written_buffer(k, p); });
    if (!runs_before(k.root, p, loop_id) || (same_nest && !same_buffer))
      return reject(RejectReason::kNotInScope, describe(k, p) + " is not complete before " + describe(k, loop_id));
  }
  for (Id p : producers)
    for (const Iter& it : find_block(k.root, p)->iters)
      if (it.kind != IterKind::kSpatial && mentions_any(it.binding, place.outer))
        return reject(RejectReason::kReductionOrder,
                      describe(k, p) + " is not complete within an iteration of " + describe(k, loop_id));
  return producers;
}

// Where a producer is predicated for the sake of a tile inside a tile, the consumer must skip the same instances:
// conditions on the loops around are inherited, conditions on the loops below would make the box too big. nullptr:
// none.
Legal<Expr> inherited_condition(Builder& b, const Kernel& k, std::span<const Id> producers, Id loop_id,
                                const Place& place) {
  Expr inherited = nullptr;
  for (Id p : producers) {
    const Block* producer = find_block(k.root, p);
    std::vector<Expr> conjuncts;
    split_conjunction(producer->predicate, conjuncts);
    for (Expr c : conjuncts) {
      bool whole = std::any_of(producer->iters.begin(), producer->iters.end(), [&](const Iter& it) {
        return equal(c, b.lt(it.binding, it.extent)) || (it.kind != IterKind::kSpatial && mentions_only(c, it.binding));
      });
      if (whole) continue;
      const bool below = mentions_any(c, [&](Id id) {
        return find_loop(k.root, id) != nullptr &&
               std::find(place.outer.begin(), place.outer.end(), id) == place.outer.end();
      });
      if (below)
        return reject(RejectReason::kRegionCover,
                      describe(k, p) + " is predicated on loops below " + describe(k, loop_id));
      inherited = b.logical_and(inherited, c);
    }
  }
  return inherited;
}

// Does one iteration of the loop write the whole box of what it writes of the producer's buffer? Together with another
// producer, which initializes the rest, or with one around or within it, it does.
Legal<bool> writes_box(Editor& edit, const Kernel& k, const Place& place, std::span<const Id> producers, Id p,
                       const analysis::Ranges& ranges) {
  // Of blocks within blocks the innermost says what is written.
  auto within = [&](Id outer, Id inner) { return find_path(find_block(k.root, outer)->body, inner).found(); };
  for (Id q : producers)
    if (q != p && written_buffer(k, q) == written_buffer(k, p) && (within(p, q) || !within(q, p))) return true;
  return fills_region(edit, k, place, p, ranges);
}

// For each iterator of the block the range of what the producers write under the loop.
Legal<std::vector<std::optional<DimRange>>> follow_producers(Editor& edit, const Kernel& k, const Block& block,
                                                             std::span<const Id> producers, Id loop_id,
                                                             const Place& place, const analysis::Ranges& ranges) {
  std::vector<std::optional<DimRange>> per_iter(block.iters.size());
  for (Id p : producers) {
    const Id buffer = written_buffer(k, p);
    TCC_TRY(const bool writes_all, writes_box(edit, k, place, producers, p, ranges));
    if (!writes_all)
      return reject(RejectReason::kRegionCover, "an iteration of " + describe(k, loop_id) +
                                                    " does not write a whole box of " + describe(k, buffer));
    TCC_TRY(const std::vector<DimRange> region, touched_region(edit.b, k, place, buffer, true, ranges));
    std::vector<std::vector<Expr>> reads;
    visit_loads(block.body, [&](const Load& l) {
      if (l.buffer == buffer) reads.emplace_back(l.indices.begin(), l.indices.end());
    });
    for (const auto& indices : reads) {
      std::optional<std::vector<int>> plain = plain_indices(block, indices);
      if (!plain)
        return reject(RejectReason::kNotAffine,
                      describe(k, block.id) + " reads " + describe(k, buffer) + " at computed indices");
      for (size_t d = 0; d < plain->size(); ++d) {
        int i = (*plain)[d];
        if (i < 0) continue;
        std::optional<DimRange>& mine = per_iter[static_cast<size_t>(i)];
        if (mine && (!equal(mine->base, region[d].base) || !equal(mine->extent, region[d].extent)))
          return reject(RejectReason::kRegionCover,
                        "producers of " + describe(k, block.id) + " make different regions");
        mine = region[d];
      }
    }
  }
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const Iter& it = block.iters[i];
    bool whole =
        per_iter[i] && is_int(per_iter[i]->base, 0) && ranges.prove_equal(edit.b, per_iter[i]->extent, it.extent);
    if (it.kind != IterKind::kSpatial && per_iter[i] && !whole)
      return reject(RejectReason::kReductionOrder, "iterator " + describe(k, it.id) + " reduces over a part only");
    if (it.kind == IterKind::kSpatial && !per_iter[i] && !is_int(it.extent, 1))
      return reject(RejectReason::kRegionCover, "iterator " + describe(k, it.id) + " does not follow the producer");
  }
  return per_iter;
}

}  // namespace

Legal<Kernel> reverse_compute_at(const Kernel& k, Id block_id, Id loop_id) {
  TCC_TRY(Path path, path_to_block(k, block_id));
  const Block* block = as<Block>(path.nodes.back());
  TCC_TRY(const Place place, find_place(k, block_id, loop_id));
  if (has_predicate_or_bound_loop(path))
    return reject(RejectReason::kLoopKindTaken, describe(k, block_id) + " has scheduled loops");
  Id own = written_buffer(k, block_id);
  for (const Block* other : collect_blocks(k.root))
    if (other->id != block_id && (own == kNoId || writes_buffer(other->body, own)))
      return reject(RejectReason::kManyWriters,
                    describe(k, block_id) + " shares its output with " + describe(k, other->id));

  TCC_TRY(const std::vector<Id> producers, producers_under(k, block_id, loop_id, place));
  for (Id c : consumers_of(k, block_id))
    if (is_under(*place.loop, c))
      return reject(RejectReason::kRegionCover, describe(k, c) + " under the loop reads its result");
  Editor edit(k);
  TCC_TRY(const Expr inherited, inherited_condition(edit.b, k, producers, loop_id, place));
  analysis::Ranges ranges = all_ranges(k);
  TCC_TRY_VOID(check_remaining_blocks(edit, k, path, ranges));
  TCC_TRY(const auto per_iter, follow_producers(edit, k, *block, producers, loop_id, place, ranges));
  Stmt nest = regenerate(edit, *block, per_iter, ranges);
  if (inherited != nullptr) nest = add_predicate(edit.b, nest, inherited);
  return move_block(edit, k, block_id, loop_id, nest, false, [&](Stmt s) {
    return std::any_of(producers.begin(), producers.end(), [&](Id p) { return find_path(s, p).found(); });
  });
}

}  // namespace tcc::schedule
