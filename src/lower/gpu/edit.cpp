#include "lower/gpu/edit.h"

#include "tcc/analysis/address.h"

#include <algorithm>

namespace tcc::lower {

using namespace ir;

std::vector<Stmt> launches_of(const Kernel& k) {
  Stmt root = k.root;
  while (const Alloc* a = as<Alloc>(root)) root = a->body;
  if (const Seq* s = as<Seq>(root)) return {s->stmts.begin(), s->stmts.end()};
  return {root};
}

Stmt map_launches(Edit& edit, Stmt root, FunctionRef<Stmt(Stmt)> f) {
  if (const Alloc* a = as<Alloc>(root)) return edit.b.alloc(a->buffers, map_launches(edit, a->body, f));
  if (const Seq* s = as<Seq>(root)) {
    std::vector<Stmt> stmts;
    for (Stmt c : s->stmts) stmts.push_back(f(c));
    return edit.b.seq(stmts);
  }
  return f(root);
}

Legal<Stmt> map_legal_launches(Edit& edit, Stmt root, FunctionRef<Legal<Stmt>(Stmt)> f) {
  Legal<void> verdict = {};
  Stmt mapped = map_launches(edit, root, [&](Stmt launch) {
    Legal<Stmt> s = f(launch);
    if (s) return *s;
    verdict = tl::make_unexpected(s.error());
    return launch;
  });
  if (!verdict) return tl::make_unexpected(verdict.error());
  return mapped;
}

bool meet(const std::set<Id>& x, const std::set<Id>& y) {
  return std::any_of(x.begin(), x.end(), [&](Id id) { return y.contains(id); });
}

namespace {

using Change = FunctionRef<bool(Id, std::vector<Expr>&)>;

Expr reindex_expr(Builder& b, Expr e, Change change) {
  Expr out = rewrite_children(b, e, [&](Expr c) { return reindex_expr(b, c, change); });
  const Load* l = as<Load>(out);
  if (l == nullptr) return out;
  std::vector<Expr> indices(l->indices.begin(), l->indices.end());
  return change(l->buffer, indices) ? b.load(l->buffer, l->type, indices, l->predicate, l->other) : out;
}

}  // namespace

Stmt reindex(Builder& b, Stmt s, Change change) {
  Stmt out = rewrite_children(
      b, s, [&](Stmt c) { return reindex(b, c, change); }, [&](Expr e) { return reindex_expr(b, e, change); });
  if (const Store* st = as<Store>(out)) {
    std::vector<Expr> indices(st->indices.begin(), st->indices.end());
    if (change(st->buffer, indices)) return b.store(st->buffer, indices, st->value, st->predicate);
  }
  if (const InstrCall* call = as<InstrCall>(out)) {
    std::vector<Operand> operands;
    bool any = false;
    for (const Operand& o : call->operands) {
      std::vector<Expr> indices(o.indices.begin(), o.indices.end());
      const bool changed = change(o.buffer, indices);
      operands.push_back({o.buffer, changed ? b.arena().copy(indices) : o.indices});
      any |= changed;
    }
    if (any) return b.instr(call->instr, operands, call->args, call->predicate);
  }
  return out;
}

namespace {

Expr keep_indices_whole(Edit& edit, Expr e, Id lane, int64_t lanes) {
  if (!mentions(e, lane)) return e;
  Builder& b = edit.b;
  Expr out = rewrite_children(b, e, [&](Expr c) { return keep_indices_whole(edit, c, lane, lanes); });
  if (out->kind != ExprKind::kFloorDiv && out->kind != ExprKind::kFloorMod) return out;
  const Binary& op = *as<Binary>(out);
  Expr rest = b.sub(op.a, b.var(lane));
  const bool whole = is_int(op.b) && int_value(op.b) % lanes == 0 && !mentions(rest, lane) &&
                     analysis::known_divisor(edit.k, rest) % lanes == 0;
  if (!whole) return out;
  return out->kind == ExprKind::kFloorDiv ? b.floor_div(rest, op.b) : b.add(b.floor_mod(rest, op.b), b.var(lane));
}

}  // namespace

Stmt keep_vectors_whole(Edit& edit, Stmt s, Id lane, int64_t lanes) {
  return rewrite_children(
      edit.b, s, [&](Stmt c) { return keep_vectors_whole(edit, c, lane, lanes); },
      [&](Expr e) { return keep_indices_whole(edit, e, lane, lanes); });
}

LocalTile local_tile(Edit& edit, const Buffer& like, std::span<const Loop* const> loops) {
  LocalTile tile;
  std::vector<Expr> shape;
  for (const Loop* l : loops) {
    shape.push_back(l->extent);
    tile.place.push_back(edit.b.var(l->id));
  }
  if (shape.empty()) {
    shape.push_back(edit.b.integer(1));
    tile.place.push_back(edit.b.integer(0));
  }
  Buffer fields{};
  fields.id = edit.fresh(like.id);
  fields.type = like.type;
  fields.scope = Scope::kLocal;
  fields.role = BufferRole::kTemp;
  fields.shape = shape;
  fields.alignment = static_cast<int32_t>(type_bytes(like.type));
  tile.buffer = edit.b.buffer(fields);
  return tile;
}

}  // namespace tcc::lower
