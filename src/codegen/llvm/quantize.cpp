// Numbers that are brought to bytes: a clip between two constants, and quantization, which is
// u8(i32(clip(round(x / scale) + zero))) or the same with i8.
#include <limits>

#include "codegen/llvm/emitter.h"
#include "tcc/ir/integer_range.h"

namespace tcc::codegen {
namespace {

using ir::ExprKind;
using llvm::Value;

struct Clip {
  ir::Expr x = nullptr;
  double low = 0, high = 0;
};

// low where x < low, high where high < x, else x: NaN stays.
std::optional<Clip> clip_of(ir::Expr e) {
  const auto* outer = ir::as<ir::Select>(e);
  const auto* inner = outer != nullptr ? ir::as<ir::Select>(outer->b) : nullptr;
  if (inner == nullptr || outer->condition->kind != ExprKind::kLt || inner->condition->kind != ExprKind::kLt)
    return std::nullopt;
  const auto* below = ir::as<ir::Binary>(outer->condition);
  const auto* above = ir::as<ir::Binary>(inner->condition);
  const auto* low = ir::as<ir::FloatConst>(outer->a);
  const auto* high = ir::as<ir::FloatConst>(inner->a);
  if (low == nullptr || high == nullptr || !(low->value <= high->value)) return std::nullopt;
  if (!ir::equal(below->b, outer->a) || !ir::equal(above->a, inner->a)) return std::nullopt;
  if (!ir::equal(below->a, inner->b) || !ir::equal(above->b, inner->b)) return std::nullopt;
  return Clip{inner->b, low->value, high->value};
}

// 2^20: a quotient beyond these limits is beyond those of bytes, with any zero point.
constexpr double kQuotient = 0x1p20;

Value* splat(Value* like, double v) {
  return llvm::ConstantFP::get(like->getType(), v);
}

// x / d for a `d` that all lanes have, where |x / d| is below kQuotient, and a number as far from 0 or farther where it
// is not: the nearest float but for very rare cases, then a neighbor of it. NaN where x or d is, else a number. A
// product with the reciprocal, and one step of correction by the remainder, which fma gives (Markstein, IBM Journal of
// Research and Development 34, 1990): an instruction divides 16 floats in the time of 20 products. Divisors close to
// the limits of floats are scaled with x, so that the reciprocal is a normal float; 0 and infinity have no remainder.
// An infinite x counts as the greatest float, which only divisors above 2^107 tell apart, and numbers below 2^-120 over
// 0 are 0.
Value* bounded_quotient(llvm::IRBuilder<>& b, Value* x, Value* d) {
  const llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  llvm::Type* type = x->getType();
  const auto number = [&](double v) { return splat(d, v); };
  const auto lanes = [&](Value* v) {
    return b.CreateVectorSplat(llvm::cast<llvm::FixedVectorType>(type)->getElementCount(), v);
  };
  const auto fma = [&](Value* p, Value* q, Value* r) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {p, q, r});
  };
  Value* size = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, d);
  Value* none = b.CreateFCmpOEQ(size, number(0));
  Value* special = b.CreateOr(none, b.CreateFCmpOEQ(size, llvm::ConstantFP::getInfinity(d->getType())));
  Value* scale = b.CreateSelect(b.CreateFCmpOLT(size, number(0x1p-100)), number(0x1p80),
                                b.CreateSelect(b.CreateFCmpOGT(size, number(0x1p100)), number(0x1p-80), number(1)));
  Value* scaled = b.CreateFMul(d, scale);
  Value* factor = b.CreateFDiv(number(1), scaled);
  Value* most = b.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, b.CreateFMul(size, number(kQuotient)),
                                        number(std::numeric_limits<float>::max()));
  Value* limit = lanes(b.CreateSelect(special, number(0x1p-107), most));
  Value* correction = lanes(b.CreateSelect(special, number(0), factor));
  scaled = lanes(b.CreateSelect(special, number(0), scaled));
  factor = lanes(b.CreateSelect(none, number(0x1p47), factor));
  x = b.CreateSelect(b.CreateFCmpOLT(limit, x), limit, x);
  limit = b.CreateFNeg(limit);
  x = b.CreateFMul(b.CreateSelect(b.CreateFCmpOGT(limit, x), limit, x), lanes(scale));
  Value* product = b.CreateFMul(x, factor);
  return fma(fma(b.CreateFNeg(product), scaled, x), correction, product);
}

// Of an operand that is a whole number of at most 16 bits: that integer.
ir::Expr whole_number(ir::Expr e) {
  if (e->kind != ExprKind::kCast) return nullptr;
  const ir::Expr from = ir::as<ir::Unary>(e)->a;
  const bool small = ir::is_integer(from->type) && ir::type_bytes(from->type) <= 2 && from->type != ir::Type::kBool;
  return small ? from : nullptr;
}

}  // namespace

// The order of operands keeps NaN, and is that of the instructions.
Value* Emitter::clip(Value* x, double low, double high) {
  Value* most = b_.CreateSelect(b_.CreateFCmpOLT(splat(x, high), x), splat(x, high), x);
  return b_.CreateSelect(b_.CreateFCmpOGT(splat(x, low), most), splat(x, low), most);
}

std::optional<Val> Emitter::clipped(const ir::Select& e) {
  const std::optional<Clip> found = clip_of(&e);
  if (!found || !ir::is_float(e.type)) return std::nullopt;
  const Val x = eval(found->x);
  if (error_) return poison(e.type);
  return Val{clip(x.v, found->low, found->high), x.vec};
}

std::optional<Val> Emitter::quantized(ir::Expr value, ir::Type to) {
  const bool is_byte = to == ir::Type::kU8 || to == ir::Type::kI8;
  if (!is_byte || value->kind != ExprKind::kCast || value->type != ir::Type::kI32) return std::nullopt;
  if (!target_.cpu.features.avx512f || target_.cpu.vector_bits < 512) return std::nullopt;
  const ir::Expr bounded = ir::as<ir::Unary>(value)->a;
  const std::optional<Clip> limits = bounded->type == ir::Type::kF32 ? clip_of(bounded) : std::nullopt;
  const ir::IntegerRange range = ir::integer_range(to);
  if (!limits || limits->low < static_cast<double>(range.low) || limits->high > static_cast<double>(range.high))
    return std::nullopt;
  const bool sum = limits->x->kind == ExprKind::kAdd;
  const ir::Expr rounded = sum ? ir::as<ir::Binary>(limits->x)->a : limits->x;
  const auto* call = ir::as<ir::Call>(rounded);
  if (call == nullptr || call->fn != ir::Intrinsic::kRound) return std::nullopt;
  const ir::Binary* quotient = call->args[0]->kind == ExprKind::kDiv ? ir::as<ir::Binary>(call->args[0]) : nullptr;
  Val x = eval(quotient != nullptr ? quotient->a : call->args[0]), scale;
  if (quotient != nullptr) scale = eval(quotient->b);
  if (error_) return poison(to);
  const bool fast = quotient != nullptr && x.vec && !scale.vec;
  if (fast) {
    x.v = bounded_quotient(b_, x.v, scale.v);
  } else if (quotient != nullptr) {
    x = data_arithmetic(ExprKind::kDiv, ir::Type::kF32, x, scale);
  }
  llvm::Type* integers = like(b_.getInt32Ty(), x.v);
  const ir::Expr zero = sum ? ir::as<ir::Binary>(limits->x)->b : nullptr;
  Val result;
  if (const ir::Expr whole = zero != nullptr && fast ? whole_number(zero) : nullptr; whole != nullptr) {
    // NaN becomes the least integer.
    Val i{b_.CreateIntrinsic(llvm::Intrinsic::lrint, {integers, x.v->getType()}, {x.v}), x.vec};
    Val z = cast(eval(whole), whole->type, ir::Type::kI32);
    unify(i, z);
    const auto limit = [&](double v) { return llvm::ConstantInt::getSigned(i.v->getType(), static_cast<int64_t>(v)); };
    i.v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateAdd(i.v, z.v), limit(limits->low));
    i.v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, i.v, limit(limits->high));
    result = i;
    if (limits->low != 0) result.v = b_.CreateSelect(b_.CreateFCmpUNO(lanes_of(x), lanes_of(x)), limit(0), result.v);
  } else {
    result = {b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x.v), x.vec};
    if (zero != nullptr) result = data_arithmetic(ExprKind::kAdd, ir::Type::kF32, result, eval(zero));
    // The instruction makes INT_MIN of NaN, whose last byte is 0.
    result.v =
        b_.CreateFreeze(b_.CreateFPToSI(clip(result.v, limits->low, limits->high), like(b_.getInt32Ty(), result.v)));
  }
  return Val{b_.CreateTrunc(result.v, like(value_type(to), result.v)), result.vec};
}

}  // namespace tcc::codegen
