#include "tcc/analysis/init_nest.h"

#include "tcc/support/check.h"

namespace tcc::analysis {

using namespace ir;

size_t first_reduce_loop(const Path& path) {
  const Block* block = as<Block>(path.nodes.back());
  TCC_CHECK(block != nullptr);
  for (size_t i = 0; i + 1 < path.nodes.size(); ++i) {
    const Loop* l = as<Loop>(path.nodes[i]);
    if (l == nullptr) continue;
    for (const Iter& it : block->iters)
      if (it.kind == IterKind::kReduce && may_mention(it.binding, l->id)) {
        bool certain = false;
        visit(it.binding, [&](Expr e) {
          if (const Var* v = as<Var>(e)) certain |= v->id == l->id;
          return !certain;
        });
        if (certain) return i;
      }
  }
  return path.nodes.size() - 1;
}

Stmt make_init_nest(Builder& b, const Path& path, size_t first, Id* next_id, const NameHint** names, Id* block_id) {
  const Block* block = as<Block>(path.nodes.back());
  TCC_CHECK(block != nullptr && block->init != nullptr);
  auto fresh = [&](Id from, int32_t part) {
    Id id = (*next_id)++;
    *names = b.arena().make<NameHint>(*names, id, from, part, nullptr);
    return id;
  };
  uint64_t used = 0;  // a superset; checked exactly below
  for (const Iter& it : block->iters)
    if (it.kind != IterKind::kReduce) used |= it.binding->ids;
  auto mentioned = [&](Id loop) {
    if ((used & id_bit(loop)) == 0) return false;
    bool found = false;
    for (const Iter& it : block->iters)
      if (it.kind != IterKind::kReduce)
        visit(it.binding, [&](Expr e) {
          if (const Var* v = as<Var>(e)) found |= v->id == loop;
          return !found;
        });
    return found;
  };
  Substitution renamed;
  std::vector<std::pair<const Loop*, Id>> copies;
  for (size_t i = first; i + 1 < path.nodes.size(); ++i) {
    const Loop* l = as<Loop>(path.nodes[i]);
    if (l == nullptr || !mentioned(l->id)) continue;
    Id id = fresh(l->id, 0);
    renamed.set(l->id, b.var(id));
    copies.emplace_back(l, id);
  }
  std::vector<Iter> iters;
  for (const Iter& it : block->iters) {
    if (it.kind == IterKind::kReduce) continue;
    Id id = fresh(it.id, 0);
    iters.push_back({id, it.kind, it.extent, substitute(b, it.binding, renamed)});
  }
  Substitution iter_names;
  size_t k = 0;
  for (const Iter& it : block->iters)
    if (it.kind != IterKind::kReduce) iter_names.set(it.id, b.var(iters[k++].id));
  // Conjuncts of the predicate that speak of reduction loops do not concern the initialisation.
  Expr predicate = nullptr;
  std::vector<Expr> conjuncts;
  split_conjunction(block->predicate, conjuncts);
  for (Expr c : conjuncts) {
    bool keep = true;
    visit(c, [&](Expr e) {
      if (const Var* v = as<Var>(e))
        for (size_t i = first; i + 1 < path.nodes.size(); ++i)
          if (const Loop* l = as<Loop>(path.nodes[i]); l != nullptr && l->id == v->id && !mentioned(l->id))
            keep = false;
      return keep;
    });
    if (keep) predicate = b.logical_and(predicate, substitute(b, c, renamed));
  }
  *block_id = fresh(block->id, 0);
  Stmt nest = b.block(*block_id, iters, substitute(b, block->init, iter_names), nullptr, predicate);
  for (size_t i = copies.size(); i-- > 0;) {
    const Loop* l = copies[i].first;
    // Thread-bound loops of the spatial part keep their axis; other kinds are kept as they promise no order either.
    nest = b.loop(copies[i].second, substitute(b, l->extent, renamed), nest, l->loop_kind, l->axis);
  }
  return nest;
}

}  // namespace tcc::analysis
