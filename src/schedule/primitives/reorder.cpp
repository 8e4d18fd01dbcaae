#include "common.h"
#include "tcc/analysis/injective.h"

namespace tcc::schedule {
namespace {

// Does each instance of the spatial iterators have a state of its own? The block's only store writes it, and loads of
// that buffer read the same place, but for the carried iterators.
bool keeps_state_apart(const Block& block) {
  const Store* store = as<Store>(block.body);
  if (store == nullptr || block.init != nullptr) return false;
  std::vector<Id> spatial;
  for (const Iter& it : block.iters) {
    if (it.kind == IterKind::kReduce) return false;
    if (it.kind == IterKind::kSpatial) spatial.push_back(it.id);
  }
  const auto is_spatial = [&](Expr e) { return mentions_any(e, spatial); };
  for (Id id : spatial)
    if (std::none_of(store->indices.begin(), store->indices.end(), [&](Expr e) {
          const Var* v = as<Var>(e);
          return v != nullptr && v->id == id;
        }))
      return false;
  bool apart = true;
  visit_loads(block.body, [&](const Load& load) {
    for (size_t d = 0; load.buffer == store->buffer && d < load.indices.size(); ++d)
      apart &=
          equal(load.indices[d], store->indices[d]) || (!is_spatial(load.indices[d]) && !is_spatial(store->indices[d]));
  });
  return apart;
}

// Do the loops that feed the block's carried iterators keep their order when `loops` take each other's places?
bool keeps_carried_order(const Block& block, std::span<const Id> loops, const Path& chain) {
  std::vector<Id> before, after;
  const auto feeds = [&](Id loop) {
    return std::any_of(block.iters.begin(), block.iters.end(),
                       [&](const Iter& it) { return it.kind == IterKind::kCarried && mentions(it.binding, loop); });
  };
  size_t next = 0;
  for (Stmt s : chain.nodes) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) continue;
    const bool named = std::find(loops.begin(), loops.end(), l->id) != loops.end();
    const Id now = named ? loops[next++] : l->id;
    if (feeds(l->id)) before.push_back(l->id);
    if (feeds(now)) after.push_back(now);
  }
  return before == after;
}

}  // namespace

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

  // Step 2. Carried iterators fix the order of the loops that feed them, and of all loops where instances of spatial
  // iterators share a state.
  Legal<void> order = {};
  visit(deepest.nodes[first], [&](Stmt s) {
    if (const Block* block = as<Block>(s))
      for (const Iter& it : block->iters)
        if (it.kind == IterKind::kCarried && mentions_any(it.binding, loops) &&
            !(keeps_state_apart(*block) && keeps_carried_order(*block, loops, deepest)))
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
