#include <algorithm>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/math.h"
#include "tcc/ir/kinds.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::codegen {
namespace {

using ir::ExprKind;
using llvm::Value;

bool all_true(Value* v) {
  auto* c = llvm::dyn_cast<llvm::Constant>(v);
  return c != nullptr && c->isAllOnesValue();
}

// The loads that are made whenever `e` is evaluated: none of one side of a selection only.
void loads_always(ir::Expr e, std::vector<const ir::Load*>& out) {
  ir::visit(e, [&](ir::Expr x) {
    if (const auto* s = ir::as<ir::Select>(x)) loads_always(s->condition, out);
    if (const auto* l = ir::as<ir::Load>(x); l != nullptr && l->predicate == nullptr) out.push_back(l);
    return x->kind != ExprKind::kSelect;
  });
}

// Does the condition of a selection read whatever this side does? Then the places may be read.
bool reads_more(ir::Expr side, ir::Expr condition) {
  std::vector<const ir::Load*> made;
  loads_always(condition, made);
  bool more = false;
  ir::visit(side, [&](ir::Expr x) {
    const auto is_x = [x](const ir::Load* l) { return ir::equal(l, x); };
    more |= x->kind == ExprKind::kLoad && std::none_of(made.begin(), made.end(), is_x);
    return !more;
  });
  return more;
}

}  // namespace

llvm::Type* Emitter::value_type(ir::Type type) {
  if (type == ir::Type::kBool) return b_.getInt1Ty();
  if (type == ir::Type::kF16 || type == ir::Type::kBF16) return b_.getFloatTy();
  return memory_type(type);
}

llvm::Type* Emitter::like(llvm::Type* scalar, Value* shape) {
  if (auto* v = llvm::dyn_cast<llvm::FixedVectorType>(shape->getType()))
    return llvm::FixedVectorType::get(scalar, v->getNumElements());
  return scalar;
}

Value* Emitter::lanes_of(Val a) {
  return a.vec ? a.v : b_.CreateVectorSplat(static_cast<unsigned>(lane_range_.lanes), a.v);
}

void Emitter::unify(Val& a, Val& b) {
  if (a.vec == b.vec) return;
  a = {lanes_of(a), true};
  b = {lanes_of(b), true};
}

Val Emitter::poison(ir::Type type) {
  return {llvm::Constant::getNullValue(value_type(type)), false};
}

Val Emitter::both_masks(Val a, Val b) {
  if (a.v != nullptr && all_true(a.v)) a = {};
  if (b.v != nullptr && all_true(b.v)) b = {};
  if (a.v == nullptr) return b;
  if (b.v == nullptr || a.v == b.v) return a;
  unify(a, b);
  return {b_.CreateAnd(a.v, b.v), a.vec};
}

Value* Emitter::scalar_index(ir::Expr e) {
  Val v = eval(e);
  TCC_CHECK(!v.vec, "an index differs by lane where none should");
  return v.v;
}

Val Emitter::eval(ir::Expr e) {
  if (error_) return poison(e->type);
  switch (e->kind) {
    case ExprKind::kIntConst:
      return {llvm::ConstantInt::get(value_type(e->type), static_cast<uint64_t>(ir::int_value(e)), true), false};
    case ExprKind::kFloatConst: {
      double value = ir::as<ir::FloatConst>(e)->value;
      if (e->type == ir::Type::kF64) return {llvm::ConstantFP::get(b_.getDoubleTy(), value), false};
      if (e->type == ir::Type::kF32) return {llvm::ConstantFP::get(b_.getFloatTy(), value), false};
      bool lost = false;
      llvm::APFloat exact(value);
      exact.convert(e->type == ir::Type::kF16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                    llvm::APFloat::rmNearestTiesToEven, &lost);
      exact.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &lost);
      return {llvm::ConstantFP::get(context_, exact), false};
    }
    case ExprKind::kVar: {
      const Binding& binding = env_[static_cast<size_t>(ir::as<ir::Var>(e)->id)];
      if (!binding.bound) {
        fail(fmt::format("{} has no value: host code takes no run-time scalars",
                         ir::name_hint(kernel_, ir::as<ir::Var>(e)->id)));
        return poison(e->type);
      }
      return binding.value;
    }
    case ExprKind::kSum:
      return eval_sum(*ir::as<ir::Sum>(e));
    case ExprKind::kProd: {
      const bool never_wraps = !ir::reads_tensor(e);
      Val product = {};
      for (ir::Expr f : ir::as<ir::Prod>(e)->factors) {
        Val v = eval(f);
        if (product.v == nullptr) {
          product = v;
          continue;
        }
        unify(product, v);
        product.v = b_.CreateMul(product.v, v.v, "", false, never_wraps);
      }
      return product;
    }
    case TCC_BINARY_KINDS:
      return eval_binary(*ir::as<ir::Binary>(e));
    case ExprKind::kNot: {
      Val a = eval(ir::as<ir::Unary>(e)->a);
      return {b_.CreateNot(a.v), a.vec};
    }
    case ExprKind::kCast: {
      const ir::Expr from = ir::as<ir::Unary>(e)->a;
      if (std::optional<Val> bytes = quantized(from, e->type)) return *bytes;
      return cast_of(from, e->type);
    }
    case ExprKind::kSelect: {
      const ir::Select* s = ir::as<ir::Select>(e);
      if (std::optional<Val> x = clipped(*s)) return *x;
      return select(*s);
    }
    case ExprKind::kLoad:
      return load(*ir::as<ir::Load>(e));
    case ExprKind::kCall:
      return call(*ir::as<ir::Call>(e));
  }
  return poison(e->type);
}

Val Emitter::eval_sum(const ir::Sum& e) {
  Value* same = b_.getInt64(static_cast<uint64_t>(e.constant));
  Value* lanes = nullptr;
  const bool never_wraps = !ir::reads_tensor(&e);
  for (const ir::Term& t : e.terms) {
    Val v = eval(t.atom);
    if (t.coefficient != 1)
      v.v = b_.CreateMul(v.v, llvm::ConstantInt::get(v.v->getType(), static_cast<uint64_t>(t.coefficient), true), "",
                         false, never_wraps);
    Value*& sum = v.vec ? lanes : same;
    sum = sum == nullptr ? v.v : b_.CreateAdd(sum, v.v, "", false, never_wraps);
  }
  if (lanes == nullptr) return {same, false};
  return {b_.CreateAdd(lanes, lanes_of({same, false}), "", false, never_wraps), true};
}

Val Emitter::eval_binary(const ir::Binary& e) {
  switch (e.kind) {
    case ExprKind::kFloorDiv:
    case ExprKind::kFloorMod:
      return floor_division(e);
    case ExprKind::kMin:
    case ExprKind::kMax:
      return min_max(e.kind, e.type, eval(e.a), eval(e.b), is_number(e.a), is_number(e.b));
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kDiv:
      return data_arithmetic(e.kind, e.type, eval(e.a), eval(e.b));
    case ExprKind::kLt:
    case ExprKind::kLe:
    case ExprKind::kEq:
    case ExprKind::kNe:
      return compare(e);
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Val a = eval(e.a), b = eval(e.b);
      unify(a, b);
      return {e.kind == ExprKind::kAnd ? b_.CreateAnd(a.v, b.v) : b_.CreateOr(a.v, b.v), a.vec};
    }
    case TCC_OTHER_KINDS:
      break;
  }
  TCC_UNREACHABLE("not a binary kind");
}

Val Emitter::floor_division(const ir::Binary& e) {
  ir::Interval numerator = range_of(e.a), divisor = range_of(e.b);
  Val a = eval(e.a), b = eval(e.b);
  unify(a, b);
  bool quotient = e.kind == ExprKind::kFloorDiv;
  if (numerator.low >= 0 && divisor.low > 0)
    return {quotient ? b_.CreateUDiv(a.v, b.v) : b_.CreateURem(a.v, b.v), a.vec};
  auto* known = ir::is_int(e.b) ? ir::as<ir::IntConst>(e.b) : nullptr;
  if (known != nullptr && known->value > 0 && (known->value & (known->value - 1)) == 0) {
    if (!quotient)
      return {b_.CreateAnd(a.v, llvm::ConstantInt::get(a.v->getType(), static_cast<uint64_t>(known->value - 1))),
              a.vec};
    return {b_.CreateAShr(a.v, static_cast<uint64_t>(__builtin_ctzll(static_cast<uint64_t>(known->value)))), a.vec};
  }
  // Truncated division, then one step down where the remainder's sign differs from the divisor's.
  Value* zero = llvm::Constant::getNullValue(a.v->getType());
  Value* q = a.vec && !quotient && known == nullptr ? divide_as_floats(a.v, b.v, false) : nullptr;
  Value* rem = q != nullptr ? b_.CreateSub(a.v, b_.CreateMul(q, b.v)) : b_.CreateSRem(a.v, b.v);
  Value* off = b_.CreateAnd(b_.CreateICmpNE(rem, zero), b_.CreateICmpSLT(b_.CreateXor(rem, b.v), zero));
  if (!quotient) return {b_.CreateAdd(rem, b_.CreateSelect(off, b.v, zero)), a.vec};
  return {b_.CreateAdd(b_.CreateSDiv(a.v, b.v), b_.CreateSExt(off, a.v->getType())), a.vec};
}

// Buffers that never hold NaN, so that their maxima need no second look: everything that is stored is a number, given
// that what was loaded before was.
void Emitter::find_numbers() {
  numbers_.clear();
  for (const ir::Buffer* b : kernel_.buffers)
    if (ir::is_float(b->type) && (b->role == ir::BufferRole::kTemp || b->role == ir::BufferRole::kOutput))
      numbers_.insert(b->id);
  for (bool changed = true; changed;) {
    changed = false;
    ir::visit(kernel_.root, [&](ir::Stmt s) {
      if (const ir::Store* st = ir::as<ir::Store>(s); st != nullptr && !is_number(st->value))
        changed |= numbers_.erase(st->buffer) > 0;
      if (const ir::InstrCall* call = ir::as<ir::InstrCall>(s))
        for (const ir::Operand& o : call->operands) changed |= numbers_.erase(o.buffer) > 0;
      return true;
    });
  }
}

// Certainly not NaN.
bool Emitter::is_number(ir::Expr e) const {
  if (const ir::FloatConst* x = ir::as<ir::FloatConst>(e)) return x->value == x->value;
  if (e->kind == ExprKind::kMin || e->kind == ExprKind::kMax) {
    const ir::Binary* op = ir::as<ir::Binary>(e);
    return is_number(op->a) || is_number(op->b);
  }
  if (e->kind == ExprKind::kCast && !ir::is_float(ir::as<ir::Unary>(e)->a->type)) return true;
  const ir::Load* l = ir::as<ir::Load>(e);
  return l != nullptr && numbers_.count(l->buffer) != 0 && (l->other == nullptr || is_number(l->other));
}

Val Emitter::min_max(ExprKind kind, ir::Type type, Val a, Val b, bool a_number, bool b_number) {
  unify(a, b);
  bool is_min = kind == ExprKind::kMin;
  if (!ir::is_float(type)) {
    const bool is_unsigned = ir::is_unsigned(type) || type == ir::Type::kBool;
    auto id = is_unsigned ? (is_min ? llvm::Intrinsic::umin : llvm::Intrinsic::umax)
                          : (is_min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax);
    // The builder does not fold this intrinsic, and unrolled loops live from folded bounds.
    auto *x = llvm::dyn_cast<llvm::ConstantInt>(a.v), *y = llvm::dyn_cast<llvm::ConstantInt>(b.v);
    if (x != nullptr && y != nullptr && !is_unsigned) return (x->getSExtValue() < y->getSExtValue()) == is_min ? a : b;
    return {b_.CreateBinaryIntrinsic(id, a.v, b.v), a.vec};
  }
  if (a_number || b_number) {
    // One comparison, which NaN fails: the number stays.
    if (a_number) std::swap(a, b);
    Value* wins = is_min ? b_.CreateFCmpOLT(a.v, b.v) : b_.CreateFCmpOGT(a.v, b.v);
    return {b_.CreateSelect(wins, a.v, b.v), a.vec};
  }
  return {is_min ? b_.CreateMinNum(a.v, b.v) : b_.CreateMaxNum(a.v, b.v), a.vec};
}

// Divides vectors of integers and truncates the quotients; the caller keeps lanes of 0 out of b, and quotients that
// overflow. CPUs have no vector instruction that does so. Returns nullptr for integers that are too long for f64.
// A quotient that is not whole is at least 1 / |b| from the next integer. Its rounding error is a small part of that,
// in f64 for 32 bits and in f32 for fewer.
Value* Emitter::divide_as_floats(Value* a, Value* b, bool is_unsigned) {
  auto* type = llvm::cast<llvm::FixedVectorType>(a->getType());
  const unsigned bits = type->getScalarSizeInBits();
  if (bits > 32 || (bits == 32 && is_unsigned)) return nullptr;
  llvm::Type* integer = like(b_.getInt32Ty(), a);
  llvm::Type* floating = like(bits < 32 ? b_.getFloatTy() : b_.getDoubleTy(), a);
  auto number = [&](Value* x) {
    if (bits < 32) x = is_unsigned ? b_.CreateZExt(x, integer) : b_.CreateSExt(x, integer);
    return b_.CreateSIToFP(x, floating);
  };
  const llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  b_.clearFastMathFlags();
  Value* q = b_.CreateFPToSI(b_.CreateFDiv(number(a), number(b)), integer);
  return bits < 32 ? b_.CreateTrunc(q, type) : q;
}

Val Emitter::integer_divide(Val a, Val b, ir::Type type) {
  Value* zero = llvm::Constant::getNullValue(a.v->getType());
  Value* one = llvm::ConstantInt::get(a.v->getType(), 1);
  Value* nothing = b_.CreateICmpEQ(b.v, zero);
  auto divide = [&](Value* by) {
    const bool is_unsigned = ir::is_unsigned(type);
    if (Value* q = a.vec ? divide_as_floats(a.v, by, is_unsigned) : nullptr) return q;
    return is_unsigned ? b_.CreateUDiv(a.v, by) : b_.CreateSDiv(a.v, by);
  };
  if (ir::is_unsigned(type)) return {divide(b_.CreateSelect(nothing, one, b.v)), a.vec};
  // lowest / -1 wraps around and must not trap.
  Value* negate = b_.CreateICmpEQ(b.v, llvm::Constant::getAllOnesValue(a.v->getType()));
  Value* q = divide(b_.CreateSelect(b_.CreateOr(nothing, negate), one, b.v));
  return {b_.CreateSelect(negate, b_.CreateSub(zero, a.v), q), a.vec};
}

Val Emitter::data_arithmetic(ExprKind kind, ir::Type type, Val a, Val b) {
  unify(a, b);
  bool floating = ir::is_float(type);
  Value* r = nullptr;
  if (kind == ExprKind::kAdd)
    r = floating ? b_.CreateFAdd(a.v, b.v) : b_.CreateAdd(a.v, b.v);
  else if (kind == ExprKind::kSub)
    r = floating ? b_.CreateFSub(a.v, b.v) : b_.CreateSub(a.v, b.v);
  else if (kind == ExprKind::kMul)
    r = floating ? b_.CreateFMul(a.v, b.v) : b_.CreateMul(a.v, b.v);
  else if (floating)
    r = b_.CreateFDiv(a.v, b.v);
  else
    return integer_divide(a, b, type);
  return {round_to(r, type), a.vec};
}

Val Emitter::compare(const ir::Binary& e) {
  if (std::optional<Val> lanes = compare_lanes(e)) return *lanes;
  Val a = eval(e.a), b = eval(e.b);
  unify(a, b);
  ir::Type type = e.a->type;
  const bool is_unsigned = ir::is_unsigned(type) || type == ir::Type::kBool;
  using P = llvm::CmpInst::Predicate;
  P p = P::ICMP_EQ;
  if (e.kind == ExprKind::kLt)
    p = ir::is_float(type) ? P::FCMP_OLT : is_unsigned ? P::ICMP_ULT : P::ICMP_SLT;
  else if (e.kind == ExprKind::kLe)
    p = ir::is_float(type) ? P::FCMP_OLE : is_unsigned ? P::ICMP_ULE : P::ICMP_SLE;
  else if (e.kind == ExprKind::kEq)
    p = ir::is_float(type) ? P::FCMP_OEQ : P::ICMP_EQ;
  else
    p = ir::is_float(type) ? P::FCMP_UNE : P::ICMP_NE;
  return {b_.CreateCmp(p, a.v, b.v), a.vec};
}

// Index comparisons whose lanes differ by constants: one 32-bit vector comparison against a constant.
std::optional<Val> Emitter::compare_lanes(const ir::Binary& e) {
  if (e.a->type != ir::Type::kI64 || lane_range_.id == ir::kNoId) return std::nullopt;
  if (!mentions(e.a, lane_range_.id) && !mentions(e.b, lane_range_.id)) return std::nullopt;
  std::optional<LaneSplit> split = split_lanes(ib_, ib_.sub(e.b, e.a), lane_range_);
  constexpr int64_t kBound = int64_t{1} << 30;
  if (!split || split->offsets.empty()) return std::nullopt;
  llvm::SmallVector<llvm::Constant*, 64> thresholds;
  for (int64_t o : split->offsets) {
    if (o <= -kBound || o >= kBound) return std::nullopt;
    thresholds.push_back(b_.getInt32(static_cast<uint32_t>(-o)));
  }
  const Val uniform = eval(split->uniform);
  if (uniform.vec) return std::nullopt;  // a load under a mask that differs by lane
  Value* u = uniform.v;
  if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(u)) {
    u = b_.getInt32(static_cast<uint32_t>(std::clamp(c->getSExtValue(), -kBound, kBound)));
  } else {
    ir::Interval r = range_of(split->uniform);
    if (r.low < -kBound)
      u = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, u, b_.getInt64(static_cast<uint64_t>(-kBound)));
    if (r.high > kBound)
      u = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, u, b_.getInt64(static_cast<uint64_t>(kBound)));
    u = b_.CreateTrunc(u, b_.getInt32Ty());
  }
  using P = llvm::CmpInst::Predicate;
  P p = P::ICMP_NE;
  if (e.kind == ExprKind::kLt)
    p = P::ICMP_SGT;
  else if (e.kind == ExprKind::kLe)
    p = P::ICMP_SGE;
  else if (e.kind == ExprKind::kEq)
    p = P::ICMP_EQ;
  return Val{b_.CreateICmp(p, lanes_of({u, false}), llvm::ConstantVector::get(thresholds)), true};
}

// Both arms are computed; only their loads look at the condition.
Val Emitter::select(const ir::Select& e) {
  Val condition = eval(e.condition);
  if (auto* known = llvm::dyn_cast<llvm::Constant>(condition.v)) {
    if (known->isAllOnesValue()) return eval(e.a);
    if (known->isNullValue()) return eval(e.b);
  }
  Val outer = mask_;
  if (reads_more(e.a, e.condition)) mask_ = both_masks(outer, condition);
  Val a = eval(e.a);
  mask_ = outer;
  if (reads_more(e.b, e.condition)) mask_ = both_masks(outer, {b_.CreateNot(condition.v), condition.vec});
  Val b = eval(e.b);
  mask_ = outer;
  unify(a, b);
  if (condition.vec && !a.vec) a = {lanes_of(a), true}, b = {lanes_of(b), true};
  Value* made = b_.CreateSelect(condition.v, a.v, b.v);
  // Which of two numbers a merge takes is known by nobody: without this the back end would make a branch of it.
  if (auto* instruction = llvm::dyn_cast<llvm::SelectInst>(made); instruction != nullptr && !condition.vec)
    instruction->setMetadata(llvm::LLVMContext::MD_unpredictable, llvm::MDNode::get(b_.getContext(), {}));
  return {made, a.vec};
}

Val Emitter::call(const ir::Call& e) {
  bool vec = false;
  llvm::SmallVector<Val, 3> args;
  for (ir::Expr a : e.args) {
    args.push_back(eval(a));
    vec |= args.back().vec;
  }
  if (error_) return poison(e.type);
  llvm::SmallVector<Value*, 3> values;
  for (Val a : args) values.push_back(vec ? lanes_of(a) : a.v);
  if (!ir::is_float(e.type)) {
    if (e.fn == ir::Intrinsic::kAbs) {
      if (ir::is_unsigned(e.type)) return {values[0], vec};
      return {b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, values[0], b_.getFalse()), vec};
    }
    switch (e.fn) {
      case ir::Intrinsic::kBitAnd:
        return {b_.CreateAnd(values[0], values[1]), vec};
      case ir::Intrinsic::kBitOr:
        return {b_.CreateOr(values[0], values[1]), vec};
      case ir::Intrinsic::kBitXor:
        return {b_.CreateXor(values[0], values[1]), vec};
      case ir::Intrinsic::kShiftLeft:
        return {b_.CreateShl(values[0], values[1]), vec};
      case ir::Intrinsic::kShiftRight:
        return {ir::is_unsigned(e.type) ? b_.CreateLShr(values[0], values[1]) : b_.CreateAShr(values[0], values[1]),
                vec};
      default:
        break;
    }
    fail(fmt::format("{} of {} is not defined", ir::intrinsic_name(e.fn), ir::type_name(e.type)));
    return poison(e.type);
  }
  MathFeatures features{target_.cpu.features.fma || target_.cpu.features.avx512f, target_.cpu.features.sse4_1,
                        target_.cpu.features.avx512f && target_.cpu.vector_bits >= 512};
  return {round_to(emit_math(b_, e.fn, values, features), e.type), vec};
}

ir::Interval Emitter::range_of(ir::Expr e) const {
  return ir::interval_of(e, [&](ir::Id id) { return env_[static_cast<size_t>(id)].range; });
}

}  // namespace tcc::codegen
