#include "common.h"

#include "tcc/ir/instr.h"

namespace tcc::schedule {

namespace {

bool has_operand_unless(Stmt s, Id buffer, Access unless) {
  bool found = false;
  visit(s, [&](Stmt x) {
    if (const InstrCall* call = as<InstrCall>(x))
      for (size_t i = 0; i < call->operands.size(); ++i)
        found |= call->operands[i].buffer == buffer && instruction(call->instr).operands[i].access != unless;
    return !found;
  });
  return found;
}

}  // namespace

bool has_operand(Stmt s, Id buffer) {
  return has_operand_unless(s, buffer, Access::kWrite) || has_operand_unless(s, buffer, Access::kRead);
}

bool reads_buffer(Stmt s, Id buffer) {
  if (!may_mention(s, buffer)) return false;
  return has_operand_unless(s, buffer, Access::kWrite) || loads_from(s, buffer);
}

bool writes_buffer(Stmt s, Id buffer) {
  if (!may_mention(s, buffer)) return false;
  bool found = has_operand_unless(s, buffer, Access::kRead);
  visit(s, [&](Stmt x) {
    if (const Store* st = as<Store>(x)) found |= st->buffer == buffer;
    return !found;
  });
  return found;
}

analysis::Ranges all_ranges(const Kernel& k) {
  analysis::Ranges ranges(k);
  visit(k.root, [&](Stmt s) {
    if (const Loop* l = as<Loop>(s)) ranges.set(l->id, l->extent);
    if (const Block* block = as<Block>(s)) {
      for (const Iter& it : block->iters) ranges.set(it.id, it.extent);
      return block->body->kind != StmtKind::kStore;  // blocks within blocks
    }
    return true;
  });
  return ranges;
}

std::optional<std::vector<int>> plain_indices(const Block& block, std::span<const Expr> indices) {
  std::vector<int> out;
  uint64_t seen = 0;
  for (Expr e : indices) {
    if (is_int(e, 0)) {
      out.push_back(-1);
      continue;
    }
    const Var* v = as<Var>(e);
    if (v == nullptr) return std::nullopt;
    int position = -1;
    for (size_t i = 0; i < block.iters.size(); ++i)
      if (block.iters[i].id == v->id) position = static_cast<int>(i);
    if (position < 0 || (seen >> position & 1) != 0) return std::nullopt;
    seen |= uint64_t{1} << position;
    out.push_back(position);
  }
  return out;
}

size_t top_level_position(const Path& path) {
  return path.nodes.size() > 1 && path.nodes[0]->kind == StmtKind::kSeq ? 1 : 0;
}

Stmt add_predicate(Builder& b, Stmt s, Expr condition) {
  if (const Block* block = as<Block>(s))
    return b.block(block->id, block->iters, block->body, block->init, b.logical_and(block->predicate, condition),
                   block->reducer, block->annotations);
  return rewrite_children(b, s, [&](Stmt child) { return add_predicate(b, child, condition); });
}

Stmt rename_buffer(Builder& b, Stmt s, Id from, Id to, bool loads, bool stores) {
  if (!may_mention(s, from)) return s;
  struct Rename {
    Builder& b;
    Id from, to;
    Expr operator()(Expr e) const {
      if (!may_mention(e, from)) return e;
      Expr out = rewrite_children(b, e, *this);
      if (const Load* l = as<Load>(out); l != nullptr && l->buffer == from)
        return b.load(to, l->type, l->indices, l->predicate, l->other);
      return out;
    }
  } rename{b, from, to};
  auto on_expr = [&](Expr e) { return loads ? rename(e) : e; };
  Stmt out =
      rewrite_children(b, s, [&](Stmt child) { return rename_buffer(b, child, from, to, loads, stores); }, on_expr);
  if (const Store* st = as<Store>(out); st != nullptr && stores && st->buffer == from)
    return b.store(to, st->indices, st->value, st->predicate);
  return out;
}

Path prefix(const Path& path, size_t length) {
  Path p;
  p.nodes.assign(path.nodes.begin(), path.nodes.begin() + static_cast<std::ptrdiff_t>(length));
  return p;
}

Stmt insert_beside(Builder& b, const Path& path, size_t at, Stmt extra, bool before) {
  Stmt here = path.nodes[at];
  Stmt pair[2] = {before ? extra : here, before ? here : extra};
  return replace_at(b, prefix(path, at + 1), b.seq(pair));
}

}  // namespace tcc::schedule
