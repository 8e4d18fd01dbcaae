// Every function is argument reduction, a polynomial and a reconstruction by exponent bits, as in Cephes (Moshier) and
// fdlibm (Sun); erf in f32 follows N. Juffa's minimax form. The f64 forms serve references: series long enough
// for the last bits rather than minimax polynomials.
#include "codegen/llvm/math.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <cmath>
#include <limits>

#include "tcc/support/check.h"

namespace tcc::codegen {
namespace {

using llvm::Value;

constexpr double kManyTurns = 0x1p22;  // |x| of sin and cos from which on pi / 2 needs more digits
constexpr int kPartBits = 26;

// The bits of 2 / pi behind the point.
constexpr uint32_t kTwoOverPi[] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561, 0xb7246e3a,
    0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41,
    0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf,
    0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08};

// Numbers of kPartBits whose sum is 2^200 2 / pi.
llvm::SmallVector<double, 64> parts_of_two_over_pi(int count) {
  llvm::SmallVector<double, 64> parts;
  for (int first = 0; first < count * kPartBits; first += kPartBits) {
    const auto word = static_cast<size_t>(first / 32);
    const uint64_t pair = uint64_t{kTwoOverPi[word]} << 32 | kTwoOverPi[word + 1];
    const uint64_t bits = pair << (first % 32) >> (64 - kPartBits);
    parts.push_back(std::ldexp(static_cast<double>(bits), 200 - first - kPartBits));
  }
  return parts;
}

class Math {
 public:
  Math(llvm::IRBuilder<>& b, llvm::Type* type, const MathFeatures& features)
      : b_(b), type_(type), features_(features), single_(type->getScalarType()->isFloatTy()) {
    llvm::Type* bits = single_ ? b.getInt32Ty() : b.getInt64Ty();
    if (auto* v = llvm::dyn_cast<llvm::FixedVectorType>(type))
      bits = llvm::FixedVectorType::get(bits, v->getNumElements());
    bits_ = bits;
  }

  Value* evaluate(ir::Intrinsic fn, std::span<Value* const> a) {
    switch (fn) {
      case ir::Intrinsic::kExp:
        return exp(a[0]);
      case ir::Intrinsic::kLog:
        return log(a[0]);
      case ir::Intrinsic::kTanh:
        return tanh(a[0]);
      case ir::Intrinsic::kErf:
        return erf(a[0]);
      case ir::Intrinsic::kSqrt:
        return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a[0]);
      case ir::Intrinsic::kRsqrt:
        return b_.CreateFDiv(c(1), b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a[0]));
      case ir::Intrinsic::kSigmoid:
        return sigmoid(a[0]);
      case ir::Intrinsic::kAbs:
        return abs(a[0]);
      case ir::Intrinsic::kFloor:
        return rounded(a[0], llvm::Intrinsic::floor);
      case ir::Intrinsic::kCeil:
        return rounded(a[0], llvm::Intrinsic::ceil);
      case ir::Intrinsic::kRound:
        return rounded(a[0], llvm::Intrinsic::roundeven);
      case ir::Intrinsic::kSin:
        return through_double([&](Math& m, Value* x) { return m.sincos(x, false, exponents()); }, a[0]);
      case ir::Intrinsic::kCos:
        return through_double([&](Math& m, Value* x) { return m.sincos(x, true, exponents()); }, a[0]);
      case ir::Intrinsic::kPow:
        return pow(a[0], a[1]);
      case ir::Intrinsic::kFma:
        return fused(a[0], a[1], a[2]);
      case ir::Intrinsic::kBitAnd:
      case ir::Intrinsic::kBitOr:
      case ir::Intrinsic::kBitXor:
      case ir::Intrinsic::kShiftLeft:
      case ir::Intrinsic::kShiftRight:
        break;  // of integers
    }
    TCC_UNREACHABLE("intrinsic");
  }

 private:
  Value* c(double v) { return llvm::ConstantFP::get(type_, v); }
  Value* i(uint64_t v) { return llvm::ConstantInt::get(bits_, v); }
  Value* mul(Value* x, Value* y) { return b_.CreateFMul(x, y); }
  Value* add(Value* x, Value* y) { return b_.CreateFAdd(x, y); }
  Value* sub(Value* x, Value* y) { return b_.CreateFSub(x, y); }
  Value* mad(Value* x, Value* y, Value* z) { return add(mul(x, y), z); }
  Value* abs(Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  Value* signed_as(Value* x, Value* sign) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, sign); }
  Value* to_bits(Value* x) { return b_.CreateBitCast(x, bits_); }
  Value* from_bits(Value* x) { return b_.CreateBitCast(x, type_); }
  Value* nan() { return c(std::numeric_limits<double>::quiet_NaN()); }
  Value* infinity() { return c(std::numeric_limits<double>::infinity()); }
  uint64_t mantissa_bits() const { return single_ ? 23 : 52; }
  int exponents() const { return single_ ? 128 : 1024; }
  uint64_t bias() const { return single_ ? 127 : 1023; }

  // Coefficients from the highest power down.
  Value* polynomial(Value* x, std::initializer_list<double> coefficients) {
    Value* r = nullptr;
    for (double k : coefficients) r = r == nullptr ? c(k) : mad(r, x, c(k));
    return r;
  }
  // NaN passes through both.
  Value* at_most(Value* x, double limit) { return b_.CreateSelect(b_.CreateFCmpOGT(x, c(limit)), c(limit), x); }
  Value* at_least(Value* x, double limit) { return b_.CreateSelect(b_.CreateFCmpOLT(x, c(limit)), c(limit), x); }

  // The nearest integer as a float and as bits: adding 1.5 * 2^mantissa leaves the integer in the low bits.
  struct Nearest {
    Value* real;
    Value* bits;
  };
  Nearest nearest(Value* x, double scale) {
    double magic = single_ ? 0x1.8p23 : 0x1.8p52;
    Value* shifted = mad(x, c(scale), c(magic));
    return {sub(shifted, c(magic)), b_.CreateSub(to_bits(shifted), to_bits(c(magic)))};
  }
  Value* power_of_two(Value* n) { return from_bits(b_.CreateShl(b_.CreateAdd(n, i(bias())), mantissa_bits())); }

  // Whole vectors of AVX-512's instruction that scales by powers of two.
  bool has_scale() const {
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_);
    return features_.scale && single_ && vector != nullptr && vector->getNumElements() % 16 == 0;
  }
  // x * 2^n for integral n, where has_scale().
  Value* scale_by_power(Value* x, Value* n) {
    auto* vector = llvm::cast<llvm::FixedVectorType>(type_);
    constexpr uint32_t kCurrentRounding = 4;
    Value* result = nullptr;
    auto lanes = static_cast<int>(vector->getNumElements());
    for (int first = 0; first < lanes; first += 16) {
      llvm::SmallVector<int, 16> pick;
      for (int l = 0; l < 16; ++l) pick.push_back(first + l);
      Value* part = b_.CreateShuffleVector(x, pick);
      part = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                                {part, b_.CreateShuffleVector(n, pick), llvm::Constant::getNullValue(part->getType()),
                                 llvm::Constant::getAllOnesValue(b_.getInt16Ty()), b_.getInt32(kCurrentRounding)});
      if (lanes == 16) return part;
      llvm::SmallVector<int, 64> spread, merge;
      for (int l = 0; l < lanes; ++l) {
        spread.push_back(l >= first && l < first + 16 ? l - first : -1);
        merge.push_back(l >= first && l < first + 16 ? lanes + l : l);
      }
      Value* wide = b_.CreateShuffleVector(part, spread);
      result = result == nullptr ? wide : b_.CreateShuffleVector(result, wide, merge);
    }
    return result;
  }

  Value* exp(Value* x) {
    if (single_ && !has_scale()) return exp_by_bits(x);
    x = single_ ? at_least(at_most(x, 89.0), -104.0) : at_least(at_most(x, 710.0), -746.0);
    Nearest n = nearest(x, 1.4426950408889634);
    Value* p = single_ ? exp_of_rest(x, n.real) : nullptr;
    if (single_) return scale_by_power(p, n.real);
    Value* r = mad(n.real, c(-0x1.62e42feep-1), x);
    r = mad(n.real, c(-1.90821492927058770002e-10), r);
    p = c(1);
    for (int k = 13; k >= 1; --k) p = mad(mul(p, c(1.0 / k)), r, c(1));
    // In two steps, so that the largest and the smallest results are reached through normal factors.
    Value* half = b_.CreateAShr(n.bits, 1);
    return mul(mul(p, power_of_two(half)), power_of_two(b_.CreateSub(n.bits, half)));
  }
  // e^(x - n ln 2), in f32.
  Value* exp_of_rest(Value* x, Value* n) {
    Value* r = mad(n, c(-0.693359375), x);
    r = mad(n, c(2.12194440e-4), r);
    // Minimax in the relative error with the first two coefficients held at one.
    return polynomial(r, {0x1.6a2318p-10, 0x1.123a8ep-7, 0x1.5558f6p-5, 0x1.55549p-3, 0x1.fffffcp-2, 1.0, 1.0});
  }
  // n goes into the exponent's bits: e^(x - n ln 2) is near one, and n up to 128 still fits. What is out of range is
  // replaced at the end, where no other step waits for it.
  Value* exp_by_bits(Value* x) {
    constexpr double kLargest = 0x1.62e42ep6, kSmallest = -0x1.5d589ep6;  // of finite and of normal results
    Nearest n = nearest(x, 1.4426950408889634);
    Value* p = exp_of_rest(x, n.real);
    Value* y = from_bits(b_.CreateAdd(to_bits(p), b_.CreateShl(n.bits, mantissa_bits())));
    y = b_.CreateSelect(b_.CreateFCmpUGT(x, c(kLargest)), add(x, infinity()), y);
    return b_.CreateSelect(b_.CreateFCmpOLT(x, c(kSmallest)), c(0), y);
  }

  // x = (1 + fraction) 2^exponent, with 1 + fraction in [sqrt(1/2), sqrt(2)).
  struct Reduced {
    Value* fraction;
    Value* exponent;
  };
  Reduced reduced(Value* x) {
    double smallest = single_ ? 0x1p-126 : 0x1p-1022, scale = single_ ? 0x1p25 : 0x1p54;
    Value* tiny = b_.CreateFCmpOLT(x, c(smallest));
    Value* y = b_.CreateSelect(tiny, mul(x, c(scale)), x);
    Value* bits = b_.CreateSub(to_bits(y), to_bits(c(0.70710678118654752)));
    Value* e = b_.CreateAShr(bits, mantissa_bits());
    Value* m = from_bits(b_.CreateSub(to_bits(y), b_.CreateShl(e, mantissa_bits())));
    Value* exponent = sub(b_.CreateSIToFP(e, type_), b_.CreateSelect(tiny, c(single_ ? 25 : 54), c(0)));
    return {sub(m, c(1)), exponent};
  }

  Value* log(Value* x) {
    auto [f, exponent] = reduced(x);
    Value* r = nullptr;
    if (single_) {
      Value* z = mul(f, f);
      Value* p = polynomial(f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                                -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
      p = mul(mul(p, f), z);
      p = mad(exponent, c(-2.12194440e-4), p);
      p = mad(c(-0.5), z, p);
      r = mad(exponent, c(0.693359375), add(f, p));
    } else {
      // log m = f - s (f - R) with s = f / (2 + f) and R the series of 2 atanh(s) / s - 2.
      Value* s = b_.CreateFDiv(f, add(c(2), f));
      Value* part = sub(f, mul(s, sub(f, series_of_log(mul(s, s)))));
      r = mad(exponent, c(0x1.62e42feep-1), mad(exponent, c(1.90821492927058770002e-10), part));
    }
    r = b_.CreateSelect(b_.CreateFCmpOEQ(x, infinity()), x, r);
    r = b_.CreateSelect(b_.CreateFCmpOEQ(x, c(0)), c(-std::numeric_limits<double>::infinity()), r);
    return b_.CreateSelect(b_.CreateFCmpOGE(x, c(0)), r, nan());
  }

  // 2 atanh(s) / s - 2, of z = s^2.
  Value* series_of_log(Value* z) {
    Value* p = c(2.0 / 25);
    for (int k = 23; k >= 3; k -= 2) p = mad(p, z, c(2.0 / k));
    return mul(p, z);
  }

  // The logarithm in f64 as a sum of two numbers with some 59 bits: a power multiplies its error.
  std::pair<Value*, Value*> log_pair(Value* x) {
    llvm::IRBuilder<>::FastMathFlagGuard exact(b_);
    b_.clearFastMathFlags();
    auto [f, exponent] = reduced(x);
    Value* t = add(c(2), f);
    Value* t_rest = sub(f, sub(t, c(2)));
    Value* s = b_.CreateFDiv(f, t);
    Value* s_rest = b_.CreateFDiv(sub(fused(b_.CreateFNeg(s), t, f), mul(s, t_rest)), t);
    Value* small = add(add(s_rest, s_rest), mul(s, series_of_log(mul(s, s))));
    auto [sum, error] = two_sum(mul(exponent, c(0x1.62e42feep-1)), add(s, s));
    small = add(error, add(small, mul(exponent, c(1.90821492927058770002e-10))));
    Value* high = add(sum, small);
    return {high, sub(small, sub(high, sum))};
  }

  // With e = exp(-|x|): 1 / (1 + e), or e / (1 + e) = e - e (e / (1 + e)), where the rounding of 1 + e hardly counts.
  Value* sigmoid(Value* x) {
    Value* e = exp(b_.CreateFNeg(abs(x)));
    Value* up = b_.CreateFDiv(c(1), add(c(1), e));
    Value* down = sub(e, mul(e, mul(e, up)));
    return b_.CreateSelect(b_.CreateFCmpOLT(x, c(0)), down, up);
  }

  Value* tanh(Value* x) {
    if (single_) return tanh_by_half_exp(x);
    Value* a = abs(x);
    Value* big = sub(c(1), b_.CreateFDiv(c(2), add(exp(mul(at_most(a, 20), c(2))), c(1))));
    // sinh / cosh by their series; |x| < 0.625.
    Value* s = mul(x, x);
    Value *sinh = c(1), *cosh = c(1);
    for (int k = 18; k >= 2; k -= 2) {
      sinh = mad(mul(sinh, c(1.0 / (k * (k + 1)))), s, c(1));
      cosh = mad(mul(cosh, c(1.0 / (k * (k - 1)))), s, c(1));
    }
    Value* small = b_.CreateFDiv(mul(sinh, x), cosh);
    return b_.CreateSelect(b_.CreateFCmpOGT(a, c(0.625)), signed_as(big, x), small);
  }
  // tanh y = h / (1 + h) with h = (e^2y - 1) / 2, in f32, of y = -|x|: there neither h nor 1 + h loses digits. With
  // 2y = n ln 2 + 2r, h is the same function of r, times 2^n, and (2^n - 1) / 2. What ln 2 lacks in its last bits
  // counts less than n grows.
  Value* tanh_by_half_exp(Value* x) {
    Value* y = at_least(b_.CreateFNeg(abs(x)), -10);
    Nearest n = nearest(y, 2 * 1.4426950408889634);
    Value* r = mad(n.real, c(-0.5 * 0.69314718055994531), y);
    // Minimax in the relative error with the first coefficient held at one.
    Value* p = polynomial(r, {0x1.6b9ca2p-5, 0x1.12256p-3, 0x1.5556f2p-2, 0x1.5554b4p-1, 0x1.fffffep-1});
    Value* h = mad(r, mul(p, r), r);
    Value* power = power_of_two(n.bits);
    Value* above = mad(h, power, mad(power, c(0.5), c(-0.5)));
    return signed_as(b_.CreateFDiv(above, mad(h, power, mad(power, c(0.5), c(0.5)))), x);
  }

  Value* erf(Value* x) {
    Value* t = abs(x);
    Value* s = mul(x, x);
    if (single_) {
      Value* r = mad(c(-1.72853470e-5), t, c(3.83197126e-4));
      Value* u = mad(c(-3.88396438e-3), t, c(2.42546219e-2));
      r = mad(r, s, u);
      r = mad(r, t, c(-1.06777877e-1));
      r = mad(r, t, c(-6.34846687e-1));
      r = mad(r, t, c(-1.28717512e-1));
      r = mad(r, t, b_.CreateFNeg(t));
      Value* big = signed_as(sub(c(1), exp(r)), x);
      Value* p =
          polynomial(s, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1});
      // Where p x is rounded by itself it may be flushed although the sum is not.
      Value* small = features_.fma ? mad(p, x, x) : mul(add(p, c(1)), x);
      return b_.CreateSelect(b_.CreateFCmpOGT(t, c(0.927734375)), big, small);
    }
    // 2/sqrt(pi) x exp(-x^2) sum (2 x^2)^n / (1 3 5 .. (2n+1)): all terms have one sign.
    Value* y = at_most(t, 6.0);
    Value* z = mul(y, y);
    Value* sum = c(1);
    for (int n = 110; n >= 1; --n) sum = mad(mul(sum, c(2.0 / (2 * n + 1))), z, c(1));
    Value* r = mul(mul(mul(c(1.1283791670955126), y), exp(b_.CreateFNeg(z))), sum);
    return signed_as(at_most(r, 1.0), x);
  }

  template <class F>
  Value* through_double(const F& f, Value* x) {
    if (!single_) return f(*this, x);
    Math wide(b_, double_type(), features_);
    return b_.CreateFPTrunc(f(wide, b_.CreateFPExt(x, double_type())), type_);
  }
  llvm::Type* double_type() {
    if (auto* v = llvm::dyn_cast<llvm::FixedVectorType>(type_))
      return llvm::FixedVectorType::get(b_.getDoubleTy(), v->getNumElements());
    return b_.getDoubleTy();
  }

  // x = (n + rest) pi / 2 for a whole n, of whose bits the lowest two count.
  struct Turns {
    Value *rest, *bits;  // the rest in radians
  };
  // pi / 2 in three parts: the product of the first with n is exact below kManyTurns.
  Turns few_turns(Value* x) {
    Nearest n = nearest(x, 0.63661977236758134);
    Value* r = mad(n.real, c(-0x1.921fb544p+0), x);
    r = mad(n.real, c(-0x1.0b4611a6p-34), r);
    return {mad(n.real, c(-0x1.3198a2e037073p-69), r), n.bits};
  }
  Value* mod_four(Value* x) { return sub(x, mul(c(4), rounded(mul(x, c(0.25)), llvm::Intrinsic::roundeven))); }
  // As by Payne and Hanek, for |x| < 2^exponents: the products of x's halves with parts of 2 / pi are exact, and so is
  // what each leaves modulo 4. Both are scaled, so that the last parts are normal.
  Turns many_turns(Value* x, int exponents) {
    llvm::IRBuilder<>::FastMathFlagGuard exact(b_);
    b_.clearFastMathFlags();
    Value* high = from_bits(b_.CreateAnd(to_bits(x), i(~uint64_t{0} << 27)));
    Value* halves[] = {mul(high, c(0x1p-200)), mul(sub(x, high), c(0x1p-200))};
    llvm::SmallVector<double, 64> parts = parts_of_two_over_pi((exponents + 80) / kPartBits + 1);
    llvm::Constant* data = llvm::ConstantDataArray::get(b_.getContext(), llvm::ArrayRef<double>(parts));
    llvm::BasicBlock* before = b_.GetInsertBlock();
    auto* table = new llvm::GlobalVariable(*before->getModule(), data->getType(), true,
                                           llvm::GlobalValue::PrivateLinkage, data, "two_over_pi");
    auto* body = llvm::BasicBlock::Create(b_.getContext(), "turns", before->getParent());
    auto* done = llvm::BasicBlock::Create(b_.getContext(), "turned", before->getParent());
    b_.CreateBr(body);
    b_.SetInsertPoint(body);
    llvm::PHINode *at = b_.CreatePHI(b_.getInt64Ty(), 2), *turns = b_.CreatePHI(type_, 2),
                  *low = b_.CreatePHI(type_, 2);
    Value* part = b_.CreateLoad(b_.getDoubleTy(), b_.CreateGEP(b_.getDoubleTy(), table, at));
    if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_))
      part = b_.CreateVectorSplat(vector->getNumElements(), part);
    Value *sum = turns, *rest = low;
    for (Value* half : halves) {
      auto [with, error] = two_sum(sum, mod_four(mul(half, part)));
      sum = mod_four(with), rest = add(rest, error);
    }
    Value* next = b_.CreateAdd(at, b_.getInt64(1));
    at->addIncoming(b_.getInt64(0), before), at->addIncoming(next, body);
    turns->addIncoming(c(0), before), turns->addIncoming(sum, body);
    low->addIncoming(c(0), before), low->addIncoming(rest, body);
    b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt64(parts.size())), body, done);
    b_.SetInsertPoint(done);
    Nearest n = nearest(sum, 1);
    return {mul(add(sub(sum, n.real), rest), c(1.5707963267948966)), n.bits};
  }
  // Most kernels never meet a large angle.
  Turns turns_of(Value* x, int exponents) {
    const Turns few = few_turns(x);
    Value* large = b_.CreateFCmpOGE(abs(x), c(kManyTurns));
    llvm::BasicBlock* before = b_.GetInsertBlock();
    auto* many = llvm::BasicBlock::Create(b_.getContext(), "many", before->getParent());
    auto* after = llvm::BasicBlock::Create(b_.getContext(), "angle", before->getParent());
    b_.CreateCondBr(type_->isVectorTy() ? b_.CreateOrReduce(large) : large, many, after,
                    llvm::MDBuilder(b_.getContext()).createUnlikelyBranchWeights());
    b_.SetInsertPoint(many);
    Turns all = many_turns(x, exponents);
    all = {b_.CreateSelect(large, all.rest, few.rest), b_.CreateSelect(large, all.bits, few.bits)};
    llvm::BasicBlock* end = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    const auto either = [&](Value* seldom, Value* mostly) {
      llvm::PHINode* phi = b_.CreatePHI(mostly->getType(), 2);
      phi->addIncoming(seldom, end), phi->addIncoming(mostly, before);
      return phi;
    };
    Value* rest = either(all.rest, few.rest);
    return {rest, either(all.bits, few.bits)};
  }

  // In f64; |x| < 2^exponents.
  Value* sincos(Value* x, bool cosine, int exponents) {
    const auto [r, turns] = turns_of(x, exponents);
    Value* z = mul(r, r);
    Value *s = c(1), *k = c(1);
    for (int j = 18; j >= 2; j -= 2) {
      s = mad(mul(s, c(-1.0 / (j * (j + 1)))), z, c(1));
      k = mad(mul(k, c(-1.0 / (j * (j - 1)))), z, c(1));
    }
    s = mul(s, r);
    Value* quadrant = cosine ? b_.CreateAdd(turns, i(1)) : turns;
    Value* odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, i(1)), i(0));
    Value* flip = b_.CreateShl(b_.CreateAnd(b_.CreateLShr(quadrant, 1), i(1)), 63);
    Value* value = from_bits(b_.CreateXor(to_bits(b_.CreateSelect(odd, k, s)), flip));
    return b_.CreateSelect(b_.CreateFCmpOLT(abs(x), infinity()), value, nan());
  }

  Value* pow(Value* x, Value* y) {
    llvm::Constant* k = llvm::dyn_cast<llvm::Constant>(y);
    if (k != nullptr && y->getType()->isVectorTy()) k = k->getSplatValue();
    if (auto* f = llvm::dyn_cast_or_null<llvm::ConstantFP>(k)) {
      if (f->isExactlyValue(2.0)) return mul(x, x);
      if (f->isExactlyValue(3.0)) return mul(mul(x, x), x);
      if (f->isExactlyValue(1.0)) return x;
      if (f->isExactlyValue(-1.0)) return b_.CreateFDiv(c(1), x);
    }
    if (!single_) return pow_double(x, y, magnitude_of_pow(x, y));
    Math wide(b_, double_type(), features_);
    x = b_.CreateFPExt(x, double_type()), y = b_.CreateFPExt(y, double_type());
    // 1 to any power is 1, to an infinite one, too.
    Value* exponent = wide.log(wide.abs(x));
    Value* product = b_.CreateSelect(b_.CreateFCmpOEQ(exponent, wide.c(0)), wide.c(0), b_.CreateFMul(y, exponent));
    return b_.CreateFPTrunc(wide.pow_double(x, y, wide.exp(product)), type_);
  }

  // |x|^y in f64, where the exponent of e needs more bits than a double has.
  Value* magnitude_of_pow(Value* x, Value* y) {
    Value* a = abs(x);
    auto [high, low] = log_pair(a);
    high = b_.CreateSelect(b_.CreateFCmpOEQ(a, infinity()), a, high);
    high = b_.CreateSelect(b_.CreateFCmpOEQ(a, c(0)), c(-std::numeric_limits<double>::infinity()), high);
    Value* product = b_.CreateSelect(b_.CreateFCmpOEQ(high, c(0)), c(0), mul(y, high));
    Value* rest = add(fused(y, high, b_.CreateFNeg(product)), mul(y, low));
    Value* r = exp(product);
    // Results of 0, infinity and NaN take no correction.
    Value* inside = b_.CreateAnd(b_.CreateFCmpOGT(r, c(0)), b_.CreateFCmpOLT(r, infinity()));
    return b_.CreateSelect(inside, mad(r, rest, r), r);
  }

  // The rules of signs and edges around |x|^y.
  Value* pow_double(Value* x, Value* y, Value* magnitude) {
    // A negative base has a result for whole exponents only; beyond 2^53 all of them are even.
    double magic = 0x1.8p52;
    Value* whole =
        b_.CreateOr(b_.CreateFCmpOEQ(sub(add(y, c(magic)), c(magic)), y), b_.CreateFCmpOGE(abs(y), c(0x1p51)));
    Value* odd = b_.CreateAnd(b_.CreateFCmpOLT(abs(y), c(0x1p51)),
                              b_.CreateICmpNE(b_.CreateAnd(to_bits(add(y, c(magic))), i(1)), i(0)));
    Value* negative = b_.CreateICmpSLT(to_bits(x), i(0));
    Value* r = b_.CreateSelect(b_.CreateAnd(negative, b_.CreateAnd(whole, odd)), b_.CreateFNeg(magnitude), magnitude);
    Value* finite = b_.CreateFCmpOLT(abs(x), infinity());
    r = b_.CreateSelect(b_.CreateAnd(b_.CreateAnd(b_.CreateFCmpOLT(x, c(0)), finite), b_.CreateNot(whole)), nan(), r);
    r = b_.CreateSelect(b_.CreateFCmpUNO(x, y), nan(), r);
    return b_.CreateSelect(b_.CreateOr(b_.CreateFCmpOEQ(y, c(0)), b_.CreateFCmpOEQ(x, c(1))), c(1), r);
  }

  // Without the instructions: exact for the magnitudes that have fractions, the identity beyond.
  Value* rounded(Value* x, llvm::Intrinsic::ID id) {
    if (features_.roundings) return b_.CreateUnaryIntrinsic(id, x);
    double limit = single_ ? 0x1p23 : 0x1p52;
    Value* a = abs(x);
    llvm::IRBuilder<>::FastMathFlagGuard exact(b_);
    b_.clearFastMathFlags();
    Value* r = signed_as(sub(add(a, c(limit)), c(limit)), x);
    if (id == llvm::Intrinsic::floor) r = sub(r, b_.CreateSelect(b_.CreateFCmpOGT(r, x), c(1), c(0)));
    if (id == llvm::Intrinsic::ceil) r = add(r, b_.CreateSelect(b_.CreateFCmpOLT(r, x), c(1), c(0)));
    return b_.CreateSelect(b_.CreateFCmpOLT(a, c(limit)), signed_as(r, x), x);
  }

  // x * y + z with one rounding. Without the instruction: the product of floats is exact in double, and the sum is
  // rounded to odd before it is narrowed; doubles use the error-free product and sum of Dekker and Knuth.
  Value* fused(Value* x, Value* y, Value* z) {
    if (features_.fma) return b_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {x, y, z});
    llvm::IRBuilder<>::FastMathFlagGuard exact(b_);
    b_.clearFastMathFlags();
    if (single_) {
      Math wide(b_, double_type(), features_);
      Value* p = b_.CreateFMul(b_.CreateFPExt(x, double_type()), b_.CreateFPExt(y, double_type()));
      return b_.CreateFPTrunc(wide.odd_sum(p, b_.CreateFPExt(z, double_type())), type_);
    }
    auto split = [&](Value* v) {
      Value* t = mul(v, c(134217729.0));
      Value* high = sub(t, sub(t, v));
      return std::pair{high, sub(v, high)};
    };
    auto [xh, xl] = split(x);
    auto [yh, yl] = split(y);
    Value* p = mul(x, y);
    Value* error = add(sub(mul(xh, yh), p), add(add(mul(xh, yl), mul(xl, yh)), mul(xl, yl)));
    auto [sum, rest] = two_sum(p, z);
    return add(sum, odd_sum(rest, error));
  }
  std::pair<Value*, Value*> two_sum(Value* x, Value* y) {
    Value* s = add(x, y);
    Value* t = sub(s, x);
    return {s, add(sub(x, sub(s, t)), sub(y, t))};
  }
  // x + y, its last bit set when the sum is inexact.
  Value* odd_sum(Value* x, Value* y) {
    auto [s, error] = two_sum(x, y);
    Value* bits = to_bits(s);
    Value* inexact = b_.CreateAnd(b_.CreateFCmpONE(error, c(0)), b_.CreateFCmpOLT(abs(s), infinity()));
    Value* even = b_.CreateICmpEQ(b_.CreateAnd(bits, i(1)), i(0));
    Value* outward = b_.CreateICmpEQ(b_.CreateICmpSLT(to_bits(error), i(0)), b_.CreateICmpSLT(bits, i(0)));
    Value* step = b_.CreateSelect(outward, i(1), i(~uint64_t{0}));
    return from_bits(b_.CreateAdd(bits, b_.CreateSelect(b_.CreateAnd(inexact, even), step, i(0))));
  }

  llvm::IRBuilder<>& b_;
  llvm::Type* type_;
  llvm::Type* bits_;
  MathFeatures features_;
  bool single_;
};

}  // namespace

Value* emit_math(llvm::IRBuilder<>& b, ir::Intrinsic fn, std::span<Value* const> args, const MathFeatures& features) {
  return Math(b, args[0]->getType(), features).evaluate(fn, args);
}

}  // namespace tcc::codegen
