#include "tcc/ir/query.h"

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

bool loads_from(Expr e, Id buffer) {
  bool found = false;
  visit(e, [&](Expr x) {
    if (const Load* l = as<Load>(x)) found |= l->buffer == buffer;
    return !found;
  });
  return found;
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
