#include "features/statement.h"

#include <algorithm>
#include <map>

#include "tcc/ir/query.h"

namespace tcc::features {

using namespace ir;

namespace {

int64_t constant_or(Expr e, int64_t otherwise) {
  return is_int(e) ? int_value(e) : otherwise;
}

class Lister {
 public:
  explicit Lister(const Kernel& kernel) : kernel_(kernel) {}

  void stmt(Stmt s) {
    const Loop* l = as<Loop>(s);
    const bool condition = s->kind == StmtKind::kIf;
    if (const Store* st = as<Store>(s)) return store(*st);
    if (const InstrCall* c = as<InstrCall>(s)) return call(*c);
    if (l != nullptr)
      loops_.push_back({l->id, l->loop_kind, std::max<int64_t>(constant_or(l->extent, 1), 1),
                        annotation_or(*l, AnnotationKey::kUnrollMax, 0)});
    predicates_ += condition ? 1 : 0;
    visit_children(s, [&](Stmt child) { stmt(child); });
    predicates_ -= condition ? 1 : 0;
    if (l != nullptr) loops_.pop_back();
  }

  std::vector<Statement> take() { return std::move(out_); }

 private:
  Statement start(Expr predicate) const {
    Statement st;
    st.loops = loops_;
    for (const LoopInfo& l : loops_) st.executions *= static_cast<double>(l.extent);
    st.predicated = predicates_ > 0 || predicate != nullptr;
    return st;
  }

  void store(const Store& s) {
    Statement st = start(s.predicate);
    value(st, s.value, false);
    access(st, s.buffer, s.indices, true, s.predicate != nullptr);
    out_.push_back(std::move(st));
  }

  void call(const InstrCall& c) {
    const Instruction& row = instruction(c.instr);
    const auto written = std::find_if(row.operands.begin(), row.operands.end(),
                                      [](const OperandSpec& o) { return o.access != ir::Access::kRead; });
    if (written == row.operands.end()) return;
    Statement st = start(c.predicate);
    st.instr = &row;
    (is_float(written->type) ? st.flops : st.int_ops) = static_cast<double>(row.flops);
    // Reads in the order of the operands, then the other results, then the first one.
    for (bool write : {false, true})
      for (size_t i = 0; i < row.operands.size(); ++i)
        if (row.operands[i].access != (write ? ir::Access::kRead : ir::Access::kWrite) &&
            !(write && &row.operands[i] == &*written))
          operand(st, c, i, write);
    operand(st, c, static_cast<size_t>(written - row.operands.begin()), true);
    out_.push_back(std::move(st));
  }

  // The tile covers the last dimensions of the buffer.
  void operand(Statement& st, const InstrCall& c, size_t i, bool write) {
    const OperandSpec& spec = instruction(c.instr).operands[i];
    access(st, c.operands[i].buffer, c.operands[i].indices, write, c.predicate != nullptr);
    std::vector<int64_t>& tile = st.accesses.back().tile;
    const size_t rank = std::min(static_cast<size_t>(spec.rank), tile.size());
    for (size_t d = 0; d < rank; ++d) {
      const size_t of_spec = static_cast<size_t>(spec.rank) - rank + d;
      const int64_t fixed = spec.tile[of_spec];
      tile[tile.size() - rank + d] = fixed > 0 ? fixed : std::max<int64_t>(constant_or(c.args[of_spec], 1), 1);
    }
  }

  // Counts the operations of data; indices are looked at for their divisions only.
  void value(Statement& st, Expr e, bool predicated) {
    visit(e, [&](Expr x) {
      if (const Load* l = as<Load>(x)) {
        access(st, l->buffer, l->indices, false, predicated || l->predicate != nullptr);
        return false;
      }
      if (x->kind == ExprKind::kCall) ++st.calls, ++st.flops;
      if (is_operation(x->kind)) ++(is_float(x->type) || x->type == Type::kBool ? st.flops : st.int_ops);
      return true;
    });
  }
  static bool is_operation(ExprKind kind) {
    using enum ExprKind;
    return kind == kAdd || kind == kSub || kind == kMul || kind == kDiv || kind == kMin || kind == kMax ||
           kind == kLt || kind == kLe || kind == kSelect;
  }

  // Adds the coefficients of the loops in e; loops inside divisions are irregular.
  void coefficients(Statement& st, Access& a, Expr e, std::vector<int64_t>& out) {
    auto position = [&](Id id) {
      for (size_t i = 0; i < loops_.size(); ++i)
        if (loops_[i].id == id) return i;
      return loops_.size();
    };
    auto atom = [&](Expr x, int64_t c) {
      if (const Var* v = as<Var>(x)) {
        if (size_t i = position(v->id); i < out.size()) out[i] += c, a.moves[i] = true;
        return;
      }
      visit(x, [&](Expr y) {
        if (y->kind == ExprKind::kFloorDiv || y->kind == ExprKind::kFloorMod) ++st.divisions;
        if (const Var* v = as<Var>(y))
          if (size_t i = position(v->id); i < out.size()) {
            a.moves[i] = a.irregular[i] = true;
            if (out[i] == 0) out[i] = 1;
          }
        return true;
      });
    };
    if (const Sum* s = as<Sum>(e)) {
      for (const Term& t : s->terms) atom(t.atom, t.coefficient);
    } else {
      atom(e, 1);
    }
  }

  void access(Statement& st, Id buffer, std::span<const Expr> indices, bool write, bool predicated) {
    Access a;
    a.buffer = kernel_.buffer(buffer);
    a.write = write;
    a.predicated = predicated;
    a.stride.assign(loops_.size(), 0);
    a.moves.assign(loops_.size(), false);
    a.irregular.assign(loops_.size(), false);
    a.dims.resize(indices.size());
    a.tile.assign(indices.size(), 1);
    int64_t size = 1;
    for (size_t d = indices.size(); d-- > 0;) {
      a.dims[d].assign(loops_.size(), 0);
      coefficients(st, a, indices[d], a.dims[d]);
      int64_t step = a.buffer->layout != nullptr ? blocked_stride(*a.buffer->layout, static_cast<int32_t>(d)) : size;
      for (size_t i = 0; i < loops_.size(); ++i) a.stride[i] += a.dims[d][i] * step;
      size *= std::max<int64_t>(constant_or(a.buffer->shape[d], 1), 1);
    }
    st.accesses.push_back(std::move(a));
  }

  // Step of the address between neighbors of a dimension, inside a tile.
  static int64_t blocked_stride(const Layout& layout, int32_t dim) {
    int64_t stride = 0, divisor = 0;
    for (const Digit& d : layout.digits)
      if (d.dim == dim && (divisor == 0 || d.divisor < divisor)) divisor = d.divisor, stride = d.stride;
    return stride;
  }

  const Kernel& kernel_;
  std::vector<LoopInfo> loops_;
  int predicates_ = 0;
  std::vector<Statement> out_;
};

}  // namespace

int64_t Access::elements() const {
  int64_t n = 1;
  for (int64_t extent : tile) n *= extent;
  return n;
}

int64_t Access::bytes() const {
  return elements() * type_bytes(buffer->type);
}

std::vector<Statement> list_statements(const Kernel& nest) {
  Lister lister(nest);
  lister.stmt(nest.root);
  return lister.take();
}

double touched_bytes(const Statement& s, size_t depth) {
  std::map<const Buffer*, double> per_buffer;
  for (const Access& a : s.accesses) {
    double elements = 1;
    for (size_t d = 0; d < a.dims.size(); ++d) {
      auto extent = static_cast<double>(a.tile[d]);
      for (size_t i = depth; i < s.loops.size(); ++i)
        extent += static_cast<double>(std::abs(a.dims[d][i])) * static_cast<double>(s.loops[i].extent - 1);
      elements *= std::min(extent, static_cast<double>(std::max<int64_t>(constant_or(a.buffer->shape[d], 1), 1)));
    }
    double& bytes = per_buffer[a.buffer];
    bytes = std::max(bytes, elements * static_cast<double>(type_bytes(a.buffer->type)));
  }
  double total = 0;
  for (const auto& [buffer, bytes] : per_buffer) total += bytes;
  return total;
}

}  // namespace tcc::features
