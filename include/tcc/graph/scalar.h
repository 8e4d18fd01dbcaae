// The functions of one element that Unary and Binary nodes apply: one row each, and what they mean in double.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "tcc/graph/types.h"

namespace tcc::graph {

// Which element types a function takes, and whether its result is a boolean.
enum class Domain : uint8_t {
  kFloat,      // floats
  kNumber,     // floats and integers, without u32 and u64
  kRemainder,  // floats and integers
  kInteger,    // integers
  kExtremum,   // floats and integers
  kBool,       // booleans
  kAny,        // everything
  kFloatTest,  // floats to booleans
  kOrder,      // floats and integers to booleans
  kEquality,   // everything to booleans
};
constexpr bool gives_bool(Domain d) {
  return d == Domain::kFloatTest || d == Domain::kOrder || d == Domain::kEquality;
}
// Is `dtype` in the domain?
bool accepts(Domain domain, DType dtype);

// Names and defaults of the ONNX attributes that become alpha and beta; nullptr: not an attribute.
struct ScalarAttributes {
  const char* alpha_name = nullptr;
  double alpha = 0;
  const char* beta_name = nullptr;
  double beta = 0;
};

// X(enumerator, ONNX operator, domain, opset that has it first (0: not one by itself), attributes, digits, precision,
//   formula).
// One row is all that a function of x needs: the importer, the reference, the kernels and the interpreter of tests read
// it. `digits`: kSame, or kDouble where the usual formula cancels and kernels compute it in double. `precision`: a
// LowPrecision. The formula is over any of the number types of scalar_formulas.h, which lists the functions that it may
// use. Shrink: alpha = lambd, beta = bias; Selu: beta = gamma; IsInf: alpha and beta tell whether +inf and -inf count.
// clang-format off
#define TCC_GRAPH_UNARY_FNS(X) \
  X(kAbs, "Abs", kNumber, 1, kNone, kSame, kFollow, abs(x)) \
  X(kNeg, "Neg", kNumber, 1, kNone, kSame, kFollow, -x) \
  X(kSign, "Sign", kNumber, 9, kNone, kSame, kFollow, sign(x)) \
  X(kNot, "Not", kBool, 1, kNone, kSame, kFull, !x) \
  X(kExp, "Exp", kFloat, 1, kNone, kSame, kFull, exp(x)) \
  X(kLog, "Log", kFloat, 1, kNone, kSame, kFull, log(x)) \
  X(kSqrt, "Sqrt", kFloat, 1, kNone, kSame, kFull, sqrt(x)) \
  X(kReciprocal, "Reciprocal", kFloat, 1, kNone, kSame, kFull, 1.0 / x) \
  X(kErf, "Erf", kFloat, 9, kNone, kSame, kFollow, erf(x)) \
  X(kFloor, "Floor", kFloat, 1, kNone, kSame, kFollow, floor(x)) \
  X(kCeil, "Ceil", kFloat, 1, kNone, kSame, kFollow, ceil(x)) \
  X(kRound, "Round", kFloat, 11, kNone, kSame, kFollow, round_to_even(x)) \
  X(kSin, "Sin", kFloat, 7, kNone, kSame, kFull, sin(x)) \
  X(kCos, "Cos", kFloat, 7, kNone, kSame, kFull, cos(x)) \
  X(kTan, "Tan", kFloat, 7, kNone, kSame, kFull, tan(x)) \
  X(kAsin, "Asin", kFloat, 7, kNone, kSame, kFull, asin(x)) \
  X(kAcos, "Acos", kFloat, 7, kNone, kSame, kFull, acos(x)) \
  X(kAtan, "Atan", kFloat, 7, kNone, kSame, kFull, atan(x)) \
  X(kSinh, "Sinh", kFloat, 9, kNone, kDouble, kFull, sinh(x)) \
  X(kCosh, "Cosh", kFloat, 9, kNone, kSame, kFull, cosh(x)) \
  X(kAsinh, "Asinh", kFloat, 9, kNone, kDouble, kFull, asinh(x)) \
  X(kAcosh, "Acosh", kFloat, 9, kNone, kDouble, kFull, acosh(x)) \
  X(kAtanh, "Atanh", kFloat, 9, kNone, kDouble, kFull, atanh(x)) \
  X(kIsNan, "IsNaN", kFloatTest, 9, kNone, kSame, kFull, x != x) \
  X(kIsInf, "IsInf", kFloatTest, 10, kNone, kSame, kFull, is_infinite(x, alpha != 0, beta != 0)) \
  X(kGelu, "Gelu", kFloat, 20, kNone, kSame, kFollow, 0.5 * x * (1.0 + erf(x * M_SQRT1_2))) \
  X(kGeluTanh, "GeluTanh", kFloat, 0, kNone, kSame, kFollow, \
    0.5 * x * (1.0 + tanh((x + x * x * x * 0.044715) * (M_2_SQRTPI * M_SQRT1_2)))) \
  X(kElu, "Elu", kFloat, 1, (ScalarAttributes{"alpha", 1}), kSame, kFollow, select(x < 0.0, alpha * expm1(x), x)) \
  X(kSelu, "Selu", kFloat, 1, (ScalarAttributes{"alpha", 1.67326319217681884765625, "gamma", 1.05070102214813232421875}), kSame, kFollow, \
    beta * select(x < 0.0, alpha * expm1(x), x)) \
  X(kCelu, "Celu", kFloat, 12, (ScalarAttributes{"alpha", 1}), kSame, kFollow, select(x < 0.0, alpha * expm1(x * (1 / alpha)), x)) \
  X(kSoftplus, "Softplus", kFloat, 1, kNone, kSame, kFollow, softplus(x)) \
  X(kSoftsign, "Softsign", kFloat, 1, kNone, kSame, kFollow, x / (1.0 + abs(x))) \
  X(kHardSigmoid, "HardSigmoid", kFloat, 1, (ScalarAttributes{"alpha", 0.2, "beta", 0.5}), kSame, kFollow, clamp01(x * alpha + beta)) \
  X(kHardSwish, "HardSwish", kFloat, 14, kNone, kSame, kFollow, x * clamp01(x * (1.0 / 6) + 0.5)) \
  X(kMish, "Mish", kFloat, 18, kNone, kSame, kFollow, x * tanh(softplus(x))) \
  X(kSwish, "Swish", kFloat, 24, (ScalarAttributes{"alpha", 1}), kSame, kFollow, x * sigmoid(x * alpha)) \
  X(kThresholdedRelu, "ThresholdedRelu", kFloat, 10, (ScalarAttributes{"alpha", 1}), kSame, kFollow, select(alpha < x, x, 0.0)) \
  X(kBitNot, "BitwiseNot", kInteger, 18, kNone, kSame, kFull, bit_not(x)) \
  X(kShrink, "Shrink", kNumber, 9, (ScalarAttributes{"lambd", 0.5, "bias", 0}), kSame, kFollow, \
    select(x < -alpha, x + beta, select(alpha < x, x - beta, 0.0)))

// X(enumerator, text, domain, formula). Both operands have one type. Mod takes the divisor's sign (integers only), FMod
// the dividend's. Max and Min are NaN when an operand is.
#define TCC_GRAPH_BINARY_FNS(X) \
  X(kMax, "Max", kExtremum, max(x, y)) \
  X(kMin, "Min", kExtremum, min(x, y)) \
  X(kPow, "Pow", kNumber, pow(x, y)) \
  X(kMod, "Mod", kRemainder, floor_mod(x, y)) \
  X(kFMod, "FMod", kRemainder, fmod(x, y)) \
  X(kPRelu, "PRelu", kNumber, select(x < 0.0, x * y, x)) \
  X(kAnd, "And", kBool, x && y) \
  X(kOr, "Or", kBool, x || y) \
  X(kXor, "Xor", kBool, x != y) \
  X(kBitAnd, "BitwiseAnd", kInteger, bit_and(x, y)) \
  X(kBitOr, "BitwiseOr", kInteger, bit_or(x, y)) \
  X(kBitXor, "BitwiseXor", kInteger, bit_xor(x, y)) \
  X(kShiftLeft, "ShiftLeft", kInteger, shift_left(x, y)) \
  X(kShiftRight, "ShiftRight", kInteger, shift_right(x, y)) \
  X(kEqual, "Equal", kEquality, x == y) \
  X(kLess, "Less", kOrder, x < y) \
  X(kLessOrEqual, "LessOrEqual", kOrder, x <= y) \
  X(kGreater, "Greater", kOrder, y < x) \
  X(kGreaterOrEqual, "GreaterOrEqual", kOrder, y <= x)
// clang-format on

enum class UnaryFn : uint8_t {
#define X(enumerator, ...) enumerator,
  TCC_GRAPH_UNARY_FNS(X)
#undef X
};
enum class BinaryFn : uint8_t {
#define X(enumerator, ...) enumerator,
  TCC_GRAPH_BINARY_FNS(X)
#undef X
};

// What becomes of a function where the products of the graph are lowered to f16 or bf16.
enum class LowPrecision : uint8_t {
  kFollow,  // has the type of its inputs: its results are in the range of these, or a model bounds them as activations
  kFull,    // keeps f32: the range or the accuracy of the low type may not do
};

struct UnaryRow {
  UnaryFn fn;
  std::string_view name;  // of the ONNX operator
  Domain domain;
  int64_t since;  // opset; 0: not an ONNX operator by itself
  ScalarAttributes attributes;
  bool in_double;  // kernels compute it in double
  LowPrecision precision;
};
std::span<const UnaryRow> unary_rows();  // by UnaryFn
const UnaryRow& unary_row(UnaryFn fn);

std::string_view binary_name(BinaryFn fn);
Domain binary_domain(BinaryFn fn);

// Booleans are 0 and 1.
double apply_unary(UnaryFn fn, double alpha, double beta, double x);
double apply_binary(BinaryFn fn, double x, double y);

// How often the formula reads its operands, each at most; what kernels compute for one element grows with it.
int unary_reads(UnaryFn fn);
int binary_reads(BinaryFn fn);

}  // namespace tcc::graph
