#include "tcc/analysis/init_nest.h"

#include <algorithm>

#include "tcc/ir/query.h"
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
      if (it.kind == IterKind::kReduce && mentions(it.binding, l->id)) return i;
  }
  return path.nodes.size() - 1;
}

Stmt make_init_nest(KernelEditor& edit, const Path& path, size_t first, Id* block_id) {
  Builder& b = edit.b;
  const Block* block = as<Block>(path.nodes.back());
  TCC_CHECK(block != nullptr && block->init != nullptr);
  auto mentioned = [&](Id loop) {
    return std::any_of(block->iters.begin(), block->iters.end(),
                       [&](const Iter& it) { return it.kind != IterKind::kReduce && mentions(it.binding, loop); });
  };
  Substitution renamed;
  std::vector<std::pair<const Loop*, Id>> copies;
  for (size_t i = first; i + 1 < path.nodes.size(); ++i) {
    const Loop* l = as<Loop>(path.nodes[i]);
    if (l == nullptr || !mentioned(l->id)) continue;
    Id id = edit.fresh(l->id, 0);
    renamed.set(l->id, b.var(id));
    copies.emplace_back(l, id);
  }
  std::vector<Iter> iters;
  for (const Iter& it : block->iters) {
    if (it.kind == IterKind::kReduce) continue;
    Id id = edit.fresh(it.id, 0);
    iters.push_back({id, it.kind, it.extent, substitute(b, it.binding, renamed)});
  }
  Substitution iter_names;
  size_t k = 0;
  for (const Iter& it : block->iters)
    if (it.kind != IterKind::kReduce) iter_names.set(it.id, b.var(iters[k++].id));
  // Conjuncts of the predicate that speak of reduction loops do not concern the initialization.
  Expr predicate = nullptr;
  std::vector<Expr> conjuncts;
  split_conjunction(block->predicate, conjuncts);
  for (Expr c : conjuncts) {
    const bool reduces = mentions_any(c, [&](Id id) {
      return !mentioned(id) &&
             std::any_of(path.nodes.begin() + static_cast<std::ptrdiff_t>(first), path.nodes.end() - 1,
                         [&](Stmt s) { return as<Loop>(s) != nullptr && as<Loop>(s)->id == id; });
    });
    if (!reduces) predicate = b.logical_and(predicate, substitute(b, c, renamed));
  }
  *block_id = edit.fresh(block->id, 0);
  Stmt nest = b.block(*block_id, iters, substitute(b, block->init, iter_names), nullptr, predicate);
  for (size_t i = copies.size(); i-- > 0;) {
    const Loop* l = copies[i].first;
    // Thread-bound loops of the spatial part keep their axis; other kinds are kept as they promise no order either.
    nest = b.loop(copies[i].second, substitute(b, l->extent, renamed), nest, l->loop_kind, l->axis);
  }
  return nest;
}

}  // namespace tcc::analysis
