// Float arithmetic: f32 with and without flushing of subnormals, f64, and f16 and bf16 alone or two to a register.
#include "emulation/ptx_lanes.h"
#include "emulation/ptx_numbers.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

// What happens to operands and results of an f32 instruction.
template <bool kFlush, bool kSaturate>
struct Form {
  static float in(float x) { return kFlush ? flush(x) : x; }
  static float out(float x) {
    if (kSaturate) x = x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;  // NaN becomes 0
    return kFlush ? flush(x) : x;
  }
};
template <class F, class Op>
struct Single1 {
  static float run(float a) { return F::out(Op::run(F::in(a))); }
};
template <class F, class Op>
struct Single2 {
  static float run(float a, float b) { return F::out(Op::run(F::in(a), F::in(b))); }
};
template <class F, class Op>
struct Single3 {
  static float run(float a, float b, float c) { return F::out(Op::run(F::in(a), F::in(b), F::in(c))); }
};

template <Rounding R>
struct Add {
  static float run(float a, float b) {
    return R == Rounding::kNearest ? a + b : to_single<R>(odd_sum(static_cast<double>(a), static_cast<double>(b)));
  }
  static double run(double a, double b) { return a + b; }
};
template <Rounding R>
struct Sub {
  static float run(float a, float b) { return Add<R>::run(a, -b); }
  static double run(double a, double b) { return a - b; }
};
template <Rounding R>
struct Mul {
  static float run(float a, float b) {
    return R == Rounding::kNearest ? a * b : to_single<R>(static_cast<double>(a) * static_cast<double>(b));
  }
  static double run(double a, double b) { return a * b; }
};
template <Rounding R>
struct Fma {
  static float run(float a, float b, float c) {
    return to_single<R>(odd_sum(static_cast<double>(a) * static_cast<double>(b), static_cast<double>(c)));
  }
  static double run(double a, double b, double c) { return std::fma(a, b, c); }
};
struct Div {
  template <class T>
  static T run(T a, T b) {
    return a / b;
  }
};
struct Max {
  template <class T>
  static T run(T a, T b) {
    return real_max(a, b);
  }
};
struct Min {
  template <class T>
  static T run(T a, T b) {
    return real_min(a, b);
  }
};
template <class Op>
struct KeepNaN {
  template <class T>
  static T run(T a, T b) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : Op::run(a, b);
  }
};
// PTX copies the sign of the first operand to the second.
struct CopySign {
  template <class T>
  static T run(T a, T b) {
    return std::copysign(b, a);
  }
};
struct Abs {
  template <class T>
  static T run(T a) {
    return std::fabs(a);
  }
};
struct Neg {
  template <class T>
  static T run(T a) {
    return -a;
  }
};
struct Rcp {
  template <class T>
  static T run(T a) {
    return T{1} / a;
  }
};
struct Sqrt {
  template <class T>
  static T run(T a) {
    return std::sqrt(a);
  }
};
// Functions whose results the machine approximates: computed in double and rounded once.
#define TCC_PTX_FUNCTION(Name, expression)                    \
  struct Name {                                               \
    static float run(float a) {                               \
      return static_cast<float>(run(static_cast<double>(a))); \
    }                                                         \
    static double run(double a) {                             \
      return expression;                                      \
    }                                                         \
  }
TCC_PTX_FUNCTION(Rsqrt, 1.0 / std::sqrt(a));
TCC_PTX_FUNCTION(Ex2, std::exp2(a));
TCC_PTX_FUNCTION(Lg2, std::log2(a));
TCC_PTX_FUNCTION(Sin, std::sin(a));
TCC_PTX_FUNCTION(Cos, std::cos(a));
TCC_PTX_FUNCTION(Tanh, std::tanh(a));
#undef TCC_PTX_FUNCTION

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
    d[l] = flushes ? Single3<Form<true, false>, Fma<Rounding::kNearest>>::run(a[l], b[l], c[l])
                   : Fma<Rounding::kNearest>::run(a[l], b[l], c[l]);
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
  run_ternary<float, float, float, float, Single3<Form<kFlush, false>, Fma<Rounding::kNearest>>>(w, i, lanes);
}

// --- f16, bf16 -------------------------------------------------------------------------------------------------------

// Elements of 16 bits, kCount to a register, computed in double and rounded once; a sum's last bit is sticky.
template <class Format, int kCount, int kOperands, class Op>
void run_halves(Warp& w, const Ins& i, uint32_t lanes) {
  uint16_t* d = w.row<uint16_t>(i.d);
  const uint16_t* a = w.source<uint16_t>(i.a);
  const uint16_t* b = kOperands > 1 ? w.source<uint16_t>(i.b) : a;
  const uint16_t* c = kOperands > 2 ? w.source<uint16_t>(i.c) : a;
  for_lanes(lanes, [&](int l) {
    for (int n = l * kCount; n < (l + 1) * kCount; ++n) {
      const double x = Format::value(a[n]);
      if constexpr (kOperands == 1) d[n] = Format::bits(Op::run(x));
      if constexpr (kOperands == 2) d[n] = Format::bits(Op::run(x, Format::value(b[n])));
      if constexpr (kOperands == 3) d[n] = Format::bits(Op::run(x, Format::value(b[n]), Format::value(c[n])));
    }
  });
}
struct OddAdd {
  static double run(double a, double b) { return odd_sum(a, b); }
};
struct OddSub {
  static double run(double a, double b) { return odd_sum(a, -b); }
};
struct OddFma {
  static double run(double a, double b, double c) { return odd_sum(a * b, c); }
};
template <int kOperands, class Op>
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

template <template <class, class> class Shape, class Op>
Handler single_row(const Modifiers& m) {
  using T = float;
  constexpr int kOperands = std::is_same_v<Shape<Form<false, false>, Op>, Single1<Form<false, false>, Op>>   ? 1
                            : std::is_same_v<Shape<Form<false, false>, Op>, Single2<Form<false, false>, Op>> ? 2
                                                                                                             : 3;
  const auto handler = [&](auto form) -> Handler {
    using F = typename decltype(form)::type;
    if constexpr (kOperands == 1) return &run_unary<T, T, Shape<F, Op>>;
    if constexpr (kOperands == 2) return &run_binary<T, T, T, Shape<F, Op>>;
    if constexpr (kOperands == 3) return &run_ternary<T, T, T, T, Shape<F, Op>>;
  };
  if (m.saturate) return m.flush ? handler(TypeTag<Form<true, true>>()) : handler(TypeTag<Form<false, true>>());
  return m.flush ? handler(TypeTag<Form<true, false>>()) : handler(TypeTag<Form<false, false>>());
}
template <template <class, class> class Shape, template <Rounding> class Op>
Handler single_rounded(const Modifiers& m) {
  switch (m.rounding) {
    case 1:
      return single_row<Shape, Op<Rounding::kZero>>(m);
    case 2:
      return single_row<Shape, Op<Rounding::kDown>>(m);
    case 3:
      return single_row<Shape, Op<Rounding::kUp>>(m);
    default:
      return single_row<Shape, Op<Rounding::kNearest>>(m);
  }
}

Handler single_handler(std::string_view base, const Modifiers& m) {
  if (base == "fma" && m.rounding == 0 && !m.saturate) return m.flush ? &run_fma<true> : &run_fma<false>;
  if ((base == "fma" || base == "mad") && m.rounding >= 0) return single_rounded<Single3, Fma>(m);
  if (base == "add") return single_rounded<Single2, Add>(m);
  if (base == "sub") return single_rounded<Single2, Sub>(m);
  if (base == "mul") return single_rounded<Single2, Mul>(m);
  if (m.rounding <= 0) {
    if (base == "div") return single_row<Single2, Div>(m);
    if (base == "rcp") return single_row<Single1, Rcp>(m);
    if (base == "sqrt") return single_row<Single1, Sqrt>(m);
  }
  if (m.saturate || m.rounding >= 0) return nullptr;
  if (base == "max") return m.nan ? single_row<Single2, KeepNaN<Max>>(m) : single_row<Single2, Max>(m);
  if (base == "min") return m.nan ? single_row<Single2, KeepNaN<Min>>(m) : single_row<Single2, Min>(m);
  if (base == "abs") return single_row<Single1, Abs>(m);
  if (base == "neg") return single_row<Single1, Neg>(m);
  if (base == "copysign") return m.flush ? nullptr : single_row<Single2, CopySign>(m);
  if (!m.approximate) return nullptr;
  if (base == "rsqrt") return single_row<Single1, Rsqrt>(m);
  if (base == "ex2") return single_row<Single1, Ex2>(m);
  if (base == "lg2") return single_row<Single1, Lg2>(m);
  if (base == "sin") return single_row<Single1, Sin>(m);
  if (base == "cos") return single_row<Single1, Cos>(m);
  if (base == "tanh") return single_row<Single1, Tanh>(m);
  return nullptr;
}

Handler double_handler(std::string_view base, const Modifiers& m) {
  using T = double;
  constexpr Rounding kNearest = Rounding::kNearest;
  if (m.rounding > 0 || m.saturate || m.nan) return nullptr;
  if (base == "fma" || base == "mad") return &run_ternary<T, T, T, T, Fma<kNearest>>;
  if (base == "add") return &run_binary<T, T, T, Add<kNearest>>;
  if (base == "sub") return &run_binary<T, T, T, Sub<kNearest>>;
  if (base == "mul") return &run_binary<T, T, T, Mul<kNearest>>;
  if (base == "div") return &run_binary<T, T, T, Div>;
  if (base == "max") return &run_binary<T, T, T, Max>;
  if (base == "min") return &run_binary<T, T, T, Min>;
  if (base == "copysign") return &run_binary<T, T, T, CopySign>;
  if (base == "abs") return &run_unary<T, T, Abs>;
  if (base == "neg") return &run_unary<T, T, Neg>;
  if (base == "rcp") return &run_unary<T, T, Rcp>;
  if (base == "sqrt") return &run_unary<T, T, Sqrt>;
  if (base == "rsqrt") return &run_unary<T, T, Rsqrt>;
  return nullptr;
}

Handler half_handler(std::string_view base, Type type, const Modifiers& m) {
  if (m.rounding > 0 || m.saturate || m.flush) return nullptr;
  if (base == "add") return halves<2, OddAdd>(type);
  if (base == "sub") return halves<2, OddSub>(type);
  if (base == "mul") return halves<2, Mul<Rounding::kNearest>>(type);
  if (base == "fma") return halves<3, OddFma>(type);
  if (base == "max") return m.nan ? halves<2, KeepNaN<Max>>(type) : halves<2, Max>(type);
  if (base == "min") return m.nan ? halves<2, KeepNaN<Min>>(type) : halves<2, Min>(type);
  if (base == "abs") return halves<1, Abs>(type);
  if (base == "neg") return halves<1, Neg>(type);
  if (base == "ex2" && m.approximate) return halves<1, Ex2>(type);
  if (base == "tanh" && m.approximate) return halves<1, Tanh>(type);
  return nullptr;
}

size_t operand_count(std::string_view base) {
  if (base == "fma" || base == "mad") return 3;
  for (std::string_view two : {"add", "sub", "mul", "div", "max", "min", "copysign"})
    if (base == two) return 2;
  return 1;
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
  const size_t count = operand_count(base);
  x.need(count + 1, count + 1);
  x.ins.d = x.result(0, bytes);
  x.ins.a = x.value(1, bytes);
  if (count > 1) x.ins.b = x.value(2, bytes);
  if (count > 2) x.ins.c = x.value(3, bytes);
}

}  // namespace tcc::emulation
