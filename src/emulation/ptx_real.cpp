// Float arithmetic: f32 with and without flushing of subnormals, f64, and f16 and bf16 alone or two to a register.
#include <algorithm>

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_numbers.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

// An operation on f32 whose operands and result are flushed, and whose result is kept between 0 and 1.
template <auto Op, bool kFlush, bool kSaturate>
constexpr auto kSingle = [](auto... operands) {
  const auto flushed = [](float x) { return kFlush ? flush(x) : x; };
  float x = Op(flushed(operands)...);
  if (kSaturate) x = x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;  // NaN becomes 0
  return flushed(x);
};
template <Rounding R>
constexpr auto kAdd = []<class T>(T a, T b) -> T {
  if constexpr (R == Rounding::kNearest || std::is_same_v<T, double>) return a + b;
  return to_single<R>(odd_sum(static_cast<double>(a), static_cast<double>(b)));
};
template <Rounding R>
constexpr auto kSub = []<class T>(T a, T b) -> T { return kAdd<R>(a, -b); };
template <Rounding R>
constexpr auto kMul = []<class T>(T a, T b) -> T {
  if constexpr (R == Rounding::kNearest || std::is_same_v<T, double>) return a * b;
  return to_single<R>(static_cast<double>(a) * static_cast<double>(b));
};
template <Rounding R>
constexpr auto kFma = []<class T>(T a, T b, T c) -> T {
  if constexpr (std::is_same_v<T, double>) return std::fma(a, b, c);
  return to_single<R>(odd_sum(static_cast<double>(a) * static_cast<double>(b), static_cast<double>(c)));
};
constexpr auto kDiv = []<class T>(T a, T b) -> T { return a / b; };
constexpr auto kMax = []<class T>(T a, T b) -> T { return real_max(a, b); };
constexpr auto kMin = []<class T>(T a, T b) -> T { return real_min(a, b); };
template <auto Op>
constexpr auto kKeepNaN = []<class T>(T a, T b) -> T {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : Op(a, b);
};
// PTX copies the sign of the first operand to the second.
constexpr auto kCopySign = []<class T>(T a, T b) -> T { return std::copysign(b, a); };
constexpr auto kAbs = []<class T>(T a) -> T { return std::fabs(a); };
constexpr auto kNeg = []<class T>(T a) -> T { return -a; };
constexpr auto kRcp = []<class T>(T a) -> T { return T{1} / a; };
constexpr auto kSqrt = []<class T>(T a) -> T { return std::sqrt(a); };
// Functions whose results the machine approximates: computed in double and rounded once.
constexpr auto kRsqrt = []<class T>(T a) { return static_cast<T>(1.0 / std::sqrt(static_cast<double>(a))); };
constexpr auto kEx2 = []<class T>(T a) { return static_cast<T>(std::exp2(static_cast<double>(a))); };
constexpr auto kLg2 = []<class T>(T a) { return static_cast<T>(std::log2(static_cast<double>(a))); };
constexpr auto kSin = []<class T>(T a) { return static_cast<T>(std::sin(static_cast<double>(a))); };
constexpr auto kCos = []<class T>(T a) { return static_cast<T>(std::cos(static_cast<double>(a))); };
constexpr auto kTanh = []<class T>(T a) { return static_cast<T>(std::tanh(static_cast<double>(a))); };

// The fused product that kernels mostly consist of: the host's own instruction where it has one.
using FmaRows = void (*)(float* d, const float* a, const float* b, const float* c, bool flushes);
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void fma_rows_host(float* d, const float* a, const float* b, const float* c,
                                                       bool flushes) {
  const auto zero_small = [](float x) __attribute__((target("avx2,fma"))) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
  };
  if (flushes) {
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l)
      d[l] = zero_small(__builtin_fmaf(zero_small(a[l]), zero_small(b[l]), zero_small(c[l])));
  } else {
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) d[l] = __builtin_fmaf(a[l], b[l], c[l]);
  }
}
#endif
void fma_rows_any(float* d, const float* a, const float* b, const float* c, bool flushes) {
  for (int l = 0; l < kLanes; ++l) {
    d[l] = flushes ? kSingle<kFma<Rounding::kNearest>, true, false>(a[l], b[l], c[l])
                   : kFma<Rounding::kNearest>(a[l], b[l], c[l]);
  }
}
FmaRows find_fma_rows() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) return fma_rows_host;
#endif
  return fma_rows_any;
}
template <bool kFlush>
void run_fma(Warp& w, const Ins& i, uint32_t lanes) {
  static const FmaRows rows = find_fma_rows();
  if (lanes == kAllLanes)
    return rows(w.row<float>(i.d), w.source<float>(i.a), w.source<float>(i.b), w.source<float>(i.c), kFlush);
  run_each<kSingle<kFma<Rounding::kNearest>, kFlush, false>, float, float, float, float>(w, i, lanes);
}

// --- f16, bf16 -------------------------------------------------------------------------------------------------------

// Elements of 16 bits, kCount to a register, computed in double and rounded once; a sum's last bit is sticky.
template <class Format, int kCount, int kOperands, auto Op>
void run_halves(Warp& w, const Ins& i, uint32_t lanes) {
  uint16_t* d = w.row<uint16_t>(i.d);
  const uint16_t* a = w.source<uint16_t>(i.a);
  const uint16_t* b = kOperands > 1 ? w.source<uint16_t>(i.b) : a;
  const uint16_t* c = kOperands > 2 ? w.source<uint16_t>(i.c) : a;
  for_lanes(lanes, [&](int l) {
    for (int n = l * kCount; n < (l + 1) * kCount; ++n) {
      const double x = Format::value(a[n]);
      if constexpr (kOperands == 1) d[n] = Format::bits(Op(x));
      if constexpr (kOperands == 2) d[n] = Format::bits(Op(x, Format::value(b[n])));
      if constexpr (kOperands == 3) d[n] = Format::bits(Op(x, Format::value(b[n]), Format::value(c[n])));
    }
  });
}
constexpr auto kOddAdd = [](double a, double b) -> double { return odd_sum(a, b); };
constexpr auto kOddSub = [](double a, double b) -> double { return odd_sum(a, -b); };
constexpr auto kOddFma = [](double a, double b, double c) -> double { return odd_sum(a * b, c); };
template <int kOperands, auto Op>
Handler halves(Type type) {
  if (type == Type::kF16) return &run_halves<Half, 1, kOperands, Op>;
  if (type == Type::kF16x2) return &run_halves<Half, 2, kOperands, Op>;
  if (type == Type::kBF16) return &run_halves<Brain, 1, kOperands, Op>;
  if (type == Type::kBF16x2) return &run_halves<Brain, 2, kOperands, Op>;
  return nullptr;
}

// --- selection -------------------------------------------------------------------------------------------------------

struct Modifiers {
  bool flush = false, saturate = false, approximate = false, nan = false;
  int rounding = -1;  // of rn, rz, rm, rp
};

template <int kOperands, auto Op>
Handler single(const Modifiers& m) {
  constexpr Handler kHandlers[2][2] = {{elementwise<kSingle<Op, false, false>, kOperands, float>(),
                                        elementwise<kSingle<Op, false, true>, kOperands, float>()},
                                       {elementwise<kSingle<Op, true, false>, kOperands, float>(),
                                        elementwise<kSingle<Op, true, true>, kOperands, float>()}};
  return kHandlers[m.flush][m.saturate];
}
// The operation by its rounding: none, which is nearest, rn, rz, rm, rp.
template <int kOperands, auto Nearest, auto Zero, auto Down, auto Up>
Handler single_rounded(const Modifiers& m) {
  constexpr Handler (*kRows[])(const Modifiers&) = {&single<kOperands, Nearest>, &single<kOperands, Zero>,
                                                    &single<kOperands, Down>, &single<kOperands, Up>};
  return kRows[std::max(m.rounding, 0)](m);
}

Handler single_handler(std::string_view base, const Modifiers& m) {
  if (base == "fma" && m.rounding == 0 && !m.saturate) return m.flush ? &run_fma<true> : &run_fma<false>;
  if ((base == "fma" || base == "mad") && m.rounding >= 0)
    return single_rounded<3, kFma<Rounding::kNearest>, kFma<Rounding::kZero>, kFma<Rounding::kDown>,
                          kFma<Rounding::kUp>>(m);
  if (base == "add")
    return single_rounded<2, kAdd<Rounding::kNearest>, kAdd<Rounding::kZero>, kAdd<Rounding::kDown>,
                          kAdd<Rounding::kUp>>(m);
  if (base == "sub")
    return single_rounded<2, kSub<Rounding::kNearest>, kSub<Rounding::kZero>, kSub<Rounding::kDown>,
                          kSub<Rounding::kUp>>(m);
  if (base == "mul")
    return single_rounded<2, kMul<Rounding::kNearest>, kMul<Rounding::kZero>, kMul<Rounding::kDown>,
                          kMul<Rounding::kUp>>(m);
  if (m.rounding <= 0) {
    if (base == "div") return single<2, kDiv>(m);
    if (base == "rcp") return single<1, kRcp>(m);
    if (base == "sqrt") return single<1, kSqrt>(m);
  }
  if (m.saturate || m.rounding >= 0) return nullptr;
  if (base == "max") return m.nan ? single<2, kKeepNaN<kMax>>(m) : single<2, kMax>(m);
  if (base == "min") return m.nan ? single<2, kKeepNaN<kMin>>(m) : single<2, kMin>(m);
  if (base == "abs") return single<1, kAbs>(m);
  if (base == "neg") return single<1, kNeg>(m);
  if (base == "copysign") return m.flush ? nullptr : single<2, kCopySign>(m);
  if (!m.approximate) return nullptr;
  if (base == "rsqrt") return single<1, kRsqrt>(m);
  if (base == "ex2") return single<1, kEx2>(m);
  if (base == "lg2") return single<1, kLg2>(m);
  if (base == "sin") return single<1, kSin>(m);
  if (base == "cos") return single<1, kCos>(m);
  if (base == "tanh") return single<1, kTanh>(m);
  return nullptr;
}

Handler double_handler(std::string_view base, const Modifiers& m) {
  using T = double;
  constexpr Rounding kNearest = Rounding::kNearest;
  if (m.rounding > 0 || m.saturate || m.nan) return nullptr;
  if (base == "fma" || base == "mad") return elementwise<kFma<kNearest>, 3, T>();
  if (base == "add") return elementwise<kAdd<kNearest>, 2, T>();
  if (base == "sub") return elementwise<kSub<kNearest>, 2, T>();
  if (base == "mul") return elementwise<kMul<kNearest>, 2, T>();
  if (base == "div") return elementwise<kDiv, 2, T>();
  if (base == "max") return elementwise<kMax, 2, T>();
  if (base == "min") return elementwise<kMin, 2, T>();
  if (base == "copysign") return elementwise<kCopySign, 2, T>();
  if (base == "abs") return elementwise<kAbs, 1, T>();
  if (base == "neg") return elementwise<kNeg, 1, T>();
  if (base == "rcp") return elementwise<kRcp, 1, T>();
  if (base == "sqrt") return elementwise<kSqrt, 1, T>();
  if (base == "rsqrt") return elementwise<kRsqrt, 1, T>();
  return nullptr;
}

Handler half_handler(std::string_view base, Type type, const Modifiers& m) {
  if (m.rounding > 0 || m.saturate || m.flush) return nullptr;
  if (base == "add") return halves<2, kOddAdd>(type);
  if (base == "sub") return halves<2, kOddSub>(type);
  if (base == "mul") return halves<2, kMul<Rounding::kNearest>>(type);
  if (base == "fma") return halves<3, kOddFma>(type);
  if (base == "max") return m.nan ? halves<2, kKeepNaN<kMax>>(type) : halves<2, kMax>(type);
  if (base == "min") return m.nan ? halves<2, kKeepNaN<kMin>>(type) : halves<2, kMin>(type);
  if (base == "abs") return halves<1, kAbs>(type);
  if (base == "neg") return halves<1, kNeg>(type);
  if (base == "ex2" && m.approximate) return halves<1, kEx2>(type);
  if (base == "tanh" && m.approximate) return halves<1, kTanh>(type);
  return nullptr;
}

}  // namespace

void select_real(Selector& x) {
  const std::string_view base = x.op.base();
  const auto type = x.op.take_type();
  if (!type) return;
  Modifiers m;
  m.flush = x.op.take("ftz");
  m.saturate = x.op.take("sat");
  m.approximate = x.op.take("approx");
  m.nan = x.op.take("NaN");
  m.rounding = x.op.take_one({"rn", "rz", "rm", "rp"});
  if (base == "div") x.op.take("full");
  if (!x.op.done()) return;
  if (*type == Type::kF32) {
    x.ins.run = single_handler(base, m);
  } else if (*type == Type::kF64) {
    x.ins.run = double_handler(base, m);
  } else {
    x.ins.run = half_handler(base, *type, m);
  }
  if (x.ins.run == nullptr) return;
  const int bytes = type_bytes(*type);
  if (base == "fma" || base == "mad") return x.take_same_operands(bytes, 3);
  constexpr std::string_view kBinary[] = {"add", "sub", "mul", "div", "max", "min", "copysign"};
  const bool binary = std::find(std::begin(kBinary), std::end(kBinary), base) != std::end(kBinary);
  x.take_same_operands(bytes, binary ? 2 : 1);
}

}  // namespace tcc::emulation
