// Walks the nest once. Reuse is found as MetaSchedule's per-store features find it (TVM,
// src/meta_schedule/feature_extractor/per_store_feature.cc): buffers touched below each loop are kept in lists that
// grow with the statements, so "touched before" means by an earlier statement of the program.
#include "features/nest_reader.h"

#include <algorithm>
#include <cmath>

#include "tcc/ir/evaluate.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/interval.h"
#include "tcc/ir/query.h"

namespace tcc::features {

using namespace ir;

namespace {

constexpr double kLineBytes = 64;  // the papers' cache line, on every machine

int64_t constant_or(Expr e, int64_t otherwise) {
  return is_int(e) ? int_value(e) : otherwise;
}
int64_t extent_of(const Buffer& b, size_t dim) {
  return std::max<int64_t>(constant_or(b.shape[dim], 1), 1);
}

// Step of the address between neighbors of a dimension, in elements; inside a tile where the layout has tiles.
int64_t step_of(const Buffer& b, size_t dim) {
  if (b.layout == nullptr) {
    int64_t step = 1;
    for (size_t d = dim + 1; d < b.shape.size(); ++d) step *= extent_of(b, d);
    return step;
  }
  int64_t stride = 0, divisor = 0;
  for (const Digit& d : b.layout->digits)
    if (d.dim == static_cast<int32_t>(dim) && (divisor == 0 || d.divisor < divisor))
      divisor = d.divisor, stride = d.stride;
  return stride;
}

double& count(OpCounts& ops, OpKind kind, Type type) {
  return (is_float(type) ? ops.real : ops.integer)[static_cast<size_t>(kind)];
}

// Adds `times` of each operation of `e`, those of indices included. Sums and products of index arithmetic count by
// their terms. A conversion counts as an "other" operation of its result.
void count_ops(Expr e, double times, OpCounts& ops) {
  visit(e, [&](Expr x) {
    auto add = [&](OpKind kind, Type type, double n = 1) { count(ops, kind, type) += n * times; };
    switch (x->kind) {
      case ExprKind::kAdd:
      case ExprKind::kSub:
        add(OpKind::kAddSub, x->type);
        break;
      case ExprKind::kMul:
        add(OpKind::kMul, x->type);
        break;
      case ExprKind::kDiv:
      case ExprKind::kFloorDiv:
      case ExprKind::kFloorMod:
        add(OpKind::kDiv, x->type);
        break;
      case ExprKind::kMin:
      case ExprKind::kMax:
        add(OpKind::kCompare, x->type);
        break;
      case ExprKind::kLt:
      case ExprKind::kLe:
      case ExprKind::kEq:
      case ExprKind::kNe:
        add(OpKind::kCompare, static_cast<const Binary*>(x)->a->type);
        break;
      case ExprKind::kAnd:
      case ExprKind::kOr:
      case ExprKind::kNot:
        ops.logic += times;
        break;
      case ExprKind::kSelect:
        ops.select += times;
        break;
      case ExprKind::kCast:
        add(OpKind::kOther, x->type);
        break;
      case ExprKind::kCall:
        add(static_cast<const Call*>(x)->fn == Intrinsic::kFma ? OpKind::kMad
            : takes_bits(static_cast<const Call*>(x)->fn)      ? OpKind::kOther
                                                               : OpKind::kMath,
            x->type);
        break;
      case ExprKind::kSum: {
        const Sum& sum = *static_cast<const Sum*>(x);
        const double parts = static_cast<double>(sum.terms.size()) + (sum.constant != 0 ? 1 : 0);
        add(OpKind::kAddSub, x->type, std::max(parts - 1, 0.0));
        for (const Term& t : sum.terms)
          if (t.coefficient != 1) add(OpKind::kMul, x->type);
        break;
      }
      case ExprKind::kProd:
        add(OpKind::kMul, x->type, static_cast<double>(static_cast<const Prod*>(x)->factors.size()) - 1);
        break;
      case ExprKind::kLoad:
        if (static_cast<const Load*>(x)->predicate != nullptr) ops.select += times;
        break;
      case ExprKind::kIntConst:
      case ExprKind::kFloatConst:
      case ExprKind::kVar:
        break;
    }
    return true;
  });
}

// Of a statement in an instruction's semantics. `extent`: the value of an extent.
void count_statement(Stmt s, double times, FunctionRef<double(Expr)> extent, OpCounts& ops) {
  if (const Store* store = as<Store>(s)) return count_ops(store->value, times, ops);
  if (const Loop* l = as<Loop>(s)) times *= extent(l->extent);
  visit_children(s, [&](Stmt child) { count_statement(child, times, extent, ops); });
}

bool is_constant(Expr e) {
  return e->kind == ExprKind::kIntConst || e->kind == ExprKind::kFloatConst;
}

}  // namespace

double OpCounts::reals() const {
  double sum = 0;
  for (double n : real) sum += n;
  return sum;
}

void count_operations(Expr e, OpCounts& ops) {
  count_ops(e, 1, ops);
}

OpCounts instruction_ops(const InstrCall& call) {
  const Instruction& row = instruction(call.instr);
  OpCounts ops;
  const Type type = row.operands.empty() ? Type::kI32 : row.operands[0].type;
  if (row.behaviour == Behaviour::kCompute) {
    const Kernel& semantics = instruction_semantics(call.instr);
    auto extent = [&](Expr e) {
      if (const Var* v = as<Var>(e))
        for (size_t i = 0; i < semantics.scalars.size() && i < call.args.size(); ++i)
          if (semantics.scalars[i].id == v->id) return static_cast<double>(constant_or(call.args[i], 1));
      return static_cast<double>(constant_or(e, 1));
    };
    count_statement(semantics.root, 1, extent, ops);
  } else if (row.behaviour == Behaviour::kAtomicAdd) {
    count(ops, OpKind::kAddSub, type) += 1;
  }
  count(ops, OpKind::kOther, type) += 1;
  return ops;
}

void NestReader::read(const Kernel& nest) {
  kernel_ = &nest;
  stack_.clear(), loops_.clear(), statements_.clear(), accesses_.clear(), indices_.clear(), coefficients_.clear();
  touched_.clear(), first_touch_.clear(), loop_bytes_.clear(), touches_.clear();
  depth_.assign(static_cast<size_t>(nest.next_id), -1);
  executions_ = 1, next_loop_ = 0;
  elements_.clear();
  for (const Buffer* b : nest.buffers) {
    double n = 1;
    for (size_t d = 0; d < b->shape.size(); ++d) n *= static_cast<double>(extent_of(*b, d));
    elements_.push_back(n);
  }
  allocations_.assign(nest.buffers.size(), 1);
  stmt(nest.root);
}

int32_t NestReader::position(Id buffer) const {
  for (size_t i = 0; i < kernel_->buffers.size(); ++i)
    if (kernel_->buffers[i]->id == buffer) return static_cast<int32_t>(i);
  TCC_CHECK(false, "a statement names buffer {}, which its kernel does not have", buffer);
  return -1;
}

void NestReader::stmt(Stmt s) {
  if (const Store* st = as<Store>(s)) return store(*st);
  if (const InstrCall* c = as<InstrCall>(s)) return call(*c);
  if (const Alloc* a = as<Alloc>(s))
    for (Id id : a->buffers) allocations_[static_cast<size_t>(position(id))] = executions_;
  const Loop* l = as<Loop>(s);
  if (l == nullptr) return visit_children(s, [&](Stmt child) { stmt(child); });
  const int64_t extent = std::max<int64_t>(constant_or(l->extent, 1), 1);
  depth_[static_cast<size_t>(l->id)] = static_cast<int32_t>(stack_.size());
  stack_.push_back(
      {l->id, l->loop_kind, l->axis, extent, annotation_or(*l, AnnotationKey::kUnrollMax, 0), next_loop_++});
  first_touch_.push_back(-1), loop_bytes_.push_back(0);
  const double around = executions_;
  executions_ *= static_cast<double>(extent);
  stmt(l->body);
  executions_ = around;
  stack_.pop_back();
  depth_[static_cast<size_t>(l->id)] = -1;
}

NestStatement NestReader::begin(int32_t stored) {
  NestStatement s = {.first_loop = static_cast<int32_t>(loops_.size()),
                     .loops = static_cast<int32_t>(stack_.size()),
                     .executions = executions_,
                     .ops = {},
                     .stored = stored,
                     .constant = false,
                     .first_access = static_cast<int32_t>(accesses_.size()),
                     .accesses = 0};
  loops_.insert(loops_.end(), stack_.begin(), stack_.end());
  return s;
}

void NestReader::store(const Store& st) {
  NestStatement s = begin(position(st.buffer));
  s.constant = is_constant(st.value);
  count_ops(st.value, 1, s.ops);
  if (st.predicate != nullptr) count_ops(st.predicate, 1, s.ops), s.ops.select += 1;
  access(s, st.buffer, st.indices, true, {});
  loads(st.value, s);
  finish(s);
}

void NestReader::call(const InstrCall& c) {
  const Instruction& row = instruction(c.instr);
  const OpCounts ops = instruction_ops(c);
  auto tile_of = [&](const OperandSpec& spec, int64_t(&tile)[3]) {
    for (int32_t d = 0; d < spec.rank; ++d) {
      tile[d] = spec.tile[d];
      if (tile[d] == 0 && static_cast<size_t>(d) < c.args.size())
        tile[d] = constant_or(c.args[static_cast<size_t>(d)], 1);
    }
    return std::span<const int64_t>(tile, static_cast<size_t>(spec.rank));
  };
  for (size_t o = 0; o < row.operands.size(); ++o) {
    const OperandSpec& spec = row.operands[o];
    if (spec.access == ir::Access::kRead || spec.type == Type::kBarrier) continue;
    NestStatement s = begin(position(c.operands[o].buffer));
    s.ops = ops;
    int64_t tile[3];
    access(s, c.operands[o].buffer, c.operands[o].indices, true, tile_of(spec, tile));
    bool reads = spec.access == ir::Access::kReadWrite;
    for (size_t k = 0; k < row.operands.size(); ++k) {
      const OperandSpec& other = row.operands[k];
      if (k == o || other.access == ir::Access::kWrite || other.type == Type::kBarrier) continue;
      access(s, c.operands[k].buffer, c.operands[k].indices, false, tile_of(other, tile));
      reads = true;
    }
    accesses_[static_cast<size_t>(s.first_access)].read |= spec.access == ir::Access::kReadWrite;
    s.constant = !reads;
    finish(s);
  }
}

void NestReader::loads(Expr e, NestStatement& s) {
  visit(e, [&](Expr x) {
    if (const Load* l = as<Load>(x)) access(s, l->buffer, l->indices, false, {});
    return true;
  });
}

bool NestReader::same(const NestAccess& a, int32_t vector, int32_t other) const {
  const auto rank = static_cast<int32_t>(buffer(a.buffer).shape.size());
  const size_t depth = stack_.size();
  for (int32_t d = 0; d < rank; ++d) {
    const NestIndex& x = indices_[static_cast<size_t>(a.first_index + vector * rank + d)];
    const NestIndex& y = indices_[static_cast<size_t>(a.first_index + other * rank + d)];
    if ((x.expr == nullptr) != (y.expr == nullptr) || x.tile != y.tile) return false;
    if (x.expr != nullptr ? !equal(x.expr, y.expr) : x.constant != y.constant) return false;
    for (size_t i = 0; i < depth; ++i)
      if (coefficients_[static_cast<size_t>(x.first_coefficient) + i] !=
          coefficients_[static_cast<size_t>(y.first_coefficient) + i])
        return false;
  }
  return true;
}

// Fills in the coefficients of the loops around; an expression that is not linear in them keeps its form.
void NestReader::affine(Expr e, NestIndex& out) {
  const auto first = static_cast<size_t>(out.first_coefficient);
  auto add = [&](Expr atom, int64_t c) {
    const Var* v = as<Var>(atom);
    if (v == nullptr) return false;
    if (const int32_t at = depth_[static_cast<size_t>(v->id)]; at >= 0)
      coefficients_[first + static_cast<size_t>(at)] += c;
    return true;
  };
  bool linear = true;
  if (is_int(e)) {
    out.constant = int_value(e);
  } else if (const Sum* s = as<Sum>(e)) {
    out.constant = s->constant;
    for (const Term& t : s->terms) linear &= add(t.atom, t.coefficient);
  } else {
    linear = add(e, 1);
  }
  if (!linear) out.expr = e;
}

// Adds an index vector to the access of its buffer, which the first one makes.
void NestReader::access(NestStatement& s, Id id, std::span<const Expr> indices, bool write,
                        std::span<const int64_t> tile) {
  const int32_t at = position(id);
  const auto rank = static_cast<int32_t>(indices.size());
  int32_t known = -1;
  for (int32_t i = 0; i < s.accesses && known < 0; ++i)
    if (accesses_[static_cast<size_t>(s.first_access + i)].buffer == at) known = s.first_access + i;
  const auto first = static_cast<int32_t>(indices_.size());
  for (int32_t d = 0; d < rank; ++d) {
    const int32_t of_tile = d - (rank - static_cast<int32_t>(tile.size()));
    indices_.push_back({nullptr, 0, static_cast<int32_t>(coefficients_.size()),
                        of_tile >= 0 ? std::max<int64_t>(tile[static_cast<size_t>(of_tile)], 1) : 1});
    coefficients_.resize(coefficients_.size() + stack_.size(), 0);
    affine(indices[static_cast<size_t>(d)], indices_.back());
  }
  int64_t size = 1;
  for (int64_t t : tile) size *= std::max<int64_t>(t, 1);
  if (known < 0) {
    NestAccess a = {};
    a.buffer = at, a.read = !write, a.write = write, a.first_index = first, a.vectors = 1, a.tile = size;
    accesses_.push_back(a);
    ++s.accesses;
    return;
  }
  NestAccess& a = accesses_[static_cast<size_t>(known)];
  (write ? a.write : a.read) = true;
  a.tile = std::max(a.tile, size);
  // The vectors of one access are neighbors in the list; one that is known, or comes after another buffer's, is moved
  // to the end together with those before it.
  const int32_t end = a.first_index + a.vectors * rank;
  if (end != first) {
    const auto from = static_cast<size_t>(a.first_index), n = static_cast<size_t>(a.vectors * rank);
    std::vector<NestIndex>& list = indices_;
    list.resize(list.size() + n);
    for (size_t i = 0; i < static_cast<size_t>(rank); ++i)
      list[static_cast<size_t>(first) + n + i] = list[static_cast<size_t>(first) + i];
    for (size_t i = 0; i < n; ++i) list[static_cast<size_t>(first) + i] = list[from + i];
    a.first_index = first;
  }
  for (int32_t v = 0; v < a.vectors; ++v)
    if (same(a, v, a.vectors)) {
      indices_.resize(indices_.size() - static_cast<size_t>(rank));
      return;
    }
  ++a.vectors;
}

void NestReader::finish(NestStatement& s) {
  for (int32_t i = 0; i < s.accesses; ++i) measure(s, accesses_[static_cast<size_t>(s.first_access + i)]);
  for (size_t l = 0; l < stack_.size(); ++l)
    for (int32_t i = 0; i < s.accesses; ++i) {
      const NestAccess& a = accesses_[static_cast<size_t>(s.first_access + i)];
      touch(stack_[l].number, a.buffer, touched(a, l));
    }
  for (int32_t i = 0; i < s.accesses; ++i) find_reuse(s, accesses_[static_cast<size_t>(s.first_access + i)]);
  statements_.push_back(s);
}

// Boxes below each loop, from the innermost outward; loops further out are at their first iteration.
void NestReader::measure(const NestStatement& s, NestAccess& a) {
  const Buffer& b = buffer(a.buffer);
  const size_t rank = b.shape.size(), depth = stack_.size();
  const auto vectors = static_cast<size_t>(a.vectors);
  a.first_touched = static_cast<int32_t>(touched_.size());
  touched_.resize(touched_.size() + depth + 1);
  double continuous = 1;
  low_.assign(rank * vectors, 0), high_.assign(rank * vectors, 0);
  for (size_t level = depth + 1; level-- > 0;) {
    double box = 1, run = 1;
    bool whole = true;
    for (size_t d = rank; d-- > 0;) {
      double low = 0, high = 0;
      for (size_t v = 0; v < vectors; ++v) {
        const NestIndex& index = indices_[static_cast<size_t>(a.first_index) + v * rank + d];
        double &lo = low_[v * rank + d], &hi = high_[v * rank + d];
        if (index.expr != nullptr) {
          const Interval range = interval_of(index.expr, [&](Id id) {
            const int32_t at = static_cast<size_t>(id) < depth_.size() ? depth_[static_cast<size_t>(id)] : -1;
            if (at < 0 || static_cast<size_t>(at) < level) return Interval{0, 0};
            return Interval{0, stack_[static_cast<size_t>(at)].extent - 1};
          });
          lo = range.known() ? static_cast<double>(range.low) : 0;
          hi = range.known() ? static_cast<double>(range.high) : static_cast<double>(extent_of(b, d) - 1);
        } else if (level == depth) {
          lo = hi = static_cast<double>(index.constant);
        } else {
          const double reach =
              static_cast<double>(coefficients_[static_cast<size_t>(index.first_coefficient) + level]) *
              static_cast<double>(stack_[level].extent - 1);
          (reach < 0 ? lo : hi) += reach;
        }
        const double end = hi + static_cast<double>(index.tile - 1);
        low = v == 0 ? lo : std::min(low, lo), high = v == 0 ? end : std::max(high, end);
      }
      const double extent = std::min(high - low + 1, static_cast<double>(extent_of(b, d)));
      box *= extent;
      if (whole) run *= extent;
      whole &= extent == static_cast<double>(extent_of(b, d));
    }
    touched_[static_cast<size_t>(a.first_touched) + level] = box;
    continuous = run;
  }
  const auto element = static_cast<double>(type_bytes(b.type));
  double still = 1, least = 0;  // innermost loops without a stride; the stride of the first loop that has one
  a.stride = 0;
  if (a.tile > 1) {
    a.stride = least = 1;
  } else {
    for (size_t l = depth; l-- > 0 && least == 0;) {
      for (int32_t v = 0; v < a.vectors; ++v) {
        const double stride = std::abs(stride_of(a, v, l));
        least = v == 0 ? stride : std::min(least, stride);
      }
      if (l + 1 == depth) a.stride = least;
      if (least == 0) still *= static_cast<double>(stack_[l].extent);
    }
  }
  const double accesses = s.executions * static_cast<double>(a.tile);
  a.bytes = element * accesses;
  a.unique_bytes = element * touched(a, 0);
  a.lines = std::max(accesses / still * std::min(1.0, least * element / kLineBytes), 1.0);
  a.unique_lines = std::max(a.unique_bytes / std::min(kLineBytes, continuous * element), 1.0);
}

// Of the address, in elements, for one step of the loop.
double NestReader::stride_of(const NestAccess& a, int32_t vector, size_t loop) {
  const Buffer& b = buffer(a.buffer);
  const size_t rank = b.shape.size();
  double stride = 0;
  for (size_t d = 0; d < rank; ++d) {
    const NestIndex& index = indices_[static_cast<size_t>(a.first_index) + static_cast<size_t>(vector) * rank + d];
    auto step = static_cast<double>(coefficients_[static_cast<size_t>(index.first_coefficient) + loop]);
    if (index.expr != nullptr) {
      auto at = [&](int64_t value) {
        variables_.clear();
        for (const NestLoop& l : stack_) variables_.emplace_back(l.id, l.id == stack_[loop].id ? value : 0);
        return evaluate(index.expr, variables_);
      };
      const std::optional<int64_t> first = at(0), next = at(1);
      step = first && next ? static_cast<double>(*next - *first) : 0;
    }
    stride += step * static_cast<double>(step_of(b, d));
  }
  return stride;
}

// Does each iteration of the loop touch the same elements?
bool NestReader::repeats(const NestAccess& a, size_t loop) const {
  const size_t n = buffer(a.buffer).shape.size() * static_cast<size_t>(a.vectors);
  for (size_t i = 0; i < n; ++i) {
    const NestIndex& index = indices_[static_cast<size_t>(a.first_index) + i];
    if (coefficients_[static_cast<size_t>(index.first_coefficient) + loop] != 0) return false;
    if (index.expr != nullptr && mentions(index.expr, stack_[loop].id)) return false;
  }
  return true;
}

void NestReader::touch(int32_t loop, int32_t buffer_at, double elements) {
  const auto l = static_cast<size_t>(loop);
  loop_bytes_[l] += elements * static_cast<double>(type_bytes(buffer(buffer_at).type));
  for (int32_t i = first_touch_[l]; i >= 0; i = touches_[static_cast<size_t>(i)].next) {
    Touch& t = touches_[static_cast<size_t>(i)];
    if (t.buffer != buffer_at) continue;
    ++t.count, t.least = std::min(t.least, elements);
    return;
  }
  touches_.push_back({buffer_at, 1, first_touch_[l], elements});
  first_touch_[l] = static_cast<int32_t>(touches_.size()) - 1;
}

void NestReader::find_reuse(const NestStatement& s, NestAccess& a) {
  a.reuse = ReuseType::kNone;
  a.reuse_iterations = a.reuse_bytes = a.reuse_count = a.reuse_chain = 0;
  double inner = 1;
  for (size_t l = stack_.size(); l-- > 0; inner *= static_cast<double>(stack_[l].extent)) {
    const auto extent = static_cast<double>(stack_[l].extent);
    const auto number = static_cast<size_t>(stack_[l].number);
    if (repeats(a, l)) {
      a.reuse = ReuseType::kLoop;
      a.reuse_count = a.reuse_chain = extent;
      a.reuse_iterations = inner;
      a.reuse_bytes = l + 1 == stack_.size() ? touched_bytes(s, stack_.size())
                                             : loop_bytes_[static_cast<size_t>(stack_[l + 1].number)];
      for (size_t outer = l; outer-- > 0 && repeats(a, outer);)
        a.reuse_chain *= static_cast<double>(stack_[outer].extent);
      return;
    }
    for (int32_t i = first_touch_[number]; i >= 0; i = touches_[static_cast<size_t>(i)].next) {
      const Touch& t = touches_[static_cast<size_t>(i)];
      if (t.buffer != a.buffer || t.count < 2) continue;
      a.reuse = ReuseType::kSerial;
      a.reuse_count = a.reuse_chain = t.count - 1;
      a.reuse_iterations = t.least / extent;
      a.reuse_bytes = loop_bytes_[number] / extent;
      return;
    }
  }
}

double NestReader::touched_bytes(const NestStatement& s, size_t depth) const {
  double sum = 0;
  for (const NestAccess& a : accesses(s))
    sum += touched(a, depth) * static_cast<double>(type_bytes(buffer(a.buffer).type));
  return sum;
}

}  // namespace tcc::features
