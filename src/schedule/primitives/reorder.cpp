#include "common.h"
#include "tcc/analysis/injective.h"

namespace tcc::schedule {

Legal<Kernel> reorder(const Kernel& k, std::span<const Id> loops) {
  if (loops.size() < 2) return k;
  // Step 1. The chain from the outermost to the innermost of the named loops.
  Path deepest;
  for (Id id : loops) {
    Path p = find_path(k.root, id);
    if (!p.found() || as<Loop>(p.nodes.back()) == nullptr) return unknown(k, "loop", id);
    if (p.nodes.size() > deepest.nodes.size()) deepest = std::move(p);
  }
  size_t first = deepest.nodes.size(), named = 0;
  for (size_t i = 0; i < deepest.nodes.size(); ++i) {
    const Loop* l = as<Loop>(deepest.nodes[i]);
    if (l != nullptr && std::find(loops.begin(), loops.end(), l->id) != loops.end()) {
      ++named;
      first = std::min(first, i);
    }
  }
  if (named != loops.size())
    return reject(RejectReason::kNotALoopChain, "the loops are not on one chain, or one is named twice");
  for (size_t i = first; i < deepest.nodes.size(); ++i)
    if (as<Loop>(deepest.nodes[i]) == nullptr)
      return reject(RejectReason::kNotALoopChain, "another statement is between the loops of " + describe(k, loops[0]));

  // Step 2. Carried iterators fix the order of the loops that feed them.
  Legal<void> order = {};
  visit(deepest.nodes[first], [&](Stmt s) {
    if (const Block* block = as<Block>(s))
      for (const Iter& it : block->iters)
        if (it.kind == IterKind::kCarried && mentions_any(it.binding, loops))
          order = reject(RejectReason::kReductionOrder, "block " + describe(k, block->id) + " runs in order");
    return order.has_value();
  });
  TCC_TRY_VOID(order);

  // A reduction that is computed again in each iteration of some loop must finish before it starts again.
  Editor edit(k);
  analysis::Ranges ranges = all_ranges(k);
  std::vector<const Loop*> moved;
  for (size_t i = first; i < deepest.nodes.size(); ++i) moved.push_back(as<Loop>(deepest.nodes[i]));
  for (const Block* block : collect_blocks(deepest.nodes[first])) {
    bool reduces = std::any_of(block->iters.begin(), block->iters.end(), [&](const Iter& it) {
      return it.kind != IterKind::kSpatial &&
             std::any_of(moved.begin(), moved.end(), [&](const Loop* l) { return mentions(it.binding, l->id); });
    });
    if (reduces && !analysis::is_injective(edit.b, *block, moved, ranges))
      return reject(RejectReason::kReductionOrder, describe(k, block->id) + " runs several times within these loops");
  }

  // Step 3. Named loops fill the slots of named loops in the given order.
  std::vector<const Loop*> chain;
  size_t next = 0;
  for (size_t i = first; i < deepest.nodes.size(); ++i) {
    const Loop* l = as<Loop>(deepest.nodes[i]);
    if (std::find(loops.begin(), loops.end(), l->id) != loops.end()) {
      Id wanted = loops[next++];
      for (size_t j = first; j < deepest.nodes.size(); ++j)
        if (as<Loop>(deepest.nodes[j])->id == wanted) l = as<Loop>(deepest.nodes[j]);
    }
    chain.push_back(l);
  }
  for (size_t i = 0; i < chain.size(); ++i)
    for (size_t j = i + 1; j < chain.size(); ++j)
      if (mentions(chain[i]->extent, chain[j]->id))
        return reject(RejectReason::kDependentExtent, "extent of " + describe(k, chain[i]->id));

  Stmt body = as<Loop>(deepest.nodes.back())->body;
  for (size_t i = chain.size(); i-- > 0;) body = edit.b.with_body(*chain[i], body);
  return edit.finish(replace_at(edit.b, prefix(deepest, first + 1), body));
}

}  // namespace tcc::schedule
