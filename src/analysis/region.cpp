#include "tcc/analysis/region.h"
#include "tcc/ir/query.h"

#include "tcc/ir/instr.h"
#include "tcc/support/check.h"

namespace tcc::analysis {

using namespace ir;

namespace {

class AccessVisitor {
 public:
  AccessVisitor(Builder& b, FunctionRef<void(const AccessInfo&, const LoopStack&, const Block*)> f) : b_(b), f_(f) {}

  void stmt(Stmt s) {
    if (s == nullptr) return;
    switch (s->kind) {
      case StmtKind::kSeq:
        for (Stmt c : as<Seq>(s)->stmts) stmt(c);
        return;
      case StmtKind::kLoop:
        expr(as<Loop>(s)->extent);
        loops_.push_back(as<Loop>(s));
        stmt(as<Loop>(s)->body);
        loops_.pop_back();
        return;
      case StmtKind::kBlock: {
        const Block* block = as<Block>(s);
        size_t before = bindings_.map.size();
        uint64_t mask = bindings_.mask;
        for (const Iter& it : block->iters) expr(it.binding);
        if (block->predicate != nullptr) expr(block->predicate);
        for (const Iter& it : block->iters) bindings_.set(it.id, substitute(b_, it.binding, bindings_));
        const Block* outer = std::exchange(block_, block);
        stmt(block->init);
        stmt(block->body);
        block_ = outer;
        bindings_.map.resize(before);
        bindings_.mask = mask;
        return;
      }
      case StmtKind::kStore: {
        const Store* x = as<Store>(s);
        expr(x->value);
        if (x->predicate != nullptr) expr(x->predicate);
        for (Expr i : x->indices) expr(i);
        give(x->buffer, true, x->indices);
        return;
      }
      case StmtKind::kIf:
        expr(as<If>(s)->condition);
        stmt(as<If>(s)->then_case);
        stmt(as<If>(s)->else_case);
        return;
      case StmtKind::kAlloc:
        stmt(as<Alloc>(s)->body);
        return;
      case StmtKind::kInstrCall:
        for (Expr a : as<InstrCall>(s)->args) expr(a);
        for (size_t i = 0; i < as<InstrCall>(s)->operands.size(); ++i)
          operand(*as<InstrCall>(s), as<InstrCall>(s)->operands[i], instruction(as<InstrCall>(s)->instr).operands[i]);
        return;
      case StmtKind::kRoles:
        for (const Role& r : as<Roles>(s)->roles) stmt(r.body);
        return;
    }
  }

 private:
  // The first and the last element of the operand's tile: the elements between them are touched too.
  void operand(const InstrCall& call, const Operand& o, const OperandSpec& spec) {
    std::vector<Expr> last(o.indices.begin(), o.indices.end());
    bool corner = static_cast<size_t>(spec.rank) <= last.size();
    for (int32_t d = 0; d < spec.rank && corner; ++d) {
      Expr& index = last[last.size() - static_cast<size_t>(spec.rank - d)];
      index = spec.tile[d] > 0 ? b_.offset(index, spec.tile[d] - 1)
                               : b_.offset(b_.add(index, call.args[static_cast<size_t>(d)]), -1);
    }
    for (bool write : {false, true}) {
      if (spec.access == (write ? Access::kRead : Access::kWrite)) continue;
      give(o.buffer, write, o.indices);
      if (corner) give(o.buffer, write, last);
    }
  }
  void expr(Expr e) {
    visit(e, [&](Expr x) {
      if (const Load* l = as<Load>(x)) give(l->buffer, false, l->indices);
      return true;
    });
  }
  void give(Id buffer, bool write, std::span<const Expr> indices) {
    AccessInfo info{buffer, write, {}};
    info.indices.reserve(indices.size());
    for (Expr i : indices) info.indices.push_back(substitute(b_, i, bindings_));
    f_(info, loops_, block_);
  }

  Builder& b_;
  FunctionRef<void(const AccessInfo&, const LoopStack&, const Block*)> f_;
  LoopStack loops_;
  Substitution bindings_;
  const Block* block_ = nullptr;
};

}  // namespace

void visit_accesses(Builder& b, Stmt root, FunctionRef<void(const AccessInfo&, const LoopStack&, const Block*)> f) {
  AccessVisitor(b, f).stmt(root);
}

std::optional<DimRange> dim_range(Builder& b, Expr index, const Ranges& ranges, FunctionRef<bool(Id)> inner) {
  std::vector<Term> outer_terms, inner_terms;
  int64_t constant = 0;
  auto place = [&](const Term& t) { (mentions_any(t.atom, inner) ? inner_terms : outer_terms).push_back(t); };
  if (is_int(index))
    constant = int_value(index);
  else if (const Sum* s = as<Sum>(index)) {
    constant = s->constant;
    for (const Term& t : s->terms) place(t);
  } else {
    place({1, index});
  }
  Expr base = b.sum(constant, outer_terms);
  if (inner_terms.empty()) return DimRange{base, b.integer(1)};
  Expr moving = b.sum(0, inner_terms);
  ConstBounds c;
  bool only_inner = true;
  visit(moving, [&](Expr x) {
    if (const Var* v = as<Var>(x))
      if (!inner(v->id)) only_inner = false;
    return only_inner;
  });
  if (only_inner) {
    bool all_constant = true;
    visit(moving, [&](Expr x) {
      if (const Var* v = as<Var>(x))
        if (Expr n = ranges.extent(v->id); n == nullptr || !is_int(n)) all_constant = false;
      return all_constant;
    });
    if (all_constant && ranges.bounds(moving, c)) return DimRange{b.offset(base, c.low), b.integer(c.high - c.low + 1)};
  }
  // Symbolic: the ends are polynomials; fixed variables must cancel in the extent.
  Expr low = ranges.lower(b, moving, inner), high = ranges.upper(b, moving, inner);
  if (low == nullptr || high == nullptr) return std::nullopt;
  Expr extent = ranges.apply_products(b, b.offset(b.sub(high, low), 1));
  bool free_of_loops = true;
  visit(extent, [&](Expr x) {
    if (const Var* v = as<Var>(x))
      if (ranges.extent(v->id) != nullptr) free_of_loops = false;
    return free_of_loops;
  });
  if (!free_of_loops) return std::nullopt;
  return DimRange{b.add(base, low), extent};
}

std::optional<DimRange> unite(Builder& b, const DimRange& x, const DimRange& y) {
  Expr d = b.sub(y.base, x.base);
  if (!is_int(d)) return std::nullopt;
  int64_t shift = int_value(d);
  if (shift == 0) {
    if (equal(x.extent, y.extent)) return x;
    return DimRange{x.base, b.max(x.extent, y.extent)};
  }
  Expr base = shift < 0 ? y.base : x.base;
  Expr x_end = b.offset(x.extent, shift < 0 ? -shift : 0), y_end = b.offset(y.extent, shift < 0 ? 0 : shift);
  return DimRange{base, b.max(x_end, y_end)};
}

}  // namespace tcc::analysis
