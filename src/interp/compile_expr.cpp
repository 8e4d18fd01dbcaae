// Expressions: hoisting, sharing, value arithmetic, addresses.
#include <algorithm>

#include "interp/compile.h"
#include "tcc/ir/query.h"
#include "tcc/support/check.h"

namespace tcc::interp {
namespace {

using ir::Expr;
using ir::ExprKind;
using ir::Type;

bool is_power_of_two(int64_t v) {
  return v > 0 && (v & (v - 1)) == 0;
}

}  // namespace

AccessOps access_ops(Type type) {
  switch (type) {
    case Type::kI8:
      return {Op::kLoadI8, Op::kStoreI8};
    case Type::kBool:
    case Type::kU8:
      return {Op::kLoadU8, Op::kStoreI8};
    case Type::kI16:
      return {Op::kLoadI16, Op::kStoreI16};
    case Type::kU16:
      return {Op::kLoadU16, Op::kStoreI16};
    case Type::kI32:
      return {Op::kLoadI32, Op::kStoreI32};
    case Type::kI64:
    case Type::kBarrier:
    case Type::kTensorMap:
      break;
    case Type::kF16:
      return {Op::kLoadF16, Op::kStoreF16};
    case Type::kBF16:
      return {Op::kLoadBF16, Op::kStoreBF16};
    case Type::kF32:
      return {Op::kLoadF32, Op::kStoreF32};
    case Type::kF64:
      return {Op::kLoadF64, Op::kStoreF64};
  }
  return {Op::kLoadI64, Op::kStoreI64};
}

int32_t Compiler::emit(Code& code, Ins ins) {
  code.ins.push_back(ins);
  code.origin.push_back(current_);
  return code.size() - 1;
}
int32_t Compiler::new_reg() {
  region_.initial.push_back(Reg{0});
  return static_cast<int32_t>(region_.initial.size()) - 1;
}
int32_t Compiler::emit_value(Code& code, Ins ins) {
  ins.d = new_reg();
  emit(code, ins);
  return ins.d;
}
int32_t Compiler::constant(int64_t value) {
  auto [at, fresh] = constants_.try_emplace(value, -1);
  if (fresh) {
    at->second = new_reg();
    region_.initial[static_cast<size_t>(at->second)].i = value;
  }
  return at->second;
}
int32_t Compiler::constant_real(double value) {
  return constant(std::bit_cast<int64_t>(value));
}

int32_t Compiler::scalar(ir::Id id) {
  const ir::Scalar* s = info_.kernel.scalar(id);
  TCC_CHECK(s != nullptr, "variable {} is not bound in the kernel", ir::name_hint(info_.kernel, id));
  Variable& v = variables_[static_cast<size_t>(id)];
  v = {new_reg(), 0, true, {s->low, s->high}};
  region_.scalars.emplace_back(v.reg, id);
  return v.reg;
}

Compiler::Place Compiler::place(Expr e) {
  const auto meet = [](const Place& x, const Place& y) {
    return Place{x.hoistable && y.hoistable, std::max(x.depth, y.depth)};
  };
  switch (e->kind) {
    case ExprKind::kIntConst:
    case ExprKind::kFloatConst:
      return {};
    case ExprKind::kVar: {
      const Variable& v = variables_[static_cast<size_t>(static_cast<const ir::Var*>(e)->id)];
      return {v.hoistable, v.depth};
    }
    case ExprKind::kSum: {
      Place p;
      for (const ir::Term& t : static_cast<const ir::Sum*>(e)->terms) p = meet(p, place(t.atom));
      return p;
    }
    case ExprKind::kProd: {
      Place p;
      for (Expr f : static_cast<const ir::Prod*>(e)->factors) p = meet(p, place(f));
      return p;
    }
    case ExprKind::kFloorDiv:
    case ExprKind::kFloorMod: {
      const auto* b = static_cast<const ir::Binary*>(e);
      if (!ir::is_int(b->b) || ir::int_value(b->b) == 0) return {false, 0};  // may fail: stays where it is
      return place(b->a);
    }
    case ExprKind::kMin:
    case ExprKind::kMax:
    case ExprKind::kLt:
    case ExprKind::kLe:
    case ExprKind::kEq:
    case ExprKind::kNe: {
      const auto* b = static_cast<const ir::Binary*>(e);
      if (b->a->type != Type::kI64) return {false, 0};
      return meet(place(b->a), place(b->b));
    }
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return meet(place(static_cast<const ir::Binary*>(e)->a), place(static_cast<const ir::Binary*>(e)->b));
    case ExprKind::kNot:
      return place(static_cast<const ir::Unary*>(e)->a);
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kDiv:
    case ExprKind::kCast:
    case ExprKind::kSelect:
    case ExprKind::kLoad:
    case ExprKind::kCall:
      return {false, 0};
  }
  return {false, 0};
}

int32_t Compiler::expr(Expr e) {
  if (e->kind == ExprKind::kIntConst) return constant(ir::int_value(e));
  if (e->kind == ExprKind::kFloatConst) return constant_real(static_cast<const ir::FloatConst*>(e)->value);
  if (e->kind == ExprKind::kVar) {
    const ir::Id id = static_cast<const ir::Var*>(e)->id;
    const int32_t reg = variables_[static_cast<size_t>(id)].reg;
    return reg >= 0 ? reg : scalar(id);
  }
  if (e->kind == ExprKind::kSum) return sum(*static_cast<const ir::Sum*>(e));
  const Place p = place(e);
  if (!p.hoistable) return expr_at(e, *code_);
  auto& known = scopes_[static_cast<size_t>(p.depth)].values[e->hash];
  for (const auto& [other, reg] : known)
    if (ir::equal(other, e)) return reg;
  const int32_t reg = expr_at(e, scopes_[static_cast<size_t>(p.depth)].prologue);
  scopes_[static_cast<size_t>(p.depth)].values[e->hash].emplace_back(e, reg);
  return reg;
}

int32_t Compiler::expr_at(Expr e, Code& code) {
  switch (e->kind) {
    case ExprKind::kProd: {
      const auto factors = static_cast<const ir::Prod*>(e)->factors;
      int32_t acc = expr(factors[0]);
      for (size_t i = 1; i < factors.size(); ++i) {
        const int32_t f = expr(factors[i]);
        acc = emit_value(code, {.op = Op::kMulI, .a = acc, .b = f});
      }
      return acc;
    }
    case ExprKind::kFloorDiv:
    case ExprKind::kFloorMod:
      return floor_op(*static_cast<const ir::Binary*>(e), code);
    case ExprKind::kMin:
    case ExprKind::kMax:
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kDiv:
      return arithmetic(*static_cast<const ir::Binary*>(e), code);
    case ExprKind::kLt:
    case ExprKind::kLe:
    case ExprKind::kEq:
    case ExprKind::kNe:
      return binary(*static_cast<const ir::Binary*>(e), code);
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return logical(*static_cast<const ir::Binary*>(e), code);
    case ExprKind::kNot: {
      const int32_t a = expr(static_cast<const ir::Unary*>(e)->a);
      return emit_value(code, {.op = Op::kNotB, .a = a});
    }
    case ExprKind::kCast:
      return cast(*static_cast<const ir::Unary*>(e), code);
    case ExprKind::kSelect:
      return select(*static_cast<const ir::Select*>(e));
    case ExprKind::kLoad:
      return load(*static_cast<const ir::Load*>(e));
    case ExprKind::kCall:
      return call(*static_cast<const ir::Call*>(e), code);
    case ExprKind::kIntConst:
    case ExprKind::kFloatConst:
    case ExprKind::kVar:
    case ExprKind::kSum:
      return expr(e);
  }
  TCC_UNREACHABLE("expression kind");
}

// A sum is added up outermost variables first, each part where its variables are known, so that inner loops add only
// what changes in them.
int32_t Compiler::sum(const ir::Sum& s) {
  struct Part {
    int32_t depth;  // INT32_MAX: not hoistable
    int64_t coefficient;
    int32_t reg;
  };
  std::vector<Part> parts;
  for (const ir::Term& t : s.terms) {
    const Place p = place(t.atom);
    parts.push_back({p.hoistable ? p.depth : INT32_MAX, t.coefficient, expr(t.atom)});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.depth < b.depth; });
  int32_t acc = s.constant != 0 ? constant(s.constant) : -1;
  for (size_t i = 0; i < parts.size();) {
    const int32_t depth = parts[i].depth;
    std::vector<int64_t> key{acc};
    size_t end = i;
    for (; end < parts.size() && parts[end].depth == depth; ++end) {
      key.push_back(parts[end].coefficient);
      key.push_back(parts[end].reg);
    }
    const bool hoisted = depth != INT32_MAX;
    if (hoisted) {
      const auto& sums = scopes_[static_cast<size_t>(depth)].sums;
      if (const auto at = sums.find(key); at != sums.end()) {
        acc = at->second;
        i = end;
        continue;
      }
    }
    Code& code = hoisted ? scopes_[static_cast<size_t>(depth)].prologue : *code_;
    for (; i < end; ++i) {
      const Part& p = parts[i];
      if (acc < 0) {
        acc =
            p.coefficient == 1 ? p.reg : emit_value(code, {.op = Op::kMulI, .a = p.reg, .b = constant(p.coefficient)});
      } else if (p.coefficient == 1) {
        acc = emit_value(code, {.op = Op::kAddI, .a = acc, .b = p.reg});
      } else {
        acc = emit_value(code, {.op = Op::kMAddI, .a = acc, .b = p.reg, .e = constant(p.coefficient)});
      }
    }
    if (hoisted) scopes_[static_cast<size_t>(depth)].sums.emplace(std::move(key), acc);
  }
  return acc < 0 ? constant(0) : acc;
}

int32_t Compiler::floor_op(const ir::Binary& e, Code& code) {
  const int32_t a = expr(e.a);
  const bool div = e.kind == ExprKind::kFloorDiv;
  if (ir::is_int(e.b) && is_power_of_two(ir::int_value(e.b))) {
    const int64_t v = ir::int_value(e.b);
    return emit_value(code,
                      div ? Ins{.op = Op::kShrI, .a = a, .b = constant(std::countr_zero(static_cast<uint64_t>(v)))}
                          : Ins{.op = Op::kAndI, .a = a, .b = constant(v - 1)});
  }
  const int32_t b = expr(e.b);
  return emit_value(code, {.op = div ? Op::kFloorDivI : Op::kFloorModI, .a = a, .b = b});
}

void Compiler::round_result(Type type, int32_t reg, Code& code) {
  if (type == Type::kF64 || type == Type::kI64 || type == Type::kBool) return;
  const Op op = ir::is_float(type) ? Op::kRoundF : Op::kWrapI;
  emit(code, {.op = op, .x = static_cast<uint16_t>(type), .d = reg, .a = reg});
}

int32_t Compiler::arithmetic(const ir::Binary& e, Code& code) {
  const Type type = e.type;
  if (type != Type::kI64 || e.kind == ExprKind::kDiv) ++operations_;
  const int32_t a = expr(e.a);
  const int32_t b = expr(e.b);
  const bool real = ir::is_float(type);
  const bool single = type == Type::kF32;
  Op op = Op::kHalt;
  if (e.kind == ExprKind::kAdd) op = real ? (single ? Op::kAddF32 : Op::kAddF64) : Op::kAddI;
  if (e.kind == ExprKind::kSub) op = real ? (single ? Op::kSubF32 : Op::kSubF64) : Op::kSubI;
  if (e.kind == ExprKind::kMul) op = real ? (single ? Op::kMulF32 : Op::kMulF64) : Op::kMulI;
  if (e.kind == ExprKind::kDiv) op = real ? (single ? Op::kDivF32 : Op::kDivF64) : Op::kDivI;
  if (e.kind == ExprKind::kMin) op = real ? Op::kMinF : Op::kMinI;
  if (e.kind == ExprKind::kMax) op = real ? Op::kMaxF : Op::kMaxI;
  const int32_t d = emit_value(code, {.op = op, .a = a, .b = b});
  const bool exact = single || e.kind == ExprKind::kMin || e.kind == ExprKind::kMax;
  if (!exact) round_result(type, d, code);
  return d;
}

int32_t Compiler::binary(const ir::Binary& e, Code& code) {
  const bool real = ir::is_float(e.a->type);
  if (e.a->type != Type::kI64) ++operations_;
  const int32_t a = expr(e.a);
  const int32_t b = expr(e.b);
  Op op = Op::kHalt;
  if (e.kind == ExprKind::kLt) op = real ? Op::kLtF : Op::kLtI;
  if (e.kind == ExprKind::kLe) op = real ? Op::kLeF : Op::kLeI;
  if (e.kind == ExprKind::kEq) op = real ? Op::kEqF : Op::kEqI;
  if (e.kind == ExprKind::kNe) op = real ? Op::kNeF : Op::kNeI;
  return emit_value(code, {.op = op, .a = a, .b = b});
}

int32_t Compiler::logical(const ir::Binary& e, Code& code) {
  const bool conjunction = e.kind == ExprKind::kAnd;
  const int32_t a = expr(e.a);
  if (place(e.b).hoistable) {
    const int32_t b = expr(e.b);
    return emit_value(code, {.op = conjunction ? Op::kAndB : Op::kOrB, .a = a, .b = b});
  }
  // The second operand may read memory that the first one guards.
  const int32_t d = emit_value(*code_, {.op = Op::kMove, .a = a});
  const int32_t jump = emit(*code_, {.op = conjunction ? Op::kJumpIfFalse : Op::kJumpIfTrue, .a = d});
  const int32_t b = expr(e.b);
  emit(*code_, {.op = Op::kMove, .d = d, .a = b});
  patch(std::span(&jump, 1));
  return d;
}

int32_t Compiler::select(const ir::Select& e) {
  const int32_t condition = expr(e.condition);
  const int32_t d = new_reg();
  const int32_t to_else = emit(*code_, {.op = Op::kJumpIfFalse, .a = condition});
  const int32_t a = expr(e.a);
  emit(*code_, {.op = Op::kMove, .d = d, .a = a});
  const int32_t to_end = emit(*code_, {.op = Op::kJump});
  patch(std::span(&to_else, 1));
  const int32_t b = expr(e.b);
  emit(*code_, {.op = Op::kMove, .d = d, .a = b});
  patch(std::span(&to_end, 1));
  return d;
}

int32_t Compiler::cast(const ir::Unary& e, Code& code) {
  ++operations_;
  const Type from = e.a->type, to = e.type;
  const int32_t a = expr(e.a);
  const auto x = static_cast<uint16_t>(to);
  if (ir::is_float(from)) {
    if (ir::is_float(to)) return emit_value(code, {.op = Op::kRoundF, .x = x, .a = a});
    if (to == Type::kBool) return emit_value(code, {.op = Op::kFloatToBool, .a = a});
    return emit_value(code, {.op = Op::kFloatToInt, .x = x, .a = a});
  }
  if (ir::is_float(to)) return emit_value(code, {.op = Op::kIntToFloat, .x = x, .a = a});
  return emit_value(code, {.op = Op::kWrapI, .x = x, .a = a});
}

int32_t Compiler::call(const ir::Call& e, Code& code) {
  ++operations_;
  int32_t args[3] = {-1, -1, -1};
  for (size_t i = 0; i < e.args.size(); ++i) args[i] = expr(e.args[i]);
  return emit_value(code, {.op = Op::kCall,
                           .x = static_cast<uint16_t>(e.fn),
                           .a = args[0],
                           .b = args[1],
                           .c = static_cast<int32_t>(e.type),
                           .e = args[2]});
}

ir::Interval Compiler::interval(Expr e) {
  return ir::interval_of(e, [&](ir::Id id) {
    if (variables_[static_cast<size_t>(id)].reg < 0) scalar(id);
    return variables_[static_cast<size_t>(id)].range;
  });
}

void Compiler::patch(std::span<const int32_t> jumps) {
  for (int32_t at : jumps) code_->ins[static_cast<size_t>(at)].c = code_->size() - at;
}

std::vector<int32_t> Compiler::bounds(int32_t slot, std::span<const Expr> indices, int32_t zeroed) {
  const ir::Buffer& buffer = *info_.slots[static_cast<size_t>(slot)];
  std::vector<int32_t> jumps;
  for (size_t i = 0; i < indices.size(); ++i) {
    const ir::Interval range = interval(indices[i]);
    const Expr extent = buffer.shape[i];
    if (ir::is_int(extent) && range.low >= 0 && range.high < ir::int_value(extent)) continue;
    const int32_t a = expr(indices[i]);
    const int32_t b = expr(extent);
    jumps.push_back(
        emit(*code_, {.op = Op::kBounds, .x = static_cast<uint16_t>(i), .d = zeroed, .a = a, .b = b, .e = slot}));
  }
  return jumps;
}

int32_t Compiler::load(const ir::Load& e) {
  ++operations_;
  const int32_t slot = info_.slot_of[static_cast<size_t>(e.buffer)];
  const int32_t d = new_reg();
  int32_t to_other = -1;
  bool moved = false;
  if (e.predicate != nullptr) {
    const int32_t p = expr(e.predicate);
    moved = place(e.other).hoistable;
    if (moved) emit(*code_, {.op = Op::kMove, .d = d, .a = expr(e.other)});
    to_other = emit(*code_, {.op = Op::kJumpIfFalse, .a = p});
  }
  std::vector<Expr> indices;
  for (Expr index : e.indices) indices.push_back(settle(index));
  std::vector<int32_t> to_end = bounds(slot, indices, d);
  const int32_t at = address(slot, indices);
  // A load whose predicate differs between the lanes is read element by element where it is not aligned.
  if (vectors_.empty() || !ir::mentions(e.predicate, vectors_.back().id)) alignment(slot, indices, at);
  emit(*code_, {.op = access_ops(info_.slots[static_cast<size_t>(slot)]->type).load, .d = d, .a = at, .e = slot});
  if (e.predicate != nullptr && !moved) {
    to_end.push_back(emit(*code_, {.op = Op::kJump}));
    patch(std::span(&to_other, 1));
    const int32_t other = expr(e.other);
    emit(*code_, {.op = Op::kMove, .d = d, .a = other});
  } else if (moved) {
    to_end.push_back(to_other);
  }
  patch(to_end);
  return d;
}

// An index that reads memory is computed once, here, and goes by a variable of its own from then on.
Expr Compiler::settle(Expr index) {
  if (index->kind == ExprKind::kVar || place(index).hoistable) return index;
  const ir::Interval range = interval(index);
  const int32_t reg = expr(index);
  const auto id = static_cast<ir::Id>(variables_.size());
  variables_.push_back({reg, 0, false, range});
  return builder_.var(id);
}

int32_t Compiler::address(int32_t slot, std::span<const Expr> indices) {
  const ir::Buffer& buffer = *info_.slots[static_cast<size_t>(slot)];
  if (const ir::Layout* layout = address_layout(buffer)) return layout_address(*layout, indices);
  Expr flat = builder_.integer(0);
  for (size_t i = 0; i < indices.size(); ++i) {
    flat = builder_.add(i == 0 ? flat : builder_.mul(flat, buffer.shape[i]), indices[i]);
  }
  return expr(flat);
}

int32_t Compiler::layout_address(const ir::Layout& layout, std::span<const Expr> indices) {
  Expr flat = builder_.integer(0);
  for (const ir::Digit& d : layout.digits) {
    Expr v = builder_.floor_div(indices[static_cast<size_t>(d.dim)], builder_.integer(d.divisor));
    if (d.extent != 0) v = builder_.floor_mod(v, builder_.integer(d.extent));
    flat = builder_.add(flat, builder_.scale(v, d.stride));
  }
  int32_t at = expr(flat);
  const Place p = place(flat);
  for (const ir::XorField& x : layout.xors) {
    Scope* scope = p.hoistable ? &scopes_[static_cast<size_t>(p.depth)] : nullptr;
    Code& code = scope != nullptr ? scope->prologue : *code_;
    const std::vector<int64_t> key{-2, at, x.from_shift, x.to_shift, x.mask};
    if (scope != nullptr) {
      if (const auto known = scope->sums.find(key); known != scope->sums.end()) {
        at = known->second;
        continue;
      }
    }
    int32_t bits = emit_value(code, {.op = Op::kShrI, .a = at, .b = constant(x.from_shift)});
    bits = emit_value(code, {.op = Op::kAndI, .a = bits, .b = constant(x.mask)});
    bits = emit_value(code, {.op = Op::kShlI, .a = bits, .b = constant(x.to_shift)});
    at = emit_value(code, {.op = Op::kXorI, .a = at, .b = bits});
    if (scope != nullptr) scope->sums.emplace(key, at);
  }
  return at;
}

// Accesses of a vectorized loop of a thread become one vector access: it must start at a multiple of its width.
void Compiler::alignment(int32_t slot, std::span<const Expr> indices, int32_t address) {
  if (vectors_.empty() || indices.empty()) return;
  const ir::Buffer& buffer = *info_.slots[static_cast<size_t>(slot)];
  if (buffer.scope != ir::Scope::kGlobal && buffer.scope != ir::Scope::kShared && buffer.scope != ir::Scope::kWorkspace)
    return;
  const Vector& v = vectors_.back();
  const Expr last = indices.back();
  bool contiguous = last->kind == ExprKind::kVar && static_cast<const ir::Var*>(last)->id == v.id;
  if (const auto* s = ir::as<ir::Sum>(last)) {
    for (const ir::Term& t : s->terms) {
      const auto* var = ir::as<ir::Var>(t.atom);
      contiguous = contiguous || (var != nullptr && var->id == v.id && t.coefficient == 1);
    }
  }
  const int64_t widest = std::max<int64_t>(1, 16 / ir::type_bytes(buffer.type));
  const int64_t width = std::min(v.extent, widest);
  if (!contiguous || !is_power_of_two(width) || width == 1 || v.extent % width != 0) return;
  emit(*code_, {.op = Op::kAlign,
                .x = static_cast<uint16_t>(width),
                .a = address,
                .b = variables_[static_cast<size_t>(v.id)].reg,
                .e = slot});
}

}  // namespace tcc::interp
