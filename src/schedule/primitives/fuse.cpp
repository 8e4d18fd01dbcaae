#include "common.h"

namespace tcc::schedule {

Legal<Kernel> fuse(const Kernel& k, std::span<const Id> loops, Id& out) {
  if (loops.empty()) return reject(RejectReason::kNotALoopChain, "fuse of no loops");
  Path path = find_path(k.root, loops[0]);
  if (!path.found()) return unknown(k, "loop", loops[0]);
  std::vector<const Loop*> chain;
  Stmt at = path.nodes.back();
  for (size_t i = 0; i < loops.size(); ++i) {
    const Loop* l = as<Loop>(at);
    if (l == nullptr || l->id != loops[i])
      return reject(RejectReason::kNotALoopChain,
                    describe(k, loops[i]) + " is not the only child of the loop before it");
    if (l->loop_kind != LoopKind::kSerial || !l->annotations.empty())
      return reject(RejectReason::kLoopKindTaken, "fuse of " + describe(k, l->id) + ", which is bound or annotated");
    if (mentions_any(l->extent, loops))
      return reject(RejectReason::kDependentExtent, "extent of " + describe(k, l->id));
    chain.push_back(l);
    at = l->body;
  }
  Editor edit(k);
  Builder& b = edit.b;
  Id fused = edit.fresh(loops[0], static_cast<int32_t>(loops.size()));
  Substitution replace;
  Expr inner = b.integer(1);
  for (size_t i = chain.size(); i-- > 0;) {
    Expr value = b.floor_div(b.var(fused), inner);
    if (i > 0) value = b.floor_mod(value, chain[i]->extent);
    replace.set(chain[i]->id, value);
    inner = b.mul(inner, chain[i]->extent);
  }
  Stmt body = b.loop(fused, inner, substitute(b, chain.back()->body, replace));
  out = fused;
  return edit.finish(replace_at(b, path, body));
}

}  // namespace tcc::schedule
