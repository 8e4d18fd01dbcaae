// Walking and rewriting with lambdas. A rewrite that changes nothing returns the same pointer.
#pragma once

#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "tcc/ir/build.h"
#include "tcc/support/check.h"

namespace tcc::ir {

// A non-owning reference to a callable: no allocation on hot paths.
template <class F>
class FunctionRef;
template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)  // else copying refers to the copied reference
  FunctionRef(F&& f)                                                // NOLINT: implicit by design
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* o, A... a) -> R { return (*static_cast<std::remove_reference_t<F>*>(o))(a...); }) {}
  R operator()(A... a) const { return call_(object_, a...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

// Pre-order visits of every expression / statement. The visitor returns false to skip children.
void visit(Expr e, FunctionRef<bool(Expr)> f);
void visit(Stmt s, FunctionRef<bool(Stmt)> f);
// The direct child statements, in program order.
void visit_children(Stmt s, FunctionRef<void(Stmt)> f);
// Every expression in the subtree (extents, bindings, predicates, indices, values), as roots: not descending.
void visit_roots(Stmt s, FunctionRef<void(Expr)> f);

// Rebuilds children through `f`, bottom-up control left to f: rewrite_children(b, e, f) maps the direct children only.
Expr rewrite_children(Builder& b, Expr e, FunctionRef<Expr(Expr)> f);
// Maps direct child statements with fs and directly held expressions with fe. fs may return nullptr to delete the
// child; the result may then be nullptr.
Stmt rewrite_children(Builder& b, Stmt s, FunctionRef<Stmt(Stmt)> fs, FunctionRef<Expr(Expr)> fe);
Stmt rewrite_children(Builder& b, Stmt s, FunctionRef<Stmt(Stmt)> fs);  // expressions stay

// Substitution of variables. Pairs are few (under a dozen): linear search behind the id mask.
struct Substitution {
  std::vector<std::pair<Id, Expr>> map;
  uint64_t mask = 0;
  void set(Id id, Expr value) {
    map.emplace_back(id, value);
    mask |= id_bit(id);
  }
  Expr find(Id id) const {
    for (const auto& [key, value] : map)
      if (key == id) return value;
    return nullptr;
  }
};
Expr substitute(Builder& b, Expr e, const Substitution& s);
std::vector<Expr> substitute(Builder& b, std::span<const Expr> list, const Substitution& s);
Stmt substitute(Builder& b, Stmt s, const Substitution& subst);  // uses only, not binders

// Appends the conjuncts of a predicate (nullptr: none).
void split_conjunction(Expr predicate, std::vector<Expr>& out);

// The chain from the root to a loop or block.
struct Path {
  std::vector<Stmt> nodes;  // nodes[0] is the root, nodes.back() the target
  bool found() const { return !nodes.empty(); }
};
Path find_path(Stmt root, Id id);
const Loop* find_loop(Stmt root, Id id);
const Block* find_block(Stmt root, Id id);
// The root with the node at the end of `path` replaced (nullptr deletes it; emptied loops disappear with it).
Stmt replace_at(Builder& b, const Path& path, Stmt replacement);
// All blocks in program order.
std::vector<const Block*> collect_blocks(Stmt root);

}  // namespace tcc::ir
