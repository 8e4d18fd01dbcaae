#include "tcc/analysis/nest_columns.h"

#include <algorithm>

#include "tcc/ir/instr.h"
#include "tcc/ir/kinds.h"
#include "tcc/ir/query.h"
#include "tcc/support/check.h"

namespace tcc::analysis {

using namespace ir;

namespace {

// Both ends included, as ir::Interval.
struct Span {
  Column low = kNoColumn, high = kNoColumn;
  bool known() const { return low != kNoColumn && high != kNoColumn; }
};

// ir::interval_of with columns instead of numbers.
class Intervals {
 public:
  Intervals(ColumnBuilder& b, FunctionRef<Span(Id)> variable) : b_(b), variable_(variable) {}

  Span of(Expr e) {
    switch (e->kind) {
      case ExprKind::kIntConst: {
        const Column c = b_.constant(static_cast<double>(int_value(e)));
        return {c, c};
      }
      case ExprKind::kVar:
        return variable_(static_cast<const Var*>(e)->id);
      case ExprKind::kSum:
        return sum(*static_cast<const Sum*>(e));
      case ExprKind::kProd: {
        Span total = {b_.constant(1), b_.constant(1)};
        for (Expr f : static_cast<const Prod*>(e)->factors) total = multiply(total, of(f));
        return total;
      }
      case ExprKind::kFloorDiv:
      case ExprKind::kFloorMod: {
        const Span x = of(static_cast<const Binary*>(e)->a);
        Span d = of(static_cast<const Binary*>(e)->b);
        if (!x.known() || !d.known()) return {};
        // Divisors are products of extents, which are at least 1 where the program is legal.
        if (b_.least(d.low) <= 0) d = {b_.max(d.low, b_.constant(1)), b_.max(d.high, b_.constant(1))};
        return e->kind == ExprKind::kFloorDiv ? quotient(x, d) : remainder(x, d);
      }
      case ExprKind::kMin:
      case ExprKind::kMax: {
        const Span x = of(static_cast<const Binary*>(e)->a), y = of(static_cast<const Binary*>(e)->b);
        if (!x.known() || !y.known()) return {};
        if (e->kind == ExprKind::kMin) return {b_.min(x.low, y.low), b_.min(x.high, y.high)};
        return {b_.max(x.low, y.low), b_.max(x.high, y.high)};
      }
      case ExprKind::kSelect: {
        const Span x = of(static_cast<const Select*>(e)->a), y = of(static_cast<const Select*>(e)->b);
        if (!x.known() || !y.known()) return {};
        return {b_.min(x.low, y.low), b_.max(x.high, y.high)};
      }
      case ExprKind::kFloatConst:
      case TCC_DATA_KINDS:
        return {};
    }
    return {};
  }

 private:
  Span sum(const Sum& s) {
    Span total = {b_.constant(static_cast<double>(s.constant)), b_.constant(static_cast<double>(s.constant))};
    for (const Term& t : s.terms) {
      const Span x = of(t.atom);
      if (!x.known()) return {};
      const Column c = b_.constant(static_cast<double>(t.coefficient));
      total.low = b_.add(total.low, b_.mul(c, t.coefficient > 0 ? x.low : x.high));
      total.high = b_.add(total.high, b_.mul(c, t.coefficient > 0 ? x.high : x.low));
    }
    return total;
  }
  Span multiply(Span x, Span y) {
    if (!x.known() || !y.known()) return {};
    if (b_.least(x.low) >= 0 && b_.least(y.low) >= 0) return {b_.mul(x.low, y.low), b_.mul(x.high, y.high)};
    const Column p[] = {b_.mul(x.low, y.low), b_.mul(x.low, y.high), b_.mul(x.high, y.low), b_.mul(x.high, y.high)};
    return {b_.min(b_.min(p[0], p[1]), b_.min(p[2], p[3])), b_.max(b_.max(p[0], p[1]), b_.max(p[2], p[3]))};
  }
  Span quotient(Span x, Span d) {
    if (b_.least(x.low) >= 0) return {b_.floor_div(x.low, d.high), b_.floor_div(x.high, d.low)};
    return {b_.min(b_.floor_div(x.low, d.low), b_.floor_div(x.low, d.high)),
            b_.max(b_.floor_div(x.high, d.low), b_.floor_div(x.high, d.high))};
  }
  Span remainder(Span x, Span d) {
    const Column most = b_.sub(d.high, b_.constant(1));
    if (d.low == d.high && x.low == x.high) return {b_.floor_mod(x.low, d.low), b_.floor_mod(x.low, d.low)};
    if (b_.least(x.low) >= 0) return {b_.constant(0), b_.min(x.high, most)};
    return {b_.constant(0), b_.select(b_.less(x.low, b_.constant(0)), most, b_.min(x.high, most))};
  }

  ColumnBuilder& b_;
  FunctionRef<Span(Id)> variable_;
};

class Reader {
 public:
  Reader(ColumnBuilder& b, const Kernel& nest, const ColumnValues& values, NestColumns& out)
      : b_(b), nest_(nest), values_(values), out_(out) {}

  std::string run() {
    for (const Buffer* buffer : nest_.buffers) storage(*buffer);
    stmt(nest_.root);
    return why_;
  }

 private:
  // The part of an index that moves with loops by itself: coefficient times an expression.
  struct Moving {
    Column coefficient;
    Expr atom;
  };

  void fail(const std::string& text) {
    if (why_.empty()) why_ = text;
  }
  Column one() { return b_.constant(1); }

  Column at_least_one(Expr e, const char* what, Id id) {
    const Column c = column_of(b_, e, values_);
    if (c != kNoColumn) return b_.max(c, one());
    fail(fmt::format("the {} of '{}' is not a function of the decisions", what, name_hint(nest_, id)));
    return one();
  }

  void storage(const Buffer& buffer) {
    BufferColumns s = {&buffer, one(), {}};
    for (Expr e : buffer.shape) s.shape.push_back(at_least_one(e, "shape", buffer.id));
    if (buffer.layout != nullptr) {
      s.elements = b_.constant(static_cast<double>(buffer.layout->size));
    } else {
      for (size_t d = s.shape.size(); d-- > 0;) {
        if (static_cast<int32_t>(d) == buffer.padding.dim) {  // ir::make_padded
          const Column factor = b_.constant(buffer.padding.factor);
          const Column gap = b_.sub(b_.constant(buffer.padding.offset), s.elements);
          s.elements = b_.add(s.elements, b_.floor_mod(gap, factor));
        }
        s.elements = b_.mul(s.elements, s.shape[d]);
      }
    }
    out_.buffers.push_back(std::move(s));
  }

  void stmt(Stmt s) {
    if (!why_.empty()) return;
    if (const Store* store = as<Store>(s)) return read(*store);
    if (const InstrCall* call = as<InstrCall>(s)) return read(*call);
    const Loop* l = as<Loop>(s);
    const bool condition = s->kind == StmtKind::kIf;
    if (l != nullptr) {
      Column unroll = b_.constant(0);
      if (Expr e = find_annotation(*l, AnnotationKey::kUnrollMax); e != nullptr) unroll = column_of(b_, e, values_);
      if (unroll == kNoColumn) fail("an unroll_max is not a function of the decisions"), unroll = one();
      out_.loops.push_back({l, stack_.empty() ? -1 : stack_.back(), at_least_one(l->extent, "extent", l->id), unroll});
      stack_.push_back(static_cast<int32_t>(out_.loops.size()) - 1);
    }
    conditions_ += condition ? 1 : 0;
    visit_children(s, [&](Stmt child) { stmt(child); });
    conditions_ -= condition ? 1 : 0;
    if (l != nullptr) stack_.pop_back();
  }

  StatementColumns start(Stmt s, Expr predicate) {
    StatementColumns out = {s, stack_, one(), 0, 0, 0, conditions_ > 0 || predicate != nullptr, {}};
    for (int32_t l : stack_) out.executions = b_.mul(out.executions, extent(l));
    return out;
  }
  Column extent(int32_t loop) const { return out_.loops[static_cast<size_t>(loop)].extent; }

  void read(const Store& s) {
    StatementColumns out = start(&s, s.predicate);
    value(out, s.value, s.predicate != nullptr);
    access(out, s.buffer, s.indices, {}, true, s.predicate != nullptr);
    out_.statements.push_back(std::move(out));
  }

  void read(const InstrCall& c) {
    const Instruction& row = instruction(c.instr);
    auto is_written = [](const OperandSpec& o) { return o.access != ir::Access::kRead && o.type != Type::kBarrier; };
    const auto written = std::find_if(row.operands.begin(), row.operands.end(), is_written);
    if (written == row.operands.end()) return;
    StatementColumns out = start(&c, c.predicate);
    (is_float(written->type) ? out.flops : out.int_ops) = static_cast<double>(row.flops);
    auto operand = [&](size_t i, bool write) {
      const OperandSpec& spec = row.operands[i];
      std::vector<int64_t> tile(static_cast<size_t>(spec.rank), 1);
      for (size_t d = 0; d < tile.size(); ++d) {
        tile[d] = spec.tile[d];
        if (tile[d] == 0 && d < c.args.size() && is_int(c.args[d])) tile[d] = int_value(c.args[d]);
        tile[d] = std::max<int64_t>(tile[d], 1);
      }
      access(out, c.operands[i].buffer, c.operands[i].indices, tile, write, c.predicate != nullptr);
    };
    for (size_t i = 0; i < row.operands.size(); ++i)
      if (row.operands[i].access != ir::Access::kWrite && row.operands[i].type != Type::kBarrier) operand(i, false);
    for (size_t i = 0; i < row.operands.size(); ++i)
      if (is_written(row.operands[i]) && &row.operands[i] != &*written) operand(i, true);
    operand(static_cast<size_t>(written - row.operands.begin()), true);
    out_.statements.push_back(std::move(out));
  }

  // Counts the operations of data and reads the loads.
  void value(StatementColumns& out, Expr e, bool predicated) {
    visit(e, [&](Expr x) {
      if (const Load* l = as<Load>(x)) {
        access(out, l->buffer, l->indices, {}, false, predicated || l->predicate != nullptr);
        return false;
      }
      if (x->kind == ExprKind::kCall) ++out.calls, ++out.flops;
      switch (x->kind) {
        case ExprKind::kAdd:
        case ExprKind::kSub:
        case ExprKind::kMul:
        case ExprKind::kDiv:
        case ExprKind::kMin:
        case ExprKind::kMax:
        case ExprKind::kLt:
        case ExprKind::kLe:
        case ExprKind::kSelect:
          ++(is_float(x->type) || x->type == Type::kBool ? out.flops : out.int_ops);
          break;
        default:
          break;
      }
      return true;
    });
  }

  bool is_loop_around(Id id) const {
    return std::any_of(stack_.begin(), stack_.end(),
                       [&](int32_t l) { return out_.loops[static_cast<size_t>(l)].loop->id == id; });
  }
  bool moves_with_loops(Expr e) const {
    return mentions_any(e, [&](Id id) { return is_loop_around(id); });
  }

  // The terms of an index that mention loops; constants and scalars shift the box and do not widen it.
  std::vector<Moving> moving_parts(Expr index) {
    std::vector<Moving> parts;
    auto add = [&](Expr atom, int64_t coefficient) {
      if (!moves_with_loops(atom) && !mentions_memory(atom)) return;
      Moving m = {b_.constant(static_cast<double>(coefficient)), atom};
      // Scalars of a product belong to its coefficient.
      if (const Prod* p = as<Prod>(atom)) {
        std::vector<Expr> rest;
        for (Expr f : p->factors) {
          const Column c = moves_with_loops(f) ? kNoColumn : column_of(b_, f, values_);
          if (c == kNoColumn)
            rest.push_back(f);
          else
            m.coefficient = b_.mul(m.coefficient, c);
        }
        if (rest.size() == 1)
          m.atom = rest[0];
        else if (rest.size() < p->factors.size())
          m = {b_.constant(static_cast<double>(coefficient)), atom};
      }
      parts.push_back(m);
    };
    if (const Sum* s = as<Sum>(index)) {
      for (const Term& t : s->terms) add(t.atom, t.coefficient);
    } else if (!is_int(index)) {
      add(index, 1);
    }
    return parts;
  }
  static bool mentions_memory(Expr e) {
    bool found = false;
    visit_loads(e, [&](const Load&) { found = true; });
    return found;
  }

  // Largest less smallest value of the part when the loops from `depth` on run; kNoColumn: not known.
  Column width_of(Expr atom, size_t depth) {
    auto variable = [&](Id id) -> Span {
      for (size_t i = 0; i < stack_.size(); ++i) {
        if (out_.loops[static_cast<size_t>(stack_[i])].loop->id != id) continue;
        if (i < depth) return {b_.constant(0), b_.constant(0)};
        return {b_.constant(0), b_.sub(extent(stack_[i]), one())};
      }
      for (const auto& [scalar, value] : values_)
        if (scalar == id) return {value, value};
      return {};
    };
    const Span s = Intervals(b_, variable).of(atom);
    return s.known() ? b_.sub(s.high, s.low) : kNoColumn;
  }
  Column magnitude(Column c) {
    if (b_.least(c) >= 0) return c;
    const Column opposite = b_.sub(b_.constant(0), c);
    return b_.most(c) <= 0 ? opposite : b_.max(c, opposite);
  }

  void access(StatementColumns& s, Id id, std::span<const Expr> indices, std::span<const int64_t> tile, bool write,
              bool predicated) {
    const BufferColumns& storage = out_.buffer(id);
    const size_t rank = indices.size(), depth = stack_.size();
    AccessColumns a = {storage.buffer, write, predicated, {}, {}, {}, {}};
    a.touched.assign(depth + 1, one()), a.row.assign(depth + 1, one());
    a.moves.assign(depth, false);
    a.step.assign(depth, b_.constant(0));
    Column stride = one();  // of the dimension, row-major
    for (size_t d = rank; d-- > 0;) {
      const std::vector<Moving> parts = moving_parts(indices[d]);
      const int64_t of_tile = static_cast<int64_t>(d + tile.size()) - static_cast<int64_t>(rank);
      const int64_t elements = of_tile >= 0 ? tile[static_cast<size_t>(of_tile)] : 1;
      for (size_t level = 0; level <= depth; ++level) {
        const Column width = box(parts, level, elements, storage.shape[d]);
        a.touched[level] = b_.mul(a.touched[level], width);
        if (d + 1 == rank) a.row[level] = width;
      }
      const Column by = storage.buffer->layout == nullptr
                            ? stride
                            : b_.constant(static_cast<double>(blocked_stride(*storage.buffer->layout, d)));
      for (size_t l = 0; l < depth; ++l) move(parts, l, by, a);
      stride = b_.mul(stride, storage.shape[d]);
    }
    s.accesses.push_back(std::move(a));
  }
  // Elements along one dimension.
  Column box(const std::vector<Moving>& parts, size_t level, int64_t tile, Column shape) {
    Column width = b_.constant(static_cast<double>(tile));
    // From the innermost loop outward, so that levels share what they have in common.
    for (const Moving& m : parts) {
      const Column w = width_of(m.atom, level);
      if (w == kNoColumn) return b_.min(b_.mul(b_.constant(static_cast<double>(tile)), values_of(parts, level)), shape);
      width = b_.add(width, b_.mul(magnitude(m.coefficient), w));
    }
    return b_.min(width, shape);
  }
  // An index that comes from memory has at most as many values as its loops from `level` on have iterations.
  Column values_of(const std::vector<Moving>& parts, size_t level) {
    Column count = one();
    for (size_t l = level; l < stack_.size(); ++l) {
      const Id id = out_.loops[static_cast<size_t>(stack_[l])].loop->id;
      if (std::any_of(parts.begin(), parts.end(), [&](const Moving& m) { return mentions(m.atom, id); }))
        count = b_.mul(count, extent(stack_[l]));
    }
    return count;
  }
  void move(const std::vector<Moving>& parts, size_t position, Column stride, AccessColumns& a) {
    const Id loop = out_.loops[static_cast<size_t>(stack_[position])].loop->id;
    for (const Moving& m : parts) {
      if (!mentions(m.atom, loop)) continue;
      a.moves[position] = true;
      Column& step = a.step[position];
      if (step == kNoColumn) continue;
      step = as<Var>(m.atom) == nullptr ? kNoColumn : b_.add(step, b_.mul(m.coefficient, stride));
    }
  }
  // Step of the address between neighbors of a dimension, inside a tile.
  static int64_t blocked_stride(const Layout& layout, size_t dim) {
    int64_t stride = 0, divisor = 0;
    for (const Digit& d : layout.digits)
      if (d.dim == static_cast<int32_t>(dim) && (divisor == 0 || d.divisor < divisor))
        divisor = d.divisor, stride = d.stride;
    return stride;
  }

  ColumnBuilder& b_;
  const Kernel& nest_;
  const ColumnValues& values_;
  NestColumns& out_;
  std::vector<int32_t> stack_;
  int conditions_ = 0;
  std::string why_;
};

}  // namespace

const BufferColumns& NestColumns::buffer(Id id) const {
  const auto at =
      std::find_if(buffers.begin(), buffers.end(), [&](const BufferColumns& b) { return b.buffer->id == id; });
  TCC_CHECK(at != buffers.end(), "a statement names buffer {}, which its kernel does not have", id);
  return *at;
}

Column column_of(ColumnBuilder& b, Expr e, const ColumnValues& values) {
  auto variable = [&](Id id) -> Span {
    for (const auto& [scalar, value] : values)
      if (scalar == id) return {value, value};
    return {};
  };
  const Span s = Intervals(b, variable).of(e);
  return s.known() && s.low == s.high ? s.low : kNoColumn;
}

bool nest_columns(ColumnBuilder& b, const Kernel& nest, const ColumnValues& values, NestColumns& out,
                  std::string& why) {
  out.values = values;
  why = Reader(b, nest, values, out).run();
  return why.empty();
}

}  // namespace tcc::analysis
