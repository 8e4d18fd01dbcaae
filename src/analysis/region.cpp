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
        return visit_children(s, [&](Stmt child) { stmt(child); });
      case StmtKind::kInstrCall:
        for (Expr a : as<InstrCall>(s)->args) expr(a);
        for (size_t i = 0; i < as<InstrCall>(s)->operands.size(); ++i)
          operand(*as<InstrCall>(s), as<InstrCall>(s)->operands[i], instruction(as<InstrCall>(s)->instr).operands[i]);
        return;
      case StmtKind::kSeq:
      case StmtKind::kAlloc:
      case StmtKind::kRoles:
        return visit_children(s, [&](Stmt child) { stmt(child); });
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
    info.indices = substitute(b_, indices, bindings_);
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
  bool only_inner = true, all_constant = true;
  mentions_any(moving, [&](Id v) {
    only_inner &= inner(v);
    Expr n = ranges.extent(v);
    all_constant &= n != nullptr && is_int(n);
    return !only_inner;
  });
  if (only_inner && all_constant)
    if (const Interval c = ranges.bounds(moving); c.known())
      return DimRange{b.offset(base, c.low), b.integer(c.high - c.low + 1)};
  // Symbolic: the ends are polynomials; fixed variables must cancel in the extent.
  Expr low = ranges.lower(b, moving, inner), high = ranges.upper(b, moving, inner);
  if (low == nullptr || high == nullptr) return std::nullopt;
  Expr extent = ranges.apply_products(b, b.offset(b.sub(high, low), 1));
  if (mentions_any(extent, [&](Id v) { return ranges.extent(v) != nullptr; })) return std::nullopt;
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

DimRange clip(Builder& b, const DimRange& range, Expr dimension, const Ranges& ranges) {
  if (ranges.bounds(range.base).low < 0) return range;
  if (is_int(dimension) && ranges.most(range.extent) <= int_value(dimension)) return range;
  return {range.base, b.min(range.extent, dimension)};
}

}  // namespace tcc::analysis
