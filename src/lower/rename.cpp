#include "lower/rename.h"

#include <vector>

namespace tcc::lower {

using namespace ir;

Expr rename(Builder& b, Expr e, const Renaming& r) {
  if (e->kind == ExprKind::kVar) {
    Expr v = r.vars.find(as<Var>(e)->id);
    return v != nullptr ? v : e;
  }
  Expr out = rewrite_children(b, e, [&](Expr c) { return rename(b, c, r); });
  const Load* l = as<Load>(out);
  if (l == nullptr || r.ids.count(l->buffer) == 0) return out;
  return b.load(r.ids.at(l->buffer), l->type, l->indices, l->predicate, l->other);
}

Stmt rename(Builder& b, Stmt s, const Renaming& r) {
  auto name = [&](Id id) { return r.ids.count(id) != 0 ? r.ids.at(id) : id; };
  Stmt out = rewrite_children(b, s, [&](Stmt c) { return rename(b, c, r); }, [&](Expr e) { return rename(b, e, r); });
  if (const Loop* l = as<Loop>(out))
    return b.loop(name(l->id), l->extent, l->body, l->loop_kind, l->axis, l->annotations);
  if (const Store* st = as<Store>(out)) return b.store(name(st->buffer), st->indices, st->value, st->predicate);
  if (const Alloc* a = as<Alloc>(out)) {
    std::vector<Id> buffers;
    for (Id id : a->buffers) buffers.push_back(name(id));
    return b.alloc(buffers, a->body);
  }
  if (const InstrCall* call = as<InstrCall>(out)) {
    std::vector<Operand> operands(call->operands.begin(), call->operands.end());
    for (Operand& o : operands) o.buffer = name(o.buffer);
    return b.instr(call->instr, operands, call->args, call->predicate);
  }
  return out;
}

}  // namespace tcc::lower
