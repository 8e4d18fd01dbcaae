#include "scalar_functions.h"

#include <array>
#include <cmath>

#include "tcc/graph/scalar_formulas.h"
#include "tcc/ir/integer_range.h"
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

    // Bounds between integers: x < 1.5 is x < 2, and 1.5 < x is 1 < x. No unsigned number is below 0.
    Number
    operator<(const Number& x, const Number& y) {
  if (x.is_integer() && y.is_constant()) {
    const double bound = std::ceil(y.constant());
    if (is_unsigned(x.type()) && bound <= 0) return {x.b(), x.b().boolean(false)};
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
// The usual formulas lose digits near 0. In single precision other ones keep them.
bool is_double(const Number& x) {
  return x.type() == Type::kF64;
}
Number expm1(const Number& x) {
  const Number whole = exp(x) - 1.0;
  if (is_double(x)) return whole;
  // The series up to x^8 / 8!, of which the next term has 3e-8 of the sum.
  Number series = 1.0 / 40320 * x + 1.0 / 5040;
  for (double factorial : {720, 120, 24, 6, 2}) series = series * x + 1.0 / factorial;
  return select(abs(x) < 0.5, x + x * x * series, whole);
}
Number log1p(const Number& x) {
  const Number sum = 1.0 + x, whole = log(sum);
  if (is_double(x)) return whole;
  // What the sum rounds away, by the derivative of the logarithm; from 2^24 on 1 is rounded away, which does not
  // matter.
  const Number zero(x.b(), x.b().constant(0, x.type()));
  return whole + select(0.0 < sum && sum < 16777216.0, (x - (sum - 1.0)) / sum, zero);
}
Number sinh(const Number& x) {
  return 0.5 * (exp(x) - exp(-x));
}
Number cosh(const Number& x) {
  return 0.5 * (exp(x) + exp(-x));
}
Number asinh(const Number& x) {
  const Number a = abs(x), whole = log(a + sqrt(a * a + 1.0));
  // The logarithm of a number near 1 has the error of that number. The series ends with 3/40 a^5.
  const Number y = select(a < 1e-3, a - a * a * a / 6.0, whole);
  return select(x < 0.0, -y, y);
}
Number acosh(const Number& x) {
  return log(x + sqrt(x - 1.0) * sqrt(x + 1.0));  // NaN below 1
}
Number atanh(const Number& x) {
  return 0.5 * log((1.0 + x) / (1.0 - x));
}
// Abramowitz and Stegun, Handbook of Mathematical Functions, 4.4.47: within 1e-5 of atan t for 0 <= t <= 1. One step of
// atan t = y + atan((t cos y - sin y) / (cos y + t sin y)) takes that to the digits of f64.
Number double_atan(const Number& a) {
  const Number t = select(1.0 < a, 1.0 / a, a), z = t * t;
  const Number y = t * (0.9998660 + z * (-0.3302995 + z * (0.1801410 + z * (-0.0851330 + z * 0.0208351))));
  const Number s = sin(y), c = cos(y), within = y + (t * c - s) / (c + t * s);
  const Number zero(a.b(), a.b().constant(0, a.type())), one(a.b(), a.b().constant(1, a.type()));
  return select(1.0 < a, M_PI_2, zero) + select(1.0 < a, -1.0, one) * within;
}
// Polynomials for single precision from Moshier, Methods and Programs for Mathematical Functions, 1989: for arguments
// up to tan(pi / 8), which larger ones are brought to.
Number single_atan(const Number& a) {
  const Number far = Number(2.414213562373095) < a, middle = Number(0.4142135623730950) < a;
  const Number zero(a.b(), a.b().constant(0, a.type())), one(a.b(), a.b().constant(1, a.type()));
  const Number t = select(far, -1.0, select(middle, a - 1.0, a)) / select(far, a, select(middle, a + 1.0, one)),
               z = t * t;
  const Number base = select(far, M_PI_2, select(middle, M_PI_4, zero));
  const Number p = ((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1;
  return base + (p * z * t + t);
}
Number atan(const Number& x) {
  const Number one(x.b(), x.b().constant(1, x.type())), a = abs(x);
  return select(x < 0.0, -1.0, one) * (is_double(x) ? double_atan(a) : single_atan(a));
}
// The arc sine of |x| up to 1/2, and of larger ones that of sqrt((1 - |x|) / 2), from the same book.
Number half_asin(const Number& a, const Number& large) {
  const Number z = select(large, 0.5 * (1.0 - a), a * a), s = select(large, sqrt(z), a);
  const Number p = (((4.2163199048e-2 * z + 2.4181311049e-2) * z + 4.5470025998e-2) * z + 7.4953002686e-2) * z;
  return s + s * z * (p + 1.6666752422e-1);
}
Number asin(const Number& x) {
  if (is_double(x)) return atan(x / sqrt((1.0 - x) * (1.0 + x)));
  const Number a = abs(x), large = 0.5 < a, h = half_asin(a, large), y = select(large, M_PI_2 - 2.0 * h, h);
  return select(x < 0.0, -y, y);
}
Number acos(const Number& x) {
  if (is_double(x)) return 2.0 * atan(sqrt((1.0 - x) / (1.0 + x)));
  const Number a = abs(x), large = 0.5 < a, h = half_asin(a, large), one(x.b(), x.b().constant(1, x.type()));
  return select(large, select(x < 0.0, M_PI - 2.0 * h, 2.0 * h), M_PI_2 - select(x < 0.0, -1.0, one) * h);
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
  if (!is_float(q.type())) return x - q * y;
  const Number left = x - select(q < 0.0, ceil(q), floor(q)) * y;
  // A remainder of 0 has the sign of x.
  const Number zero(x.b(), x.b().constant(0, x.type())), minus(x.b(), x.b().constant(-0.0, x.type()));
  const Number rest = select(left == 0.0, select(x < 0.0, minus, select(x == 0.0, x, zero)), left);
  // By infinity a number is its own remainder.
  return select(is_infinite(y, true, true) && !is_infinite(x, true, true), x, rest);
}
Number floor_mod(const Number& x, const Number& y) {
  const Number r = fmod(x, y);
  if (is_unsigned(x.type())) return r;
  return select(r != 0.0 && (r < 0.0) != (y < 0.0), r + y, r);
}

Expr wide_integer(const Number& x) {
  return x.b().cast(x.expr(), Type::kI64);
}
Number of_bits(Intrinsic fn, const Number& x, const Number& y) {
  return {x.b(), x.b().call(fn, std::array<Expr, 2>{x.expr(), y.expr()})};
}
Number bit_not(const Number& x) {
  return {x.b(), x.b().cast(x.b().sub(x.b().integer(-1), wide_integer(x)), x.type())};
}
Number bit_and(const Number& x, const Number& y) {
  return of_bits(Intrinsic::kBitAnd, x, y);
}
Number bit_or(const Number& x, const Number& y) {
  return of_bits(Intrinsic::kBitOr, x, y);
}
Number bit_xor(const Number& x, const Number& y) {
  return of_bits(Intrinsic::kBitXor, x, y);
}
// x moved by y bits as i64, `beyond` where there are fewer than 0 or more than 63.
Number shifted(Intrinsic fn, const Number& x, const Number& y, Expr beyond) {
  Builder& b = x.b();
  const Expr by = wide_integer(y), fits = b.logical_and(b.le(b.integer(0), by), b.lt(by, b.integer(64)));
  const Expr inside = b.max(b.integer(0), b.min(by, b.integer(63)));
  const Expr moved = b.call(fn, std::array<Expr, 2>{wide_integer(x), inside});
  return {b, b.cast(b.select(fits, moved, beyond), x.type())};
}
Number shift_left(const Number& x, const Number& y) {
  return shifted(Intrinsic::kShiftLeft, x, y, x.b().integer(0));
}
Number shift_right(const Number& x, const Number& y) {
  Builder& b = x.b();
  return shifted(Intrinsic::kShiftRight, x, y,
                 b.select(b.lt(wide_integer(x), b.integer(0)), b.integer(-1), b.integer(0)));
}

// A number with the top bit is above all without.
Expr unsigned_less(Builder& b, Expr x, Expr y) {
  Expr top_x = b.lt(x, b.integer(0, x->type)), top_y = b.lt(y, b.integer(0, y->type));
  return b.select(b.ne(top_x, top_y), top_y, b.lt(x, y));
}

Expr unsigned_value(Builder& b, BinaryFn fn, Expr x, Expr y) {
  auto less = [&](Expr p, Expr q) { return unsigned_less(b, p, q); };
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

// Half of a u64, rounded down, in two steps of 2^62: 2^63 does not fit.
Expr halved_u64(Builder& b, Expr x) {
  const int64_t quarter = int64_t{1} << 62;
  const Expr down = b.floor_div(x, b.integer(2));
  return b.offset(b.select(b.lt(x, b.integer(0)), b.offset(down, quarter), b.offset(down, -quarter)), quarter);
}

// A shift to the right of u64: the first step moves in a zero.
Expr logical_shift_right(Builder& b, Expr x, Expr y) {
  const Number rest = shift_right(Number(b, halved_u64(b, x)), Number(b, b.offset(y, -1)));
  return b.select(b.eq(y, b.integer(0)), x, b.select(b.lt(y, b.integer(0)), b.integer(0), rest.expr()));
}

// Twice the quotient of half the number leaves less than two divisors; a divisor with the top bit goes in once at most.
Expr quotient_u64(Builder& b, Expr x, Expr y) {
  const Expr zero = b.integer(0), one = b.integer(1);
  const Expr even = b.scale(b.div(halved_u64(b, x), y), 2);
  const Expr rest = b.sub(x, b.mul(even, y));
  const Expr usual = b.select(unsigned_less(b, rest, y), even, b.offset(even, 1));
  const Expr once = b.select(unsigned_less(b, x, y), zero, one);
  return b.select(b.lt(y, zero), once, b.select(b.eq(y, zero), zero, usual));
}

// Quotients, remainders and shifts of u32 by way of i64, which holds them all.
Expr of_unsigned(Builder& b, const graph::Node& node, Expr x, Expr y) {
  auto value = [&](Expr e) {
    Expr wide = b.cast(e, Type::kI64);
    return e->type == Type::kI32 ? b.select(b.lt(wide, b.integer(0)), b.offset(wide, int64_t{1} << 32), wide) : wide;
  };
  const Number p(b, value(x)), q(b, value(y));
  return b.cast(graph::formulas::element(node, p, q).expr(), x->type);
}

}  // namespace

Expr flip_order(Builder& b, Expr x) {
  return b.call(Intrinsic::kBitXor, std::array<Expr, 2>{x, b.integer(integer_range(x->type).low, x->type)});
}

Expr element_value(Builder& b, const graph::Node& node, bool wide_unsigned, Expr x, Expr y) {
  const Type type = x->type;
  bool wide = false, rounds = false;
  if (wide_unsigned && node.op == graph::Op::kDiv)
    return type == Type::kI64 ? quotient_u64(b, x, y) : of_unsigned(b, node, x, y);
  if (node.op == graph::Op::kUnary) {
    const graph::UnaryFn fn = node.as<graph::UnaryAttrs>().fn;
    // The bounds and the bias of Shrink may be fractions where its data are integers.
    wide = type == Type::kF32 ? graph::unary_row(fn).in_double : fn == graph::UnaryFn::kShrink && !is_float(type);
  } else if (node.op == graph::Op::kBinary) {
    const BinaryFn fn = node.as<graph::BinaryAttrs>().fn;
    const bool compares =
        graph::binary_domain(fn) == graph::Domain::kOrder || graph::binary_domain(fn) == graph::Domain::kExtremum;
    if (wide_unsigned && compares) return unsigned_value(b, fn, x, y);
    const bool by_value =
        fn == BinaryFn::kMod || fn == BinaryFn::kFMod || fn == BinaryFn::kShiftLeft || fn == BinaryFn::kShiftRight;
    if (wide_unsigned && fn == BinaryFn::kShiftRight && type == Type::kI64) return logical_shift_right(b, x, y);
    if (wide_unsigned && (fn == BinaryFn::kMod || fn == BinaryFn::kFMod) && type == Type::kI64)
      return b.sub(x, b.mul(quotient_u64(b, x, y), y));
    if (wide_unsigned && by_value) return of_unsigned(b, node, x, y);
    // Integer powers and quotients of floats need more digits than the type has.
    rounds = fn == BinaryFn::kPow && !is_float(type);  // a power in f64 may be just below the integer
    wide = rounds || (fn == BinaryFn::kFMod && type == Type::kF32);
  }
  auto number = [&](Expr e) { return e == nullptr ? Number(0) : Number(b, wide ? b.cast(e, Type::kF64) : e); };
  Expr z = graph::formulas::element(node, number(x), number(y)).expr();
  if (rounds) z = b.call(Intrinsic::kRound, std::array<Expr, 1>{z});
  if (rounds && type != Type::kI64) z = b.cast(z, Type::kI64);  // beyond the type a power wraps around, as products do
  return wide ? b.cast(z, type) : z;
}

}  // namespace tcc::task
