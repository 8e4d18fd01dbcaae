// Small questions that every room asks of expressions, loops and blocks.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <set>
#include <vector>

#include "tcc/ir/walk.h"

namespace tcc::ir {

// Is one of the variables of `e` wanted? A null expression has no variables.
bool mentions_any(Expr e, FunctionRef<bool(Id)> wanted);
template <class Ids>
  requires requires(const Ids& ids) { ids.begin(); }
bool mentions_any(Expr e, const Ids& ids) {
  return mentions_any(e, [&](Id id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); });
}
inline bool mentions_any(Expr e, std::initializer_list<Id> ids) {
  return mentions_any(e, std::span<const Id>(ids.begin(), ids.size()));
}
inline bool mentions(Expr e, Id id) {
  return e != nullptr && may_mention(e, id) && mentions_any(e, [id](Id other) { return other == id; });
}
// Every load, also those in the indices and predicates of others.
void visit_loads(Expr e, FunctionRef<void(const Load&)> f);
void visit_loads(Stmt s, FunctionRef<void(const Load&)> f);
// Whether a load is in it. Numbers of a tensor may be the greatest of their type, and sums of them wrap around; those
// of loops and extents never do.
bool reads_tensor(Expr e);
bool loads_from(Expr e, Id buffer);
bool loads_from(Stmt s, Id buffer);

// Buffers that loads, stores and instructions in the subtree touch.
struct Touched {
  std::set<Id> reads, writes;
};
Touched touched_buffers(Stmt s);

// x of a store C[at] = C[at] op x or x op C[at], where x does not read C; nullptr: a store of another form.
Expr update_term(const Store& store);

// The value of an annotation; nullptr where the key is absent.
Expr find_annotation(std::span<const Annotation> annotations, AnnotationKey key);
inline Expr find_annotation(const Loop& loop, AnnotationKey key) {
  return find_annotation(loop.annotations, key);
}
inline bool has_annotation(const Loop& loop, AnnotationKey key) {
  return find_annotation(loop, key) != nullptr;
}
// The value of a constant annotation; `otherwise` where the key is absent or its value is not constant.
int64_t annotation_or(const Loop& loop, AnnotationKey key, int64_t otherwise);
std::vector<Annotation> without(std::span<const Annotation> annotations, std::initializer_list<AnnotationKey> keys);

}  // namespace tcc::ir
