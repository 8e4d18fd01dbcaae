// The formulas of scalar.h over a type of numbers. `double` gives the reference, task's expressions give the kernels,
// and graph counts reads with a third. A type N of numbers has the operators + - * / unary - < <= == != && || ! with
// itself and with double, select(condition, N, N), and these functions, found beside N:
//   abs sign exp log sqrt erf floor ceil round_to_even sin cos tan tanh sigmoid expm1 log1p sinh cosh asinh acosh atanh
//   asin acos atan is_infinite(x, plus, minus) max min pow fmod floor_mod
//   bit_not bit_and bit_or bit_xor shift_left shift_right (of integers)
// Those of double are the C library's: they check the formulas that kernels use where the hardware has no such
// function.
#pragma once

#include <cmath>

#include "tcc/graph/graph.h"
#include "tcc/support/check.h"

namespace tcc::graph {

namespace formulas {

using std::acos, std::acosh, std::asin, std::atan, std::asinh, std::atanh, std::ceil, std::cos, std::cosh, std::erf,
    std::exp, std::expm1, std::floor, std::fmod, std::log, std::log1p, std::pow, std::sin, std::sinh, std::sqrt,
    std::tan, std::tanh;
inline double abs(double x) {
  return std::fabs(x);
}
inline double sign(double x) {
  return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0));
}
inline double round_to_even(double x) {
  return std::nearbyint(x);
}
inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
inline double is_infinite(double x, bool plus, bool minus) {
  return std::isinf(x) && (x > 0 ? plus : minus);
}
inline double max(double x, double y) {
  return std::isnan(y) || x < y ? y : x;
}
inline double min(double x, double y) {
  return std::isnan(y) || y < x ? y : x;
}
inline double floor_mod(double x, double y) {
  const double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
// Bits of integers, exact below 2^53; results wrap to the element type afterwards.
inline int64_t bits_of(double x) {
  return static_cast<int64_t>(x);
}
inline double bit_not(double x) {
  return -1 - x;
}
inline double bit_and(double x, double y) {
  return static_cast<double>(bits_of(x) & bits_of(y));
}
inline double bit_or(double x, double y) {
  return static_cast<double>(bits_of(x) | bits_of(y));
}
inline double bit_xor(double x, double y) {
  return static_cast<double>(bits_of(x) ^ bits_of(y));
}
// By more bits than there are, or fewer than 0, nothing is left but the sign.
inline double shift_left(double x, double y) {
  return y < 0 || y >= 64 ? 0 : std::ldexp(x, static_cast<int>(y));
}
inline double shift_right(double x, double y) {
  if (y < 0 || y >= 63) return x < 0 ? -1 : 0;
  return std::floor(std::ldexp(x, -static_cast<int>(y)));
}
inline double select(bool condition, double a, double b) {
  return condition ? a : b;
}

template <class N>
N clamp01(const N& x) {  // NaN stays NaN
  return select(x < 0.0, 0.0, select(1.0 < x, 1.0, x));
}
template <class N>
N softplus(const N& x) {
  return select(30.0 < x, x, log1p(exp(x)));
}

template <class N>
N unary(UnaryFn fn, [[maybe_unused]] double alpha, [[maybe_unused]] double beta, const N& x) {
  switch (fn) {
#define X(enumerator, name, domain, since, attributes, digits, precision, formula) \
  case UnaryFn::enumerator:                                                        \
    return formula;
    TCC_GRAPH_UNARY_FNS(X)
#undef X
  }
  TCC_UNREACHABLE();
}

template <class N>
N binary(BinaryFn fn, const N& x, const N& y) {
  switch (fn) {
#define X(enumerator, name, domain, formula) \
  case BinaryFn::enumerator:                 \
    return formula;
    TCC_GRAPH_BINARY_FNS(X)
#undef X
  }
  TCC_UNREACHABLE();
}

// One element of an elementwise operator, of the elements of its one or two operands (y = 0 where it has one). Where,
// Cast and BatchNorm are not formulas of this kind.
template <class N>
N element(const Node& node, const N& x, const N& y) {
  switch (node.op) {
    case Op::kRelu:
      return select(x < 0.0, 0.0, x);  // NaN stays NaN
    case Op::kLeakyRelu:
      return select(x < 0.0, x * node.as<LeakyAttrs>().alpha, x);
    case Op::kClip: {
      const auto& a = node.as<ClipAttrs>();
      const N top = std::isinf(a.max) ? x : select(a.max < x, a.max, x);
      return std::isinf(a.min) ? top : select(x < a.min, a.min, top);
    }
    case Op::kSigmoid:
      return sigmoid(x);
    case Op::kTanh:
      return tanh(x);
    case Op::kAdd:
      return x + y;
    case Op::kSub:
      return x - y;
    case Op::kMul:
      return x * y;
    case Op::kDiv:
      return x / y;
    case Op::kUnary:
      return unary(node.as<UnaryAttrs>().fn, node.as<UnaryAttrs>().alpha, node.as<UnaryAttrs>().beta, x);
    case Op::kBinary:
      return binary(node.as<BinaryAttrs>().fn, x, y);
    default:
      break;
  }
  TCC_UNREACHABLE("{} is not a formula of its operands", op_name(node.op));
}

// A value of a formula, as the number of its reads of the operands. Functions that kernels make of several others read
// their argument as often as those do.
struct Reads {
  int count = 0;
  Reads(double /*constant*/) {}  // NOLINT(google-explicit-constructor): constants of formulas
  explicit Reads(int n) : count(n) {}
};

// clang-format off
#define X(op) inline Reads operator op(Reads a, Reads b) { return Reads(a.count + b.count); }
X(+) X(-) X(*) X(/) X(<) X(<=) X(==) X(!=) X(&&) X(||)
#undef X
#define X(function, reads) inline Reads function(Reads x) { return Reads(reads * x.count); }
X(operator-, 1) X(operator!, 1) X(bit_not, 1) X(abs, 2) X(sign, 4) X(exp, 1) X(log, 1) X(sqrt, 1) X(erf, 1) X(floor, 1) X(ceil, 1)
X(round_to_even, 1) X(sin, 1) X(cos, 1) X(tan, 2) X(tanh, 1) X(sigmoid, 1) X(expm1, 1) X(log1p, 1) X(sinh, 2) X(cosh, 2)
X(asinh, 7) X(acosh, 3) X(atanh, 2) X(atan, 144) X(asin, 147) X(acos, 112)
#undef X
#define X(function, first, second) inline Reads function(Reads x, Reads y) { return Reads(first * x.count + second * y.count); }
X(max, 2, 4) X(min, 2, 4) X(bit_and, 1, 1) X(bit_or, 1, 1) X(bit_xor, 1, 1) X(shift_left, 1, 3)
X(shift_right, 4, 5) X(pow, 1, 1) X(fmod, 6, 4) X(floor_mod, 12, 10)
#undef X
inline Reads is_infinite(Reads x, bool /*plus*/, bool /*minus*/) { return Reads(2 * x.count); }
inline Reads select(Reads condition, Reads a, Reads b) { return Reads(condition.count + a.count + b.count); }
// clang-format on

}  // namespace formulas

}  // namespace tcc::graph
