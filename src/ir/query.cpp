#include "tcc/ir/query.h"

#include "tcc/ir/instr.h"

namespace tcc::ir {

bool mentions_any(Expr e, FunctionRef<bool(Id)> wanted) {
  if (e == nullptr) return false;
  bool found = false;
  visit(e, [&](Expr x) {
    if (const Var* v = as<Var>(x)) found = found || wanted(v->id);
    return !found;
  });
  return found;
}

void visit_loads(Expr e, FunctionRef<void(const Load&)> f) {
  visit(e, [&](Expr x) {
    if (const Load* l = as<Load>(x)) f(*l);
    return true;
  });
}
void visit_loads(Stmt s, FunctionRef<void(const Load&)> f) {
  visit_roots(s, [&](Expr root) { visit_loads(root, f); });
}

bool reads_tensor(Expr e) {
  if (e->kind == ExprKind::kVar || e->kind == ExprKind::kIntConst) return false;
  bool reads = false;
  visit_loads(e, [&](const Load&) { reads = true; });
  return reads;
}

bool loads_from(Expr e, Id buffer) {
  bool found = false;
  visit_loads(e, [&](const Load& l) { found |= l.buffer == buffer; });
  return found;
}
bool loads_from(Stmt s, Id buffer) {
  bool found = false;
  visit_loads(s, [&](const Load& l) { found |= l.buffer == buffer; });
  return found;
}

Touched touched_buffers(Stmt s) {
  Touched t;
  visit(s, [&](Stmt x) {
    if (const Store* store = as<Store>(x)) t.writes.insert(store->buffer);
    if (const InstrCall* call = as<InstrCall>(x))
      for (size_t i = 0; i < call->operands.size(); ++i) {
        const Access access = instruction(call->instr).operands[i].access;
        if (access != Access::kWrite) t.reads.insert(call->operands[i].buffer);
        if (access != Access::kRead) t.writes.insert(call->operands[i].buffer);
      }
    return true;
  });
  visit_loads(s, [&](const Load& l) { t.reads.insert(l.buffer); });
  return t;
}

Expr update_term(const Store& store) {
  const Binary* op = as<Binary>(store.value);
  if (op == nullptr) return nullptr;
  for (auto [mine, other] : {std::pair{op->a, op->b}, std::pair{op->b, op->a}}) {
    const Load* old = as<Load>(mine);
    if (old != nullptr && old->buffer == store.buffer && old->predicate == nullptr &&
        equal(old->indices, store.indices) && !loads_from(other, store.buffer))
      return other;
  }
  return nullptr;
}

Expr find_annotation(std::span<const Annotation> annotations, AnnotationKey key) {
  for (const Annotation& a : annotations)
    if (a.key == key) return a.value;
  return nullptr;
}

int64_t annotation_or(const Loop& loop, AnnotationKey key, int64_t otherwise) {
  Expr value = find_annotation(loop, key);
  return value != nullptr && is_int(value) ? int_value(value) : otherwise;
}

std::vector<Annotation> without(std::span<const Annotation> annotations, std::initializer_list<AnnotationKey> keys) {
  std::vector<Annotation> rest;
  for (const Annotation& a : annotations)
    if (std::find(keys.begin(), keys.end(), a.key) == keys.end()) rest.push_back(a);
  return rest;
}

}  // namespace tcc::ir
