#include "lower/inline_blocks.h"

#include "tcc/ir/walk.h"

namespace tcc::lower {

using namespace ir;

namespace {

Stmt inline_in(Builder& b, Stmt s, const Substitution& outer) {
  if (const Block* block = as<Block>(s)) {
    Substitution inner = outer;
    for (const Iter& it : block->iters) inner.set(it.id, substitute(b, it.binding, outer));
    Stmt body = inline_in(b, block->body, inner);
    return block->predicate == nullptr ? body : b.if_then(substitute(b, block->predicate, outer), body);
  }
  return rewrite_children(
      b, s, [&](Stmt c) { return inline_in(b, c, outer); }, [&](Expr e) { return substitute(b, e, outer); });
}

}  // namespace

Kernel inline_blocks(const Kernel& kernel, const ArenaPtr& arena) {
  Kernel k = kernel;
  Builder b(*arena);
  k.root = inline_in(b, kernel.root, {});
  return k;
}

}  // namespace tcc::lower
