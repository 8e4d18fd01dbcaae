#include <bit>
#include <cmath>
#include <limits>

#include "nest.h"
#include "rt/fp_mode.h"

namespace tcc::codegen {
namespace {

using ir::Intrinsic;
using ir::LoopKind;
using ir::Type;

// y[i] = fn(x[i] (, z[i])) over n elements, vectorized by 16 with a masked tail.
Compiled elementwise(int64_t n, Type type, const target::Target& target,
                     const std::function<ir::Expr(Nest&, ir::Expr, ir::Expr)>& f) {
  Nest t;
  const ir::Buffer *x = t.input("x", type, {n}), *z = t.input("z", type, {n}), *y = t.output("y", type, {n});
  ir::Stmt root = t.loop((n + 15) / 16, LoopKind::kSerial, [&](ir::Expr o) {
    return t.loop(16, LoopKind::kVectorized, [&](ir::Expr v) {
      ir::Expr i = t.at(o, 16, v), p = t.b().lt(i, t.i(n));
      std::vector<ir::Expr> index{i};
      ir::Expr a = t.b().load(*x, index, p, t.b().real(1, type)), b = t.b().load(*z, index, p, t.b().real(1, type));
      return t.store(y, {i}, f(t, a, b), p);
    });
  });
  return compile(t.lowered(root), target);
}

// Distance in units of the last place of the result's type.
template <class T>
double ulps(T got, long double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  T near = static_cast<T>(want);
  if (got == near) return 0;
  if (std::isinf(near) || std::isnan(got)) return 1e30;
  T size = std::max(std::fabs(near), std::numeric_limits<T>::min());
  return static_cast<double>(std::fabs(got - want) / (std::nextafter(size, std::numeric_limits<T>::infinity()) - size));
}

struct Function {
  Intrinsic fn;
  double low, high, bound32, bound64;
  long double (*exact)(long double);
};
const Function kFunctions[] = {
    {Intrinsic::kExp, -86, 88, 2, 2, [](long double x) { return std::exp(x); }},
    {Intrinsic::kLog, 1e-30, 1e3, 2, 2, [](long double x) { return std::log(x); }},
    {Intrinsic::kLog, 0.5, 2, 2, 2, [](long double x) { return std::log(x); }},
    {Intrinsic::kTanh, -12, 12, 2, 4, [](long double x) { return std::tanh(x); }},
    {Intrinsic::kErf, -5, 5, 2, 16, [](long double x) { return std::erf(x); }},
    {Intrinsic::kSigmoid, -80, 80, 2, 3, [](long double x) { return 1 / (1 + std::exp(-x)); }},
    {Intrinsic::kSqrt, 0, 1e6, 0.51, 0.51, [](long double x) { return std::sqrt(x); }},
    {Intrinsic::kRsqrt, 1e-6, 1e6, 2, 2, [](long double x) { return 1 / std::sqrt(x); }},
    {Intrinsic::kSin, -1000, 1000, 1, 4, [](long double x) { return std::sin(x); }},
    {Intrinsic::kCos, -1000, 1000, 1, 4, [](long double x) { return std::cos(x); }},
    {Intrinsic::kAbs, -3, 3, 0, 0, [](long double x) { return std::fabs(x); }},
    {Intrinsic::kFloor, -9, 9, 0, 0, [](long double x) { return std::floor(x); }},
    {Intrinsic::kCeil, -9, 9, 0, 0, [](long double x) { return std::ceil(x); }},
    {Intrinsic::kRound, -9, 9, 0, 0, [](long double x) { return std::nearbyint(x); }},
};

template <class T>
double worst(const Function& f, const target::Target& target, int64_t n) {
  Type type = sizeof(T) == 4 ? Type::kF32 : Type::kF64;
  Compiled code = elementwise(n, type, target, [&](Nest& t, ir::Expr a, ir::Expr) { return t.call(f.fn, {a}); });
  Aligned<T> x(n), y(n);
  for (int64_t i = 0; i < n; ++i)
    x[i] = static_cast<T>(f.low + (f.high - f.low) * static_cast<double>(i) / static_cast<double>(n - 1));
  code.run({x.data(), x.data(), y.data()});
  double bad = 0;
  for (int64_t i = 0; i < n; ++i) bad = std::max(bad, ulps(y[i], f.exact(x[i])));
  return bad;
}

}  // namespace

TEST_CASE("math functions against long double", "[codegen]") {
  for (const target::Target& target : runnable_targets())
    for (const Function& f : kFunctions) {
      INFO(target.name << " " << ir::intrinsic_name(f.fn) << " on [" << f.low << ", " << f.high << "]");
      CHECK(worst<float>(f, target, 100003) <= f.bound32);
      CHECK(worst<double>(f, target, 20011) <= f.bound64);
    }
}

// Kernels run with subnormals flushed: a subnormal argument is zero, and so is a subnormal result.
TEST_CASE("math functions over all floats, in the mode of kernels", "[codegen]") {
  const std::pair<Intrinsic, long double (*)(long double)> functions[] = {
      {Intrinsic::kExp, [](long double x) { return std::exp(x); }},
      {Intrinsic::kLog, [](long double x) { return std::log(x); }},
      {Intrinsic::kTanh, [](long double x) { return std::tanh(x); }},
      {Intrinsic::kErf, [](long double x) { return std::erf(x); }},
      {Intrinsic::kRsqrt, [](long double x) { return 1 / std::sqrt(x); }},
      {Intrinsic::kSqrt, [](long double x) { return std::sqrt(x); }},
      {Intrinsic::kSin, [](long double x) { return std::sin(x); }},
      {Intrinsic::kCos, [](long double x) { return std::cos(x); }},
      {Intrinsic::kSigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }}};
  // Every 4999th pattern of 32 bits, so all exponents, signs, infinities, NaNs and subnormals, and the edges exactly.
  Aligned<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4999)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (uint32_t edge : {0u, 1u, 0x7fffffu, 0x800000u, 0x800001u, 0x3f800000u, 0x3f7fffffu, 0x7f7fffffu, 0x7f800000u,
                        0x7fc00000u, 0x42b17217u, 0x42b17218u, 0xc2aeac4fu, 0xc2aeac50u, 0x3f200000u, 0x3f6d8000u})
    for (uint32_t sign : {0u, 0x80000000u}) x.push_back(std::bit_cast<float>(edge | sign));
  while (x.size() % 16 != 0) x.push_back(1);
  Aligned<float> y(x.size());
  for (const target::Target& target : runnable_targets())
    for (const auto& [fn, exact] : functions) {
      Compiled code = elementwise(static_cast<int64_t>(x.size()), Type::kF32, target,
                                  [&, f = fn](Nest& t, ir::Expr a, ir::Expr) { return t.call(f, {a}); });
      uint32_t mode = tcc_rt_fp_get();
      tcc_rt_fp_set(tcc_rt_fp_kernel_mode());
      code.run({x.data(), x.data(), y.data()});
      tcc_rt_fp_set(mode);
      double worst = 0;
      float at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        float argument = std::fpclassify(x[i]) == FP_SUBNORMAL ? std::copysign(0.f, x[i]) : x[i];
        long double want = exact(argument);
        bool flushed = std::fabs(want) < std::numeric_limits<float>::min() && std::fabs(y[i]) <= 0x1p-126f;
        double distance = flushed ? 0 : ulps(y[i], want);
        if (distance > worst) worst = distance, at = x[i];
      }
      INFO(target.name << " " << ir::intrinsic_name(fn) << "(" << at << ") is off by " << worst << " ulp");
      CHECK(worst <= 2);
    }
}

TEST_CASE("sin and cos of large doubles", "[codegen]") {
  Aligned<double> x;
  for (int exponent = -30; exponent < 1024; ++exponent)
    for (double part : {1.0, 1.2345678912345678, 1.5, 1.9999999999999998})
      for (double sign : {1, -1}) x.push_back(sign * std::ldexp(part, exponent));
  // Near multiples of pi / 2: the closest of all doubles, and one on each side of where more digits are taken.
  for (double near : {0x1.6ac5b262ca1ffp+849, 0x1.921fb54442d18p+21, 0x1.921fb54442d18p+22}) x.push_back(near);
  Aligned<double> y(x.size());
  for (const target::Target& target : runnable_targets())
    for (const bool cosine : {false, true}) {
      elementwise(std::ssize(x), Type::kF64, target, [&](Nest& t, ir::Expr a, ir::Expr) {
        return t.call(cosine ? Intrinsic::kCos : Intrinsic::kSin, {a});
      }).run({x.data(), x.data(), y.data()});
      for (size_t i = 0; i < x.size(); ++i) {
        INFO(target.name << (cosine ? " cos(" : " sin(") << x[i] << ") = " << y[i]);
        const auto angle = static_cast<long double>(x[i]);
        CHECK(ulps(y[i], cosine ? std::cos(angle) : std::sin(angle)) <= 4);
      }
    }
}

TEST_CASE("math functions at the ends of their range", "[codegen]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  struct Row {
    Intrinsic fn;
    float x, want;
  };
  const Row rows[] = {{Intrinsic::kExp, inf, inf},    {Intrinsic::kExp, -inf, 0},       {Intrinsic::kExp, nan, nan},
                      {Intrinsic::kExp, 89.f, inf},   {Intrinsic::kExp, -200.f, 0},     {Intrinsic::kExp, 0, 1},
                      {Intrinsic::kLog, 0, -inf},     {Intrinsic::kLog, -1, nan},       {Intrinsic::kLog, inf, inf},
                      {Intrinsic::kLog, nan, nan},    {Intrinsic::kLog, 1, 0},          {Intrinsic::kTanh, inf, 1},
                      {Intrinsic::kTanh, -inf, -1},   {Intrinsic::kTanh, nan, nan},     {Intrinsic::kErf, inf, 1},
                      {Intrinsic::kErf, -inf, -1},    {Intrinsic::kErf, nan, nan},      {Intrinsic::kSigmoid, inf, 1},
                      {Intrinsic::kSigmoid, -inf, 0}, {Intrinsic::kSin, inf, nan},      {Intrinsic::kCos, 0, 1},
                      {Intrinsic::kRound, 2.5f, 2},   {Intrinsic::kRound, -0.5f, -0.f}, {Intrinsic::kFloor, -0.5f, -1}};
  for (const target::Target& target : runnable_targets())
    for (const Row& r : rows) {
      Compiled code =
          elementwise(1, Type::kF32, target, [&](Nest& t, ir::Expr a, ir::Expr) { return t.call(r.fn, {a}); });
      float x = r.x, y = 77;
      code.run({&x, &x, &y});
      INFO(target.name << " " << ir::intrinsic_name(r.fn) << "(" << r.x << ") = " << y);
      CHECK((std::isnan(r.want) ? std::isnan(y) : y == r.want));
    }
}

TEST_CASE("pow and fma", "[codegen]") {
  for (const target::Target& target : runnable_targets()) {
    Aligned<float> x, z;
    for (float a : {-3.f, -2.f, -1.f, -0.5f, 0.f, 0.25f, 0.9f, 1.f, 1.5f, 7.f, 100.f})
      for (float b : {-3.f, -2.5f, -1.f, 0.f, 0.5f, 1.f, 2.f, 3.f, 4.f, 10.5f}) x.push_back(a), z.push_back(b);
    Aligned<float> y(x.size());
    auto n = static_cast<int64_t>(x.size());
    elementwise(n, Type::kF32, target, [](Nest& t, ir::Expr a, ir::Expr b) {
      return t.call(Intrinsic::kPow, {a, b});
    }).run({x.data(), z.data(), y.data()});
    for (size_t i = 0; i < x.size(); ++i) {
      INFO(target.name << " pow(" << x[i] << ", " << z[i] << ") = " << y[i]);
      double want = std::pow(static_cast<double>(x[i]), static_cast<double>(z[i]));
      CHECK((std::isinf(want) ? y[i] == static_cast<float>(want) : ulps(y[i], want) <= 1));
    }
    // Large exponents of e: a logarithm with the digits of a double would lose some hundred units.
    const double inf = std::numeric_limits<double>::infinity();
    Aligned<double> dx, dz;
    for (double a : {1e-300, 3e-5, 0.0363, 0.5, 0.9999999, 1.0000001, 1.3, 2.718281828, 123.456, 7e250, inf, 0.0, -3.0})
      for (double b : {-300.25, -7.5, -1.0, -1e-3, 0.0, 0.3, 2.017786606724424, 3.0, 17.0, 121.75, 1e5, 5e6, inf, -inf})
        dx.push_back(a), dz.push_back(b);
    Aligned<double> power(dx.size());
    elementwise(std::ssize(dx), Type::kF64, target, [](Nest& t, ir::Expr a, ir::Expr b) {
      return t.call(Intrinsic::kPow, {a, b});
    }).run({dx.data(), dz.data(), power.data()});
    for (size_t i = 0; i < dx.size(); ++i) {
      INFO(target.name << " pow(" << dx[i] << ", " << dz[i] << ") = " << power[i]);
      const long double want = std::pow(static_cast<long double>(dx[i]), static_cast<long double>(dz[i]));
      const bool flushed = std::fabs(want) < std::numeric_limits<double>::min() && std::fabs(power[i]) < 0x1p-1021;
      CHECK((flushed || ulps(power[i], want) <= 4));
    }
    // (1 + e)(1 - e) - 1 = -e^2 needs one rounding.
    Aligned<float> u(n, 1 + 0x1p-20f), v(n, 1 - 0x1p-20f);
    elementwise(n, Type::kF32, target, [](Nest& t, ir::Expr a, ir::Expr b) {
      return t.call(Intrinsic::kFma, {a, b, t.b().real(-1)});
    }).run({u.data(), v.data(), y.data()});
    CHECK(y[0] == -0x1p-40f);
    Aligned<double> du(n, 1 + 0x1p-40), dv(n, 1 - 0x1p-40), dy(n);
    elementwise(n, Type::kF64, target, [](Nest& t, ir::Expr a, ir::Expr b) {
      return t.call(Intrinsic::kFma, {a, b, t.b().real(-1, Type::kF64)});
    }).run({du.data(), dv.data(), dy.data()});
    CHECK(dy[n - 1] == -0x1p-80);
  }
}

TEST_CASE("f16 and bf16 conversions", "[codegen]") {
  for (const target::Target& target : runnable_targets()) {
    for (Type type : {Type::kF16, Type::kBF16}) {
      INFO(target.name << " " << ir::type_name(type));
      int64_t n = 65536;
      auto value = [&](int64_t bits) {
        if (type == Type::kBF16) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
        int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
        float v = exponent == 31  ? (mantissa != 0 ? NAN : INFINITY)
                  : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                  : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
        return (bits & 0x8000) != 0 ? -v : v;
      };
      auto convert = [&](Type from, Type to, int64_t count) {
        Nest t;
        const ir::Buffer *x = t.input("x", from, {count}), *y = t.output("y", to, {count});
        return compile(t.lowered(t.loop(count / 16, LoopKind::kSerial,
                                        [&](ir::Expr o) {
                                          return t.loop(16, LoopKind::kVectorized, [&](ir::Expr v) {
                                            ir::Expr i = t.at(o, 16, v);
                                            return t.store(y, {i}, t.b().cast(t.load(x, {i}), to));
                                          });
                                        })),
                       target);
      };
      Aligned<uint16_t> halves(n), back(n);
      Aligned<float> floats(n);
      for (int64_t i = 0; i < n; ++i) halves[i] = static_cast<uint16_t>(i);
      convert(type, Type::kF32, n).run({halves.data(), floats.data()});
      int64_t wrong = 0;
      for (int64_t i = 0; i < n; ++i) {
        float want = value(i);
        wrong += std::isnan(want) ? !std::isnan(floats[i])
                                  : std::bit_cast<uint32_t>(floats[i]) != std::bit_cast<uint32_t>(want);
      }
      CHECK(wrong == 0);
      convert(Type::kF32, type, n).run({floats.data(), back.data()});
      wrong = 0;
      for (int64_t i = 0; i < n; ++i)
        wrong += std::isnan(floats[i]) ? !std::isnan(value(back[i])) : back[i] != halves[i];
      CHECK(wrong == 0);
      // Between two neighbors: below, at and above the middle, from float and from double.
      Aligned<float> middle;
      Aligned<double> exact;
      Aligned<uint16_t> want;
      int64_t top = type == Type::kF16 ? 0x7c00 : 0x7f80;
      for (int64_t i = 1; i + 1 < top; ++i) {
        double a = value(i), b = value(i + 1), m = (a + b) / 2;
        if (type == Type::kBF16 && i < 0x100) continue;  // denormal floats
        for (int side = -1; side <= 1; ++side) {
          auto f = static_cast<float>(m);
          f = side == 0 ? f : std::nextafter(f, side < 0 ? -1e38f : 3.4e38f);
          middle.push_back(f);
          exact.push_back(side == 0 ? m : std::nextafter(m, side < 0 ? -1e300 : 1e300));
          want.push_back(static_cast<uint16_t>(side < 0 || (side == 0 && i % 2 == 0) ? i : i + 1));
        }
      }
      while (middle.size() % 16 != 0) middle.push_back(0), exact.push_back(0), want.push_back(0);
      Aligned<uint16_t> got(middle.size());
      convert(Type::kF32, type, static_cast<int64_t>(middle.size())).run({middle.data(), got.data()});
      CHECK(got == want);
      convert(Type::kF64, type, static_cast<int64_t>(middle.size())).run({exact.data(), got.data()});
      CHECK(got == want);
    }
  }
}

}  // namespace tcc::codegen
