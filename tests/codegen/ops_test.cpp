#include <cmath>
#include <limits>

#include "nest.h"

namespace tcc::codegen {
namespace {

using ir::ExprKind;
using ir::LoopKind;
using ir::Type;

// out[i] = f(a[i], b[i]), scalar for odd and vector of 8 for even `form`.
template <class T, class R>
std::vector<R> run_binary(const target::Target& target, Type type, Type result, bool vector, const std::vector<T>& a,
                          const std::vector<T>& b, const std::function<ir::Expr(ir::Builder&, ir::Expr, ir::Expr)>& f) {
  Nest t;
  auto n = static_cast<int64_t>(a.size());
  const ir::Buffer *x = t.input("x", type, {n}), *z = t.input("z", type, {n}), *y = t.output("y", result, {n});
  auto body = [&](ir::Expr i) { return t.store(y, {i}, f(t.b(), t.load(x, {i}), t.load(z, {i}))); };
  ir::Stmt root =
      vector ? t.loop(n / 8, LoopKind::kSerial,
                      [&](ir::Expr o) {
                        return t.loop(8, LoopKind::kVectorized, [&](ir::Expr v) { return body(t.at(o, 8, v)); });
                      })
             : t.loop(n, LoopKind::kSerial, body);
  Aligned<T> ax(a.begin(), a.end()), bx(b.begin(), b.end());
  Aligned<R> out(a.size());
  compile(t.lowered(root), target).run({ax.data(), bx.data(), out.data()});
  return {out.begin(), out.end()};
}

template <class T>
void check_bits(const target::Target& target, Type type, bool vector, const std::vector<T>& a, std::vector<T> b) {
  using ir::Intrinsic;
  for (const auto& [fn, exact] : std::initializer_list<std::pair<Intrinsic, T (*)(T, T)>>{
           {Intrinsic::kBitAnd, [](T x, T y) { return static_cast<T>(x & y); }},
           {Intrinsic::kBitOr, [](T x, T y) { return static_cast<T>(x | y); }},
           {Intrinsic::kBitXor, [](T x, T y) { return static_cast<T>(x ^ y); }},
           {Intrinsic::kShiftLeft, [](T x, T y) { return static_cast<T>(static_cast<uint64_t>(x) << y); }},
           {Intrinsic::kShiftRight, [](T x, T y) { return static_cast<T>(x >> y); }}}) {
    std::vector<T> second = b;
    if (fn == Intrinsic::kShiftLeft || fn == Intrinsic::kShiftRight)
      for (size_t i = 0; i < second.size(); ++i) second[i] = static_cast<T>(i * 5 % (8 * sizeof(T)));
    const auto got = run_binary<T, T>(target, type, type, vector, a, second,
                                      [fn = fn](ir::Builder& builder, ir::Expr x, ir::Expr y) {
                                        return builder.call(fn, std::array<ir::Expr, 2>{x, y});
                                      });
    for (size_t i = 0; i < a.size(); ++i) {
      INFO(ir::intrinsic_name(fn) << ": " << +a[i] << ", " << +second[i]);
      REQUIRE(+got[i] == +exact(a[i], second[i]));
    }
  }
}

// Beside multiples of the divisor, where a quotient's rounding error could move it to another integer.
template <class T>
void check_quotients(const target::Target& target, Type type, bool vector) {
  const T high = std::numeric_limits<T>::max();
  std::vector<T> a, b;
  for (T y : {T{1}, T{3}, T{7}, static_cast<T>(high / 3), static_cast<T>(high - 1), high})
    for (T times : {T{1}, T{2}, static_cast<T>(high / y)})
      for (int step : {-1, 0, 1}) {
        const T x = static_cast<T>(static_cast<int64_t>(high / y < times ? T{1} : times) * y + step);
        a.push_back(x), b.push_back(y);
        if (std::is_signed_v<T>) a.push_back(x), b.push_back(static_cast<T>(-y));
      }
  while (a.size() % 8 != 0) a.push_back(1), b.push_back(1);
  const auto divided = run_binary<T, T>(target, type, type, vector, a, b,
                                        [](ir::Builder& builder, ir::Expr x, ir::Expr y) { return builder.div(x, y); });
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(+a[i] << " / " << +b[i]);
    if (b[i] != static_cast<T>(-1)) REQUIRE(+divided[i] == +static_cast<T>(a[i] / b[i]));
  }
}

template <class T>
void check_integers(Type type) {
  std::vector<T> a, b;
  const T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  for (T x : {low, static_cast<T>(low + 1), static_cast<T>(-7), T{0}, T{1}, T{5}, static_cast<T>(high - 1), high})
    for (T y : {low, static_cast<T>(-3), static_cast<T>(-1), T{1}, T{2}, T{7}, static_cast<T>(high / 2), high})
      if (y != 0) a.push_back(x), b.push_back(y);
  while (a.size() % 8 != 0) a.push_back(1), b.push_back(1);
  using U = std::make_unsigned_t<T>;
  for (const target::Target& target : runnable_targets())
    for (bool vector : {false, true}) {
      INFO(target.name << " " << ir::type_name(type) << (vector ? " vector" : " scalar"));
      auto check = [&](ExprKind kind, auto exact) {
        auto got =
            run_binary<T, T>(target, type, type, vector, a, b,
                             [&](ir::Builder& builder, ir::Expr x, ir::Expr y) { return builder.binary(kind, x, y); });
        for (size_t i = 0; i < a.size(); ++i) {
          INFO("kind " << static_cast<int>(kind) << ": " << +a[i] << ", " << +b[i]);
          REQUIRE(+got[i] == +static_cast<T>(exact(a[i], b[i])));
        }
      };
      check(ExprKind::kAdd, [](T x, T y) { return static_cast<T>(static_cast<U>(x) + static_cast<U>(y)); });
      check(ExprKind::kSub, [](T x, T y) { return static_cast<T>(static_cast<U>(x) - static_cast<U>(y)); });
      check(ExprKind::kMul,
            [](T x, T y) { return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y)); });
      check(ExprKind::kDiv, [](T x, T y) {
        return std::is_signed_v<T> && y == static_cast<T>(-1) ? static_cast<T>(0 - static_cast<U>(x))
                                                              : static_cast<T>(x / y);
      });
      check(ExprKind::kMin, [](T x, T y) { return std::min(x, y); });
      check(ExprKind::kMax, [](T x, T y) { return std::max(x, y); });
      check_quotients<T>(target, type, vector);
      check_bits(target, type, vector, a, b);
      auto compare = [&](ExprKind kind, auto exact) {
        auto got = run_binary<T, uint8_t>(
            target, type, Type::kBool, vector, a, b,
            [&](ir::Builder& builder, ir::Expr x, ir::Expr y) { return builder.binary(kind, x, y); });
        for (size_t i = 0; i < a.size(); ++i) REQUIRE(got[i] == (exact(a[i], b[i]) ? 1 : 0));
      };
      compare(ExprKind::kLt, [](T x, T y) { return x < y; });
      compare(ExprKind::kLe, [](T x, T y) { return x <= y; });
      compare(ExprKind::kEq, [](T x, T y) { return x == y; });
      compare(ExprKind::kNe, [](T x, T y) { return x != y; });
    }
}

}  // namespace

TEST_CASE("integer operators wrap, truncate and compare by their type", "[codegen]") {
  check_integers<int8_t>(Type::kI8);
  check_integers<uint8_t>(Type::kU8);
  check_integers<int16_t>(Type::kI16);
  check_integers<uint16_t>(Type::kU16);
  check_integers<int32_t>(Type::kI32);
  std::vector<int64_t> a, b;
  for (int64_t x : {INT64_MIN, int64_t{-7}, int64_t{0}, int64_t{0x123456789abcdef}, INT64_MAX})
    for (int64_t y : {INT64_MIN, int64_t{-1}, int64_t{5}, int64_t{0xfedcba987654}}) a.push_back(x), b.push_back(y);
  while (a.size() % 8 != 0) a.push_back(1), b.push_back(1);
  for (const target::Target& target : runnable_targets())
    for (bool vector : {false, true}) check_bits(target, Type::kI64, vector, a, b);
}

TEST_CASE("float operators and the NaN rule of min and max", "[codegen]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  std::vector<float> a, b;
  for (float x : {-inf, -2.f, -0.5f, 0.f, 1.f, 3.f, inf, nan})
    for (float y : {-inf, -3.f, 0.25f, 1.f, 2.f, 8.f, inf, nan}) a.push_back(x), b.push_back(y);
  auto same = [](float x, float y) { return std::isnan(x) ? std::isnan(y) : x == y; };
  for (const target::Target& target : runnable_targets())
    for (bool vector : {false, true}) {
      auto check = [&](ExprKind kind, auto exact) {
        auto got = run_binary<float, float>(
            target, Type::kF32, Type::kF32, vector, a, b,
            [&](ir::Builder& builder, ir::Expr x, ir::Expr y) { return builder.binary(kind, x, y); });
        for (size_t i = 0; i < a.size(); ++i) {
          INFO(target.name << " kind " << static_cast<int>(kind) << ": " << a[i] << ", " << b[i] << " -> " << got[i]);
          REQUIRE(same(exact(a[i], b[i]), got[i]));
        }
      };
      check(ExprKind::kAdd, [](float x, float y) { return x + y; });
      check(ExprKind::kSub, [](float x, float y) { return x - y; });
      check(ExprKind::kMul, [](float x, float y) { return x * y; });
      check(ExprKind::kDiv, [](float x, float y) { return x / y; });
      check(ExprKind::kMin, [](float x, float y) { return std::fmin(x, y); });
      check(ExprKind::kMax, [](float x, float y) { return std::fmax(x, y); });
      auto relu = run_binary<float, float>(
          target, Type::kF32, Type::kF32, vector, a, b,
          [](ir::Builder& builder, ir::Expr x, ir::Expr) { return builder.max(builder.real(0), x); });
      for (size_t i = 0; i < a.size(); ++i) REQUIRE(relu[i] == std::fmax(a[i], 0.f));
      auto less =
          run_binary<float, uint8_t>(target, Type::kF32, Type::kBool, vector, a, b,
                                     [](ir::Builder& builder, ir::Expr x, ir::Expr y) { return builder.lt(x, y); });
      auto differ =
          run_binary<float, uint8_t>(target, Type::kF32, Type::kBool, vector, a, b,
                                     [](ir::Builder& builder, ir::Expr x, ir::Expr y) { return builder.ne(x, y); });
      for (size_t i = 0; i < a.size(); ++i) {
        REQUIRE(less[i] == (a[i] < b[i]));
        REQUIRE(differ[i] == (a[i] != b[i]));
      }
    }
}

TEST_CASE("casts truncate and saturate", "[codegen]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  std::vector<float> x{-inf,    -3e9f,  -2147483648.f, -300.f,       -129.f,       -128.9f,  -1.5f,    -0.9f,
                       0.f,     0.9f,   1.5f,          127.9f,       128.f,        32767.5f, -32769.f, 65535.9f,
                       65536.f, 255.5f, 256.f,         2147483520.f, 2147483648.f, 1e19f,    inf,      nan,
                       3.f,     2.f,    1.f,           -1.f,         4.f,          5.f,      6.f,      7.f};
  auto saturate = [](float v, double low, double high) -> double {
    if (std::isnan(v)) return 0;
    return std::trunc(std::clamp(static_cast<double>(v), low, high));
  };
  for (const target::Target& target : runnable_targets())
    for (bool vector : {false, true}) {
      auto cast = [&](auto sample, Type to) {
        using R = decltype(sample);
        return run_binary<float, R>(target, Type::kF32, to, vector, x, x,
                                    [&](ir::Builder& b, ir::Expr a, ir::Expr) { return b.cast(a, to); });
      };
      auto i8 = cast(int8_t{}, Type::kI8);
      auto u8 = cast(uint8_t{}, Type::kU8);
      auto i16 = cast(int16_t{}, Type::kI16);
      auto u16 = cast(uint16_t{}, Type::kU16);
      auto i32 = cast(int32_t{}, Type::kI32);
      auto i64 = cast(int64_t{}, Type::kI64);
      for (size_t i = 0; i < x.size(); ++i) {
        INFO(target.name << " " << x[i]);
        CHECK(i8[i] == saturate(x[i], -128, 127));
        CHECK(u8[i] == saturate(x[i], 0, 255));
        CHECK(i16[i] == saturate(x[i], -32768, 32767));
        CHECK(u16[i] == saturate(x[i], 0, 65535));
        CHECK(i32[i] == static_cast<int32_t>(saturate(x[i], -0x1p31, 0x1p31 - 1)));
        int64_t wide = std::isnan(x[i])   ? 0
                       : x[i] >= 0x1p63f  ? INT64_MAX
                       : x[i] <= -0x1p63f ? INT64_MIN
                                          : static_cast<int64_t>(x[i]);
        CHECK(i64[i] == wide);
      }
    }
}

namespace {

// Numbers on both sides of the bounds of bytes, some far beyond them, and NaN.
std::vector<float> around_bounds() {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  return {-inf,   -3e9f,  -129.f, -128.5f, -1.5f, -0.9f, 0.f, 0.9f, 126.9f, 127.f, 127.9f, 128.f,
          254.9f, 255.5f, 256.f,  3e9f,    1e30f, inf,   nan, 3.f,  -8.f,   90.f,  91.f,   7.f};
}

}  // namespace

TEST_CASE("casts of floats with bounds do not saturate again, and NaN becomes a bound", "[codegen]") {
  const std::vector<float> x = around_bounds();
  for (const target::Target& target : runnable_targets())
    for (bool vector : {false, true})
      for (bool highest_first : {false, true}) {
        auto bounded = [&](auto sample, Type to, std::vector<Type> through, float low, float high) {
          using R = decltype(sample);
          const std::vector<R> got =
              run_binary<float, R>(target, Type::kF32, to, vector, x, x, [&](ir::Builder& b, ir::Expr a, ir::Expr) {
                const ir::Expr least = b.constant(low, Type::kF32), most = b.constant(high, Type::kF32);
                a = highest_first ? b.max(b.min(a, most), least) : b.min(b.max(a, least), most);
                for (Type t : through) a = b.cast(a, t);
                return b.cast(a, to);
              });
          for (size_t i = 0; i < x.size(); ++i) {
            INFO(target.name << " " << x[i] << " between " << low << " and " << high);
            const float nan_is = highest_first ? high : low;
            const float value = std::isnan(x[i]) ? nan_is : std::clamp(x[i], low, high);
            CHECK(static_cast<double>(got[i]) == std::trunc(static_cast<double>(value)));
          }
        };
        bounded(uint8_t{}, Type::kU8, {}, 0, 255);
        bounded(uint8_t{}, Type::kU8, {Type::kI32}, 0, 255);
        bounded(int8_t{}, Type::kI8, {Type::kI32}, -128, 127);
        bounded(int8_t{}, Type::kI8, {}, -7.5f, 90.25f);
        bounded(int32_t{}, Type::kI32, {}, -1e6f, 1e6f);
        bounded(int32_t{}, Type::kI32, {}, -2147483648.f, 2147483520.f);
      }
}

TEST_CASE("casts of floats that selections bound do not saturate again, and NaN becomes 0", "[codegen]") {
  const std::vector<float> x = around_bounds();
  for (const target::Target& target : runnable_targets())
    for (bool vector : {false, true})
      for (bool constant_first : {false, true})
        for (const auto& [low, high] : {std::pair{0.f, 255.f}, {-128.f, 127.f}, {-7.5f, 90.25f}}) {
          const bool is_signed = low < 0;
          const auto clamped = [&, low = low, high = high](ir::Builder& b, ir::Expr a, ir::Expr) {
            const ir::Expr least = b.constant(low, Type::kF32), most = b.constant(high, Type::kF32);
            const ir::Expr below = constant_first ? b.select(b.lt(most, a), most, a) : b.select(b.lt(a, most), a, most);
            return b.cast(b.cast(b.select(b.lt(a, least), least, below), Type::kI32),
                          is_signed ? Type::kI8 : Type::kU8);
          };
          const Type to = is_signed ? Type::kI8 : Type::kU8;
          const std::vector<int8_t> bytes = run_binary<float, int8_t>(target, Type::kF32, to, vector, x, x, clamped);
          for (size_t i = 0; i < x.size(); ++i) {
            INFO(target.name << " " << x[i] << " between " << low << " and " << high);
            // Which bound NaN takes is up to the selections: none, or the upper one.
            const float of_nan = constant_first ? 0 : high;
            const float value = std::isnan(x[i]) ? of_nan : std::clamp(x[i], low, high);
            CHECK((is_signed ? bytes[i] : static_cast<uint8_t>(bytes[i])) == static_cast<int>(value));
          }
        }
}

TEST_CASE("sums and products of 64-bit numbers of tensors wrap around before they are compared", "[codegen]") {
  Nest t;
  constexpr int64_t n = 16;
  const ir::Buffer *x = t.input("x", Type::kI64, {n}), *z = t.input("z", Type::kI64, {n}),
                   *y = t.output("y", Type::kI64, {3, n});
  const auto sign = [&](ir::Expr e) {
    return t.b().select(t.b().lt(t.b().cast(e, Type::kF64), t.b().constant(0, Type::kF64)), t.i(-1), t.i(1));
  };
  ir::Stmt root = t.loop(n, LoopKind::kVectorized, [&](ir::Expr i) {
    ir::Expr a = t.load(x, {i}), d = t.load(z, {i});
    return t.seq({t.store(y, {t.i(0), i}, sign(t.b().add(a, a))), t.store(y, {t.i(1), i}, sign(t.b().add(a, d))),
                  t.store(y, {t.i(2), i}, sign(t.b().mul(a, d)))});
  });
  Aligned<int64_t> a(n), d(n), out(3 * n);
  for (int64_t i = 0; i < n; ++i) a[i] = i % 2 == 0 ? INT64_MAX - i : INT64_MIN + i, d[i] = i + 3;
  compile(t.lowered(root)).run({a.data(), d.data(), out.data()});
  const auto wrapped_sign = [](uint64_t v) { return static_cast<int64_t>(v) < 0 ? -1 : 1; };
  for (int64_t i = 0; i < n; ++i) {
    const auto p = static_cast<uint64_t>(a[i]), q = static_cast<uint64_t>(d[i]);
    CHECK(out[i] == wrapped_sign(p + p));
    CHECK(out[n + i] == wrapped_sign(p + q));
    CHECK(out[2 * n + i] == wrapped_sign(p * q));
  }
}

TEST_CASE("index arithmetic on negative numbers", "[codegen]") {
  Nest t;
  int64_t n = 40;
  const ir::Buffer *x = t.input("x", Type::kI64, {n}), *z = t.input("z", Type::kI64, {n}),
                   *y = t.output("y", Type::kI64, {6, n});
  ir::Stmt root = t.loop(n, LoopKind::kSerial, [&](ir::Expr i) {
    ir::Expr a = t.load(x, {i}), d = t.load(z, {i}), centred = t.b().offset(i, -20);
    return t.seq({t.store(y, {t.i(0), i}, t.b().floor_div(a, d)), t.store(y, {t.i(1), i}, t.b().floor_mod(a, d)),
                  t.store(y, {t.i(2), i}, t.b().floor_div(centred, t.i(8))),
                  t.store(y, {t.i(3), i}, t.b().floor_mod(centred, t.i(8))),
                  t.store(y, {t.i(4), i}, t.b().floor_div(centred, t.i(7))),
                  t.store(y, {t.i(5), i}, t.b().floor_mod(centred, t.i(7)))});
  });
  Aligned<int64_t> a(n), d(n), out(6 * n);
  for (int64_t i = 0; i < n; ++i) a[i] = i * 7 - 133, d[i] = i % 2 == 0 ? 5 : -3;
  compile(t.lowered(root)).run({a.data(), d.data(), out.data()});
  auto floor_div = [](int64_t p, int64_t q) {
    return static_cast<int64_t>(std::floor(static_cast<double>(p) / static_cast<double>(q)));
  };
  for (int64_t i = 0; i < n; ++i) {
    CHECK(out[i] == floor_div(a[i], d[i]));
    CHECK(out[n + i] == a[i] - d[i] * floor_div(a[i], d[i]));
    CHECK(out[2 * n + i] == floor_div(i - 20, 8));
    CHECK(out[3 * n + i] == i - 20 - 8 * floor_div(i - 20, 8));
    CHECK(out[4 * n + i] == floor_div(i - 20, 7));
    CHECK(out[5 * n + i] == i - 20 - 7 * floor_div(i - 20, 7));
  }
}

}  // namespace tcc::codegen
