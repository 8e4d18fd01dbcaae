#include "scalar_functions.h"

#include <array>
#include <cmath>

#include "tcc/graph/scalar_formulas.h"
#include "tcc/support/check.h"

namespace tcc::task {

using namespace ir;
using graph::BinaryFn;

namespace {

// A number of the formulas: an expression, or a constant that takes the type of what it meets.
class Number {
 public:
  Number(double constant) : constant_(constant) {}  // NOLINT(google-explicit-constructor): constants of formulas
  Number(Builder& b, Expr expr) : b_(&b), expr_(expr) {}

  bool is_constant() const { return expr_ == nullptr; }
  double constant() const { return constant_; }
  Builder& b() const { return *b_; }
  Expr expr() const { return expr_; }
  Type type() const { return expr_->type; }
  bool is_integer() const { return !is_constant() && !is_float(type()) && type() != Type::kBool; }

 private:
  Builder* b_ = nullptr;
  Expr expr_ = nullptr;
  double constant_ = 0;
};

// make(builder, x, y) of both as expressions; one of them is one already.
template <class Make>
Number combine(const Number& x, const Number& y, Make make) {
  const Number& known = x.is_constant() ? y : x;
  Builder& b = known.b();
  auto expr = [&](const Number& n) { return n.is_constant() ? b.constant(n.constant(), known.type()) : n.expr(); };
  return {b, make(b, expr(x), expr(y))};
}
Number call(Intrinsic fn, const Number& x) {
  return {x.b(), x.b().call(fn, std::array<Expr, 1>{x.expr()})};
}

// clang-format off
#define X(op, method) \
  Number operator op(const Number& x, const Number& y) { \
    return combine(x, y, [](Builder& b, Expr p, Expr q) { return b.method(p, q); }); \
  }
X(+, add) X(-, sub) X(*, mul) X(/, div) X(<=, le) X(==, eq) X(!=, ne) X(&&, logical_and) X(||, logical_or)
#undef X
#define X(function, intrinsic) Number function(const Number& x) { return call(Intrinsic::intrinsic, x); }
X(exp, kExp) X(log, kLog) X(sqrt, kSqrt) X(erf, kErf) X(floor, kFloor) X(ceil, kCeil) X(round_to_even, kRound)
X(sin, kSin) X(cos, kCos) X(tanh, kTanh) X(sigmoid, kSigmoid)
#undef X
    // clang-format on

    // Bounds between integers: x < 1.5 is x < 2, and 1.5 < x is 1 < x. No u8 is below 0.
    Number
    operator<(const Number& x, const Number& y) {
  if (x.is_integer() && y.is_constant()) {
    const double bound = std::ceil(y.constant());
    if (x.type() == Type::kU8 && bound <= 0) return {x.b(), x.b().boolean(false)};
    return {x.b(), x.b().lt(x.expr(), x.b().constant(bound, x.type()))};
  }
  if (y.is_integer() && x.is_constant())
    return {y.b(), y.b().lt(y.b().constant(std::floor(x.constant()), y.type()), y.expr())};
  return combine(x, y, [](Builder& b, Expr p, Expr q) { return b.lt(p, q); });
}
Number operator-(const Number& x) {
  return is_float(x.type()) ? x * -1.0 : 0.0 - x;
}
Number operator!(const Number& x) {
  return {x.b(), x.b().logical_not(x.expr())};
}
Number select(const Number& condition, const Number& x, const Number& y) {
  return combine(x, y, [&](Builder& b, Expr p, Expr q) { return b.select(condition.expr(), p, q); });
}

Number abs(const Number& x) {
  return is_float(x.type()) ? call(Intrinsic::kAbs, x) : select(x < 0.0, -x, x);
}
Number sign(const Number& x) {
  const Number zero(x.b(), x.b().constant(0, x.type()));
  return select(x < 0.0, -1.0, select(0.0 < x, 1.0, is_float(x.type()) ? select(x == 0.0, zero, x) : zero));
}
Number tan(const Number& x) {
  return sin(x) / cos(x);
}
Number expm1(const Number& x) {
  return exp(x) - 1.0;
}
Number log1p(const Number& x) {
  return log(1.0 + x);
}
Number sinh(const Number& x) {
  return 0.5 * (exp(x) - exp(-x));
}
Number cosh(const Number& x) {
  return 0.5 * (exp(x) + exp(-x));
}
Number asinh(const Number& x) {
  const Number a = abs(x), y = log(a + sqrt(a * a + 1.0));
  return select(x < 0.0, -y, y);
}
Number acosh(const Number& x) {
  return log(x + sqrt(x * x - 1.0));
}
Number atanh(const Number& x) {
  return 0.5 * log((1.0 + x) / (1.0 - x));
}
// Abramowitz and Stegun, Handbook of Mathematical Functions, 4.4.47: within 1e-5 of atan t for 0 <= t <= 1. One step of
// atan t = y + atan((t cos y - sin y) / (cos y + t sin y)) takes that to the digits of f64.
Number atan(const Number& x) {
  const Number a = abs(x), t = select(1.0 < a, 1.0 / a, a), z = t * t;
  const Number y = t * (0.9998660 + z * (-0.3302995 + z * (0.1801410 + z * (-0.0851330 + z * 0.0208351))));
  const Number s = sin(y), c = cos(y), within = y + (t * c - s) / (c + t * s);
  const Number zero(x.b(), x.b().constant(0, x.type())), one(x.b(), x.b().constant(1, x.type()));
  const Number whole = select(1.0 < a, M_PI_2, zero) + select(1.0 < a, -1.0, one) * within;
  return select(x < 0.0, -1.0, one) * whole;
}
Number asin(const Number& x) {
  return atan(x / sqrt((1.0 - x) * (1.0 + x)));
}
Number acos(const Number& x) {
  return 2.0 * atan(sqrt((1.0 - x) / (1.0 + x)));
}
Number is_infinite(const Number& x, bool plus, bool minus) {
  const Number never(x.b(), x.b().boolean(false));
  return (plus ? x == HUGE_VAL : never) || (minus ? x == -HUGE_VAL : never);
}
// NaN where an operand is NaN.
Number max(const Number& x, const Number& y) {
  if (is_float(x.type())) return select(x < y || y != y, y, x);
  return {x.b(), x.b().max(x.expr(), y.expr())};
}
Number min(const Number& x, const Number& y) {
  if (is_float(x.type())) return select(y < x || y != y, y, x);
  return {x.b(), x.b().min(x.expr(), y.expr())};
}
Number pow(const Number& x, const Number& y) {
  return {x.b(), x.b().call(Intrinsic::kPow, std::array<Expr, 2>{x.expr(), y.expr()})};
}
Number fmod(const Number& x, const Number& y) {
  const Number q = x / y;
  return x - (is_float(q.type()) ? select(q < 0.0, ceil(q), floor(q)) : q) * y;
}
Number floor_mod(const Number& x, const Number& y) {
  const Number r = fmod(x, y);
  if (x.type() == Type::kU8) return r;
  return select(r != 0.0 && (r < 0.0) != (y < 0.0), r + y, r);
}

// A number with the top bit is above all without.
Expr unsigned_value(Builder& b, BinaryFn fn, Expr x, Expr y) {
  auto less = [&](Expr p, Expr q) {
    Expr top_p = b.lt(p, b.integer(0, p->type)), top_q = b.lt(q, b.integer(0, q->type));
    return b.select(b.ne(top_p, top_q), top_q, b.lt(p, q));
  };
  switch (fn) {
    case BinaryFn::kMax:
      return b.select(less(x, y), y, x);
    case BinaryFn::kMin:
      return b.select(less(y, x), y, x);
    case BinaryFn::kLess:
      return less(x, y);
    case BinaryFn::kLessOrEqual:
      return b.logical_not(less(y, x));
    case BinaryFn::kGreater:
      return less(y, x);
    case BinaryFn::kGreaterOrEqual:
      return b.logical_not(less(x, y));
    default:
      break;
  }
  TCC_UNREACHABLE("{} of unsigned numbers", graph::binary_name(fn));
}

}  // namespace

Expr unary_value(Builder& b, const graph::UnaryAttrs& a, Expr x) {
  const Type type = x->type;
  const bool wide = type == Type::kF32 && graph::unary_row(a.fn).in_double;
  const Number y = graph::formulas::unary(a.fn, a.alpha, a.beta, Number(b, wide ? b.cast(x, Type::kF64) : x));
  return wide ? b.cast(y.expr(), type) : y.expr();
}

Expr binary_value(Builder& b, BinaryFn fn, bool is_unsigned, Expr x, Expr y) {
  if (is_unsigned && fn != BinaryFn::kEqual) return unsigned_value(b, fn, x, y);
  const Type type = x->type;
  // Integer powers and quotients of floats need more digits than the type has.
  const bool wide = (fn == BinaryFn::kPow && !is_float(type)) || (fn == BinaryFn::kFMod && type == Type::kF32);
  auto number = [&](Expr e) { return Number(b, wide ? b.cast(e, Type::kF64) : e); };
  const Expr z = graph::formulas::binary(fn, number(x), number(y)).expr();
  return wide ? b.cast(z, type) : z;
}

}  // namespace tcc::task
