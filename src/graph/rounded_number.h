// A number with a bound of its rounding error, for the formulas of scalar_formulas.h. `u` is the unit roundoff of the
// arithmetic that the formula is computed in; `call` that of its functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "tcc/graph/scalar_formulas.h"

namespace tcc::graph::formulas {

struct Rounded {
  double v = 0, error = 0;
  double u = 0, call = 0;
  Rounded(double constant) : v(constant) {}  // NOLINT(google-explicit-constructor): constants of formulas
  Rounded(double value, double bound, double unit, double function_error)
      : v(value), error(bound), u(unit), call(function_error) {}
};

// The result `v` of an operation whose operands contribute `carried`, rounded once.
inline Rounded rounded(const Rounded& x, const Rounded& y, double v, double carried) {
  const double u = std::max(x.u, y.u), call = std::max(x.call, y.call);
  return {v, carried + (std::isfinite(v) ? u * std::fabs(v) : 0), u, call};
}
inline Rounded operator+(const Rounded& x, const Rounded& y) {
  return rounded(x, y, x.v + y.v, x.error + y.error);
}
inline Rounded operator-(const Rounded& x, const Rounded& y) {
  return rounded(x, y, x.v - y.v, x.error + y.error);
}
inline Rounded operator*(const Rounded& x, const Rounded& y) {
  return rounded(x, y, x.v * y.v, std::fabs(x.v) * y.error + std::fabs(y.v) * x.error + x.error * y.error);
}
inline Rounded operator/(const Rounded& x, const Rounded& y) {
  const double v = x.v / y.v, smallest = std::fabs(y.v) - y.error;
  const double carried = smallest > 0  ? (x.error + std::fabs(v) * y.error) / smallest
                         : y.error > 0 ? std::numeric_limits<double>::infinity()
                                       : 0;
  // A reciprocal and a product are allowed: one rounding more.
  return rounded(x, y, v, carried + (std::isfinite(v) ? std::max(x.u, y.u) * std::fabs(v) : 0));
}
inline Rounded operator-(Rounded x) {
  x.v = -x.v;
  return x;
}
inline bool operator<(const Rounded& x, const Rounded& y) {
  return x.v < y.v;
}
inline bool operator<=(const Rounded& x, const Rounded& y) {
  return x.v <= y.v;
}
inline bool operator==(const Rounded& x, const Rounded& y) {
  return x.v == y.v;
}
inline bool operator!=(const Rounded& x, const Rounded& y) {
  return x.v != y.v;
}
inline bool operator!(const Rounded& x) {
  return x.v == 0;
}
inline bool operator&&(const Rounded& x, const Rounded& y) {
  return x.v != 0 && y.v != 0;
}
inline bool operator||(const Rounded& x, const Rounded& y) {
  return x.v != 0 || y.v != 0;
}
inline Rounded select(bool condition, const Rounded& a, const Rounded& b) {
  return condition ? a : b;
}

// f(x) where x is only known within its error; `own`: the error of f itself, as a share of the result.
template <class F>
Rounded applied(const Rounded& x, F f, double own) {
  const double v = f(x.v);
  double carried = 0;
  if (x.error > 0)
    for (const double near : {x.v - x.error, x.v + x.error}) {
      const double moved = std::fabs(f(near) - v);
      carried =
          std::isnan(moved) && !std::isnan(v) ? std::numeric_limits<double>::infinity() : std::max(carried, moved);
    }
  return {v, carried + (std::isfinite(v) ? own * std::fabs(v) : 0), x.u, x.call};
}
// Functions of the math library, and those that are exact.
// clang-format off
#define X(function) \
  inline Rounded function(const Rounded& x) { return applied(x, [](double at) { return function(at); }, x.call); }
X(exp) X(log) X(erf) X(sin) X(cos) X(tanh)
#undef X
// Kernels make these of several functions, whose errors add up.
#define X(function) \
  inline Rounded function(const Rounded& x) { return applied(x, [](double at) { return function(at); }, 3 * x.call); }
X(asinh) X(asin) X(acos) X(atan)
#undef X
#define X(function) \
  inline Rounded function(const Rounded& x) { return applied(x, [](double at) { return function(at); }, 0); }
X(abs) X(sign) X(floor) X(ceil) X(round_to_even)
#undef X
    // clang-format on
    inline Rounded sqrt(const Rounded& x) {
  return applied(x, [](double at) { return sqrt(at); }, 2 * x.u);
}
inline Rounded sigmoid(const Rounded& x) {
  return 1.0 / (1.0 + exp(-x));
}
// As kernels compute them: differences of near numbers keep the errors of both.
inline Rounded tan(const Rounded& x) {
  return sin(x) / cos(x);
}
inline Rounded expm1(const Rounded& x) {
  return exp(x) - 1.0;
}
inline Rounded log1p(const Rounded& x) {
  return log(1.0 + x);
}
inline Rounded sinh(const Rounded& x) {
  return 0.5 * (exp(x) - exp(-x));
}
inline Rounded cosh(const Rounded& x) {
  return 0.5 * (exp(x) + exp(-x));
}
inline Rounded acosh(const Rounded& x) {
  return log(x + sqrt(x - 1.0) * sqrt(x + 1.0));
}
inline Rounded atanh(const Rounded& x) {
  return 0.5 * log((1.0 + x) / (1.0 - x));
}
inline Rounded is_infinite(const Rounded& x, bool plus, bool minus) {
  return {is_infinite(x.v, plus, minus), 0, x.u, x.call};
}
inline Rounded max(const Rounded& x, const Rounded& y) {
  return {max(x.v, y.v), std::max(x.error, y.error), std::max(x.u, y.u), std::max(x.call, y.call)};
}
inline Rounded min(const Rounded& x, const Rounded& y) {
  return {min(x.v, y.v), std::max(x.error, y.error), std::max(x.u, y.u), std::max(x.call, y.call)};
}
// Of exact operands only, as formulas use them.
inline Rounded pow(const Rounded& x, const Rounded& y) {
  const double v = pow(x.v, y.v), call = std::max(x.call, y.call);
  return {v, std::isfinite(v) ? call * std::fabs(v) : 0, std::max(x.u, y.u), call};
}
inline Rounded fmod(const Rounded& x, const Rounded& y) {
  return {fmod(x.v, y.v), 0, std::max(x.u, y.u), std::max(x.call, y.call)};
}
inline Rounded floor_mod(const Rounded& x, const Rounded& y) {
  return rounded(x, y, floor_mod(x.v, y.v), 0);
}

// Of integers, which are exact.
inline Rounded bit_not(const Rounded& x) {
  return bit_not(x.v);
}
// clang-format off
#define X(function) \
  inline Rounded function(const Rounded& x, const Rounded& y) { return function(x.v, y.v); }
X(bit_and) X(bit_or) X(bit_xor) X(shift_left) X(shift_right)
#undef X
// clang-format on

}  // namespace tcc::graph::formulas
