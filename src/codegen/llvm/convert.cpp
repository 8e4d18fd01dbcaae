// Casts, and f16 / bf16 as expanded bit arithmetic where the target has no instruction. The expansions do not depend on
// the denormal mode of the machine: halves keep their denormals.
#include <llvm/IR/PatternMatch.h>

#include <algorithm>
#include <limits>

#include "codegen/llvm/emitter.h"
#include "tcc/ir/integer_range.h"

namespace tcc::codegen {
namespace {

using llvm::Value;

Value* constant(Value* shape, uint64_t v) {
  return llvm::ConstantInt::get(shape->getType(), v);
}
Value* real(Value* shape, double v) {
  return llvm::ConstantFP::get(shape->getType(), v);
}

// The halves that `value` was extended from: through the fence of from_half_bits(), and through selections and changes
// of the sign, which round nothing. nullptr: it was computed in single precision.
Value* unextended(llvm::IRBuilder<>& b, Value* value) {
  using namespace llvm::PatternMatch;
  Value *x = nullptr, *y = nullptr, *condition = nullptr;
  if (match(value, m_Intrinsic<llvm::Intrinsic::arithmetic_fence>(m_FPExt(m_Value(x)))))
    return x->getType()->getScalarType()->isHalfTy() ? x : nullptr;
  if (match(value, m_FNeg(m_Value(x)))) {
    Value* half = unextended(b, x);
    return half != nullptr ? b.CreateFNeg(half) : nullptr;
  }
  if (match(value, m_FAbs(m_Value(x)))) {
    Value* half = unextended(b, x);
    return half != nullptr ? b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, half) : nullptr;
  }
  if (match(value, m_Select(m_Value(condition), m_Value(x), m_Value(y)))) {
    Value* first = unextended(b, x);
    Value* second = first != nullptr ? unextended(b, y) : nullptr;
    return second != nullptr ? b.CreateSelect(condition, first, second) : nullptr;
  }
  return nullptr;
}

int bits_of(ir::Type integer) {
  return static_cast<int>(8 * ir::type_bytes(integer));
}
double least_of(ir::Type integer) {
  return static_cast<double>(ir::integer_range(integer).low);
}
// The first number above all of the type.
double limit_of(ir::Type integer) {
  return static_cast<double>(ir::integer_range(integer).high) + 1;  // of i64 both round to 2^63
}

// What is known of a float without looking at memory. The bounds hold for a value that is not NaN.
struct FloatRange {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool number = false;  // certainly not NaN
};

// What the conditions around say of an expression.
using Facts = std::vector<std::pair<ir::Expr, FloatRange>>;

FloatRange float_range(ir::Expr e, Facts& facts);

// Of a side of a selection by `condition`, which is true or not there.
FloatRange side_range(ir::Expr side, ir::Expr condition, bool is_true, Facts& facts) {
  const bool compares = condition->kind == ir::ExprKind::kLt || condition->kind == ir::ExprKind::kLe;
  const ir::Binary* c = compares ? ir::as<ir::Binary>(condition) : nullptr;
  const auto* least = c != nullptr ? ir::as<ir::FloatConst>(c->a) : nullptr;
  const auto* most = c != nullptr ? ir::as<ir::FloatConst>(c->b) : nullptr;
  if ((least == nullptr) == (most == nullptr)) return float_range(side, facts);
  // A comparison with NaN is not true.
  FloatRange known{.number = is_true};
  if ((most != nullptr) == is_true)
    known.high = most != nullptr ? most->value : least->value;
  else
    known.low = most != nullptr ? most->value : least->value;
  facts.emplace_back(most != nullptr ? c->a : c->b, known);
  const FloatRange r = float_range(side, facts);
  facts.pop_back();
  return r;
}

FloatRange float_range(ir::Expr e, Facts& facts) {
  if (const auto* x = ir::as<ir::FloatConst>(e)) {
    if (x->value != x->value) return {};
    return {x->value, x->value, true};
  }
  if (const auto* s = ir::as<ir::Select>(e)) {
    const FloatRange a = side_range(s->a, s->condition, true, facts), b = side_range(s->b, s->condition, false, facts);
    return {std::min(a.low, b.low), std::max(a.high, b.high), a.number && b.number};
  }
  if (e->kind == ir::ExprKind::kCast) {
    const ir::Type from = ir::as<ir::Unary>(e)->a->type;
    // Long integers may be rounded up.
    if (ir::is_integer(from)) return {least_of(from), limit_of(from) - (bits_of(from) < 32 ? 1 : 0), true};
    return {.number = !ir::is_float(from)};
  }
  if (e->kind == ir::ExprKind::kMin || e->kind == ir::ExprKind::kMax) {
    // The other operand where one is NaN.
    FloatRange a = float_range(ir::as<ir::Binary>(e)->a, facts), b = float_range(ir::as<ir::Binary>(e)->b, facts);
    if (!a.number) std::swap(a, b);
    FloatRange r{std::min(a.low, b.low), std::max(a.high, b.high), a.number};
    if (!a.number) return r;
    if (e->kind == ir::ExprKind::kMin) r.high = b.number ? std::min(a.high, b.high) : a.high;
    if (e->kind == ir::ExprKind::kMax) r.low = b.number ? std::max(a.low, b.low) : a.low;
    return r;
  }
  FloatRange r;
  for (const auto& [known, range] : facts) {
    if (!ir::equal(known, e)) continue;
    r = {std::max(r.low, range.low), std::min(r.high, range.high), r.number || range.number};
  }
  return r;
}

// Every number of these is one of the integer type once its fraction is dropped.
bool fits(const FloatRange& r, ir::Type to) {
  if (bits_of(to) >= 32) return r.low >= -0x1p30 && r.high <= 0x1p30;
  return r.low >= least_of(to) && r.high <= limit_of(to) - 1;
}

}  // namespace

Val Emitter::cast_of(ir::Expr value, ir::Type to) {
  const Val a = eval(value);
  if (!ir::is_float(value->type) || ir::is_float(to) || to == ir::Type::kBool) return cast(a, value->type, to);
  Facts facts;
  const FloatRange range = float_range(value, facts);
  if (!fits(range, to)) return cast(a, value->type, to);
  Value* whole = b_.CreateFPToSI(a.v, like(to == ir::Type::kI64 ? b_.getInt64Ty() : b_.getInt32Ty(), a.v));
  if (!range.number)
    whole = b_.CreateSelect(b_.CreateFCmpUNO(a.v, a.v), llvm::Constant::getNullValue(whole->getType()), whole);
  return {bits_of(to) < 32 ? b_.CreateTrunc(whole, like(value_type(to), a.v)) : whole, a.vec};
}

Value* Emitter::half_bits(Value* value, ir::Type type) {
  llvm::Type* i16 = like(b_.getInt16Ty(), value);
  llvm::Type* i32 = like(b_.getInt32Ty(), value);
  if (type == ir::Type::kF16 && target_.cpu.features.f16c) {
    Value* half = unextended(b_, value);
    if (half == nullptr) half = b_.CreateFPTrunc(value, like(b_.getHalfTy(), value));
    return b_.CreateBitCast(half, i16);
  }
  Value* bits = b_.CreateBitCast(value, i32);
  if (type == ir::Type::kBF16) {
    Value* odd = b_.CreateAnd(b_.CreateLShr(bits, 16), constant(bits, 1));
    Value* rounded = b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(bits, constant(bits, 0x7fff)), odd), 16);
    Value* quiet = b_.CreateOr(b_.CreateLShr(bits, 16), constant(bits, 0x40));
    return b_.CreateTrunc(b_.CreateSelect(b_.CreateFCmpUNO(value, value), quiet, rounded), i16);
  }
  Value* sign = b_.CreateAnd(bits, constant(bits, 0x80000000u));
  Value* a = b_.CreateXor(bits, sign);
  Value* odd = b_.CreateAnd(b_.CreateLShr(a, 13), constant(bits, 1));
  // 15 - 127 into the exponent, and half of the last place minus one (ties go to even through `odd`).
  Value* normal = b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(a, constant(bits, 0xc8000fffu)), odd), 13);
  // Adding 0.5 aligns the mantissa so that the addition itself rounds to multiples of 2^-24.
  Value* shifted = b_.CreateBitCast(b_.CreateFAdd(b_.CreateBitCast(a, value->getType()), real(value, 0.5)), i32);
  Value* small = b_.CreateSub(shifted, constant(bits, 0x3f000000u));
  Value* big =
      b_.CreateSelect(b_.CreateICmpUGT(a, constant(bits, 0x7f800000u)), constant(bits, 0x7e00), constant(bits, 0x7c00));
  Value* r = b_.CreateSelect(b_.CreateICmpULT(a, constant(bits, 0x38800000u)), small, normal);
  r = b_.CreateSelect(b_.CreateICmpUGE(a, constant(bits, 0x47800000u)), big, r);
  return b_.CreateTrunc(b_.CreateOr(r, b_.CreateLShr(sign, 16)), i16);
}

Value* Emitter::from_half_bits(Value* bits16, ir::Type type) {
  llvm::Type* f32 = like(b_.getFloatTy(), bits16);
  if (type == ir::Type::kF16 && target_.cpu.features.f16c) {
    // LLVM narrows comparisons, selections and roundings of extended halves to halves, and then splits their vectors
    // into scalars where the processor has no arithmetic of halves. It does not look through the fence.
    Value* wide = b_.CreateFPExt(b_.CreateBitCast(bits16, like(b_.getHalfTy(), bits16)), f32);
    return b_.CreateArithmeticFence(wide, f32);
  }
  Value* bits = b_.CreateZExt(bits16, like(b_.getInt32Ty(), bits16));
  if (type == ir::Type::kBF16) return b_.CreateBitCast(b_.CreateShl(bits, 16), f32);
  Value* sign = b_.CreateShl(b_.CreateAnd(bits, constant(bits, 0x8000)), 16);
  Value* exponent = b_.CreateAnd(bits, constant(bits, 0x7c00));
  Value* mantissa = b_.CreateAnd(bits, constant(bits, 0x3ff));
  Value* shifted = b_.CreateShl(b_.CreateAnd(bits, constant(bits, 0x7fff)), 13);
  Value* normal = b_.CreateAdd(shifted, constant(bits, 112u << 23));
  Value* special = b_.CreateAdd(shifted, constant(bits, 224u << 23));
  Value* small = b_.CreateBitCast(b_.CreateFMul(b_.CreateSIToFP(mantissa, f32), llvm::ConstantFP::get(f32, 0x1p-24)),
                                  bits->getType());
  Value* r = b_.CreateSelect(b_.CreateICmpEQ(exponent, constant(bits, 0)), small, normal);
  r = b_.CreateSelect(b_.CreateICmpEQ(exponent, constant(bits, 0x7c00)), special, r);
  return b_.CreateBitCast(b_.CreateOr(r, sign), f32);
}

Value* Emitter::round_to(Value* value, ir::Type type) {
  if (type != ir::Type::kF16 && type != ir::Type::kBF16) return value;
  return from_half_bits(half_bits(value, type), type);
}

// Rounding to odd keeps a second rounding, to f16 or bf16, correct.
Value* Emitter::narrow_odd(Value* value) {
  llvm::Type* f32 = like(b_.getFloatTy(), value);
  Value* f = b_.CreateFPTrunc(value, f32);
  Value* back = b_.CreateFPExt(f, value->getType());
  Value* bits = b_.CreateBitCast(f, like(b_.getInt32Ty(), value));
  Value* away = b_.CreateFCmpOGT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                 b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value));
  bits = b_.CreateSub(bits, b_.CreateZExt(away, bits->getType()));
  bits = b_.CreateOr(bits, b_.CreateZExt(b_.CreateFCmpONE(back, value), bits->getType()));
  return b_.CreateBitCast(bits, f32);
}

// Truncates, saturates, and makes 0 of NaN.
Value* Emitter::float_to_int(Value* value, ir::Type to) {
  const bool narrow = bits_of(to) < 32;
  bool single = value->getType()->getScalarType()->isFloatTy();
  const double low = least_of(to), limit = limit_of(to);
  double high = limit - 1;
  // The greatest float below the limit.
  if (to == ir::Type::kI32 && single) high = 0x1p31 - 128;
  if (to == ir::Type::kI64) high = single ? 0x1p63 - 0x1p39 : 0x1p63 - 1024;
  llvm::Type* type = like(to == ir::Type::kI64 ? b_.getInt64Ty() : b_.getInt32Ty(), value);
  Value* clamped = b_.CreateSelect(b_.CreateFCmpOGT(value, real(value, low)), value, real(value, low));  // NaN: low
  clamped = b_.CreateSelect(b_.CreateFCmpOLT(clamped, real(value, high)), clamped, real(value, high));
  Value* r = b_.CreateFPToSI(clamped, type);
  if (!narrow) {
    Value* top = llvm::ConstantInt::getSigned(type, ir::integer_range(to).high);
    r = b_.CreateSelect(b_.CreateFCmpOGE(value, real(value, limit)), top, r);
  }
  r = b_.CreateSelect(b_.CreateFCmpUNO(value, value), llvm::Constant::getNullValue(type), r);
  return narrow ? b_.CreateTrunc(r, like(value_type(to), value)) : r;
}

Val Emitter::cast(Val a, ir::Type from, ir::Type to) {
  if (from == to) return a;
  llvm::Type* type = like(value_type(to), a.v);
  bool to_half = to == ir::Type::kF16 || to == ir::Type::kBF16;
  bool from_unsigned = ir::is_unsigned(from) || from == ir::Type::kBool;
  if (to == ir::Type::kBool) {
    if (ir::is_float(from)) return {b_.CreateFCmpUNE(a.v, real(a.v, 0)), a.vec};
    return {b_.CreateICmpNE(a.v, constant(a.v, 0)), a.vec};
  }
  if (ir::is_float(from)) {
    if (!ir::is_float(to)) return {float_to_int(a.v, to), a.vec};
    if (from == ir::Type::kF64 && to_half) return {round_to(narrow_odd(a.v), to), a.vec};
    if (from == ir::Type::kF64) return {b_.CreateFPTrunc(a.v, type), a.vec};
    if (to == ir::Type::kF64) return {b_.CreateFPExt(a.v, type), a.vec};
    return {round_to(a.v, to), a.vec};
  }
  if (ir::is_float(to)) {
    bool wide = to_half && (from == ir::Type::kI32 || from == ir::Type::kI64);
    llvm::Type* first = wide ? like(b_.getDoubleTy(), a.v) : type;
    Value* r = from_unsigned ? b_.CreateUIToFP(a.v, first) : b_.CreateSIToFP(a.v, first);
    return {round_to(wide ? narrow_odd(r) : r, to), a.vec};
  }
  return {from_unsigned ? b_.CreateZExtOrTrunc(a.v, type) : b_.CreateSExtOrTrunc(a.v, type), a.vec};
}

}  // namespace tcc::codegen
