// rfactor: the iterations of one reduction loop get an accumulator each, which a second block combines.
#include "common.h"
#include "tcc/analysis/init_nest.h"

namespace tcc::schedule {
namespace {

// The operation by which the block's reducer combines.
std::optional<ExprKind> combiner(ReducerKind reducer) {
  switch (reducer) {
    case ReducerKind::kSum:
      return ExprKind::kAdd;
    case ReducerKind::kProd:
      return ExprKind::kMul;
    case ReducerKind::kMax:
      return ExprKind::kMax;
    case ReducerKind::kMin:
      return ExprKind::kMin;
    case ReducerKind::kNone:
      break;
  }
  return std::nullopt;
}

struct Request {
  Path path;
  const Block* block = nullptr;
  const Store* store = nullptr;
  const Loop* loop = nullptr;      // whose iterations get accumulators
  size_t first = 0;                // path position of the outermost reduction loop
  std::vector<const Loop*> below;  // loops from there on
  Expr term = nullptr;
};

bool moves_iterator(const Block& block, const Loop& loop, bool reduce) {
  return std::any_of(block.iters.begin(), block.iters.end(), [&](const Iter& it) {
    return (it.kind == IterKind::kReduce) == reduce && mentions(it.binding, loop.id);
  });
}

Legal<Request> check(const Kernel& k, Id block_id, Id loop_id) {
  Request r;
  r.path = find_path(k.root, block_id);
  r.block = r.path.found() ? as<Block>(r.path.nodes.back()) : nullptr;
  if (r.block == nullptr) return unknown(k, "block", block_id);
  std::string name = describe(k, block_id);
  r.store = as<Store>(r.block->body);
  if (r.block->init == nullptr || r.store == nullptr || r.store->predicate != nullptr)
    return reject(RejectReason::kReductionOrder, name + ": expected a reduction with an initialization and one store");
  r.term = r.store->value->kind == combiner(r.block->reducer) ? update_term(*r.store) : nullptr;
  if (r.term == nullptr)
    return reject(RejectReason::kReductionOrder, name + " does not update its result by sum, product, max or min");
  for (const Block* other : collect_blocks(k.root))
    if (other->id != block_id && writes_buffer(other->body, r.store->buffer))
      return reject(RejectReason::kManyWriters, describe(k, r.store->buffer));
  r.first = analysis::first_reduce_loop(r.path);
  for (size_t i = r.first; i + 1 < r.path.nodes.size(); ++i) {
    const Loop* l = as<Loop>(r.path.nodes[i]);
    if (l == nullptr) return reject(RejectReason::kNotALoopChain, name + " is not alone below its reduction loops");
    r.below.push_back(l);
    if (l->id == loop_id) r.loop = l;
    if (moves_iterator(*r.block, *l, true) && moves_iterator(*r.block, *l, false))
      return reject(RejectReason::kNotAffine, describe(k, l->id) + " feeds spatial and reduce iterators");
    if (!l->annotations.empty() || l->loop_kind != LoopKind::kSerial)
      return reject(RejectReason::kLoopKindTaken, describe(k, l->id));
  }
  if (r.loop == nullptr)
    return reject(RejectReason::kNotInScope, describe(k, loop_id) + " is not a reduction loop of " + name);
  if (!moves_iterator(*r.block, *r.loop, true))
    return reject(RejectReason::kReductionOrder, describe(k, loop_id) + " feeds no reduce iterator");
  for (const Loop* l : r.below)
    for (const Loop* outer : r.below)
      if (mentions(l->extent, outer->id)) return reject(RejectReason::kDependentExtent, describe(k, l->id));
  return r;
}

// The conjuncts of the predicate that the result's elements must fulfil. Those that mention reduction loops say which
// terms there are; nullopt: not every accumulator certainly has one, namely that of the first iterations.
std::optional<Expr> result_predicate(Editor& edit, const Request& r) {
  Builder& b = edit.b;
  std::vector<Expr> conjuncts;
  split_conjunction(r.block->predicate, conjuncts);
  Substitution first;
  for (const Loop* l : r.below)
    if (l != r.loop && moves_iterator(*r.block, *l, true)) first.set(l->id, b.integer(0));
  analysis::Ranges ranges = all_ranges(edit.k);
  Expr out = nullptr;
  for (Expr c : conjuncts) {
    bool over_terms = mentions(c, r.loop->id);
    for (const Loop* l : r.below) over_terms |= moves_iterator(*r.block, *l, true) && mentions(c, l->id);
    if (!over_terms) {
      out = b.logical_and(out, c);
    } else if (!is_int(analysis::simplify(b, substitute(b, c, first), ranges), 1)) {
      return std::nullopt;
    }
  }
  return out;
}

// Accumulates into copy[..., v] below the old loops.
Stmt partial_block(Editor& edit, const Request& r, const Buffer& copy, Id& out) {
  Builder& b = edit.b;
  out = edit.fresh_named(name_hint(edit.k, r.block->id) + "_rf");
  std::vector<Iter> iters;
  Substitution names, loops;
  for (const Iter& it : r.block->iters) {
    if (it.kind == IterKind::kReduce) continue;
    iters.push_back({edit.fresh(it.id, 0), it.kind, it.extent, it.binding});
    names.set(it.id, b.var(iters.back().id));
  }
  Id lane = edit.fresh(r.loop->id, 0);
  iters.push_back({lane, IterKind::kSpatial, r.loop->extent, b.var(r.loop->id)});
  loops.set(r.loop->id, b.var(lane));
  bool reduces = false;
  for (const Loop* l : r.below) {
    if (l == r.loop || !moves_iterator(*r.block, *l, true)) continue;
    reduces = true;
    iters.push_back({edit.fresh(l->id, 0), IterKind::kReduce, l->extent, b.var(l->id)});
    loops.set(l->id, b.var(iters.back().id));
  }
  for (const Iter& it : r.block->iters)
    if (it.kind == IterKind::kReduce) names.set(it.id, substitute(b, it.binding, loops));
  std::vector<Expr> at = substitute(b, r.store->indices, names);
  at.push_back(b.var(lane));
  Expr value = substitute(b, r.term, names);
  if (!reduces) return b.block(out, iters, b.store(copy.id, at, value), nullptr, r.block->predicate);
  const Store* start = as<Store>(r.block->init);
  Stmt init = b.store(copy.id, at, substitute(b, start->value, names));
  const Binary* op = as<Binary>(r.store->value);
  Expr old = b.load(copy, at);
  Expr update = b.binary(op->kind, old, value);
  return b.block(out, iters, b.store(copy.id, at, update), init, r.block->predicate, r.block->reducer);
}

// result = combination of copy[..., v] over v, within copies of the loops that choose the result's elements.
Stmt final_nest(Editor& edit, const Request& r, const Buffer& copy, Expr predicate) {
  Builder& b = edit.b;
  std::vector<std::pair<const Loop*, Id>> loops;
  Substitution renamed;
  for (const Loop* l : r.below) {
    if (l != r.loop && !moves_iterator(*r.block, *l, false)) continue;
    loops.emplace_back(l, edit.fresh(l->id, 0));
    renamed.set(l->id, b.var(loops.back().second));
  }
  std::vector<Iter> iters;
  for (const Iter& it : r.block->iters)
    if (it.kind != IterKind::kReduce) iters.push_back({it.id, it.kind, it.extent, substitute(b, it.binding, renamed)});
  Id over = edit.fresh(r.loop->id, 0);
  iters.push_back({over, IterKind::kReduce, r.loop->extent, substitute(b, b.var(r.loop->id), renamed)});
  std::vector<Expr> at(r.store->indices.begin(), r.store->indices.end());
  at.push_back(b.var(over));
  const Binary* op = as<Binary>(r.store->value);
  Expr old = b.load(*edit.k.buffer(r.store->buffer), r.store->indices);
  Stmt body = b.store(r.store->buffer, r.store->indices, b.binary(op->kind, old, b.load(copy, at)));
  if (predicate != nullptr) predicate = substitute(b, predicate, renamed);
  Stmt nest = b.block(r.block->id, iters, body, r.block->init, predicate, r.block->reducer, r.block->annotations);
  for (size_t i = loops.size(); i-- > 0;)
    if (loops[i].first == r.loop) nest = b.loop(loops[i].second, r.loop->extent, nest);
  for (size_t i = loops.size(); i-- > 0;)
    if (loops[i].first != r.loop) nest = b.loop(loops[i].second, loops[i].first->extent, nest);
  return nest;
}

}  // namespace

Legal<Kernel> rfactor(const Kernel& k, Id block_id, Id loop_id, Id& out) {
  TCC_TRY(Request request, check(k, block_id, loop_id));
  const Request& r = request;
  Editor edit(k);
  std::optional<Expr> predicate = result_predicate(edit, r);
  if (!predicate)
    return reject(RejectReason::kRegionCover,
                  describe(k, loop_id) + " overhangs: some accumulators would have no terms");
  const Buffer& result = *k.buffer(r.store->buffer);
  std::vector<Expr> shape(result.shape.begin(), result.shape.end());
  shape.push_back(r.loop->extent);
  const Buffer* made = edit.add_temporary(result, name_hint(edit.k, result.id) + "_rf", Scope::kGlobal, shape);
  Stmt partial = partial_block(edit, r, *made, out);
  Stmt final_stmt = final_nest(edit, r, *made, *predicate);
  Stmt root = replace_at(edit.b, r.path, partial);
  Path path = find_path(root, out);
  return edit.finish(insert_beside(edit.b, path, r.first, final_stmt, false));
}

}  // namespace tcc::schedule
