// The functions of one element that Unary and Binary nodes apply, and what they mean in double.
#pragma once

#include <cstdint>
#include <string_view>

#include "tcc/graph/types.h"

namespace tcc::graph {

// Which element types a function takes, and whether its result is a boolean.
enum class Domain : uint8_t {
  kFloat,      // floats
  kNumber,     // floats and integers, without u32 and u64
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

// X(enumerator, text, domain). alpha and beta as in ONNX: Elu, Celu, Swish, ThresholdedRelu: alpha; HardSigmoid:
// max(0, min(1, alpha x + beta)); Selu: alpha, beta = gamma; Shrink: alpha = lambd, beta = bias; IsInf: alpha and beta
// tell whether +inf and -inf count.
#define TCC_GRAPH_UNARY_FNS(X)                   \
  X(kAbs, "Abs", kNumber)                        \
  X(kNeg, "Neg", kNumber)                        \
  X(kSign, "Sign", kNumber)                      \
  X(kNot, "Not", kBool)                          \
  X(kExp, "Exp", kFloat)                         \
  X(kLog, "Log", kFloat)                         \
  X(kSqrt, "Sqrt", kFloat)                       \
  X(kReciprocal, "Reciprocal", kFloat)           \
  X(kErf, "Erf", kFloat)                         \
  X(kFloor, "Floor", kFloat)                     \
  X(kCeil, "Ceil", kFloat)                       \
  X(kRound, "Round", kFloat)                     \
  X(kSin, "Sin", kFloat)                         \
  X(kCos, "Cos", kFloat)                         \
  X(kTan, "Tan", kFloat)                         \
  X(kSinh, "Sinh", kFloat)                       \
  X(kCosh, "Cosh", kFloat)                       \
  X(kAsinh, "Asinh", kFloat)                     \
  X(kAcosh, "Acosh", kFloat)                     \
  X(kAtanh, "Atanh", kFloat)                     \
  X(kIsNan, "IsNaN", kFloatTest)                 \
  X(kIsInf, "IsInf", kFloatTest)                 \
  X(kGelu, "Gelu", kFloat)                       \
  X(kGeluTanh, "GeluTanh", kFloat)               \
  X(kElu, "Elu", kFloat)                         \
  X(kSelu, "Selu", kFloat)                       \
  X(kCelu, "Celu", kFloat)                       \
  X(kSoftplus, "Softplus", kFloat)               \
  X(kSoftsign, "Softsign", kFloat)               \
  X(kHardSigmoid, "HardSigmoid", kFloat)         \
  X(kHardSwish, "HardSwish", kFloat)             \
  X(kMish, "Mish", kFloat)                       \
  X(kSwish, "Swish", kFloat)                     \
  X(kThresholdedRelu, "ThresholdedRelu", kFloat) \
  X(kShrink, "Shrink", kNumber)

// Both operands have one type. Mod takes the divisor's sign (integers only), FMod the dividend's. PRelu: x < 0 ? x * y
// : x. Max and Min are NaN when an operand is.
#define TCC_GRAPH_BINARY_FNS(X)          \
  X(kMax, "Max", kExtremum)              \
  X(kMin, "Min", kExtremum)              \
  X(kPow, "Pow", kNumber)                \
  X(kMod, "Mod", kNumber)                \
  X(kFMod, "FMod", kNumber)              \
  X(kPRelu, "PRelu", kNumber)            \
  X(kAnd, "And", kBool)                  \
  X(kOr, "Or", kBool)                    \
  X(kXor, "Xor", kBool)                  \
  X(kEqual, "Equal", kEquality)          \
  X(kLess, "Less", kOrder)               \
  X(kLessOrEqual, "LessOrEqual", kOrder) \
  X(kGreater, "Greater", kOrder)         \
  X(kGreaterOrEqual, "GreaterOrEqual", kOrder)

enum class UnaryFn : uint8_t {
#define X(enumerator, text, domain) enumerator,
  TCC_GRAPH_UNARY_FNS(X)
#undef X
};
enum class BinaryFn : uint8_t {
#define X(enumerator, text, domain) enumerator,
  TCC_GRAPH_BINARY_FNS(X)
#undef X
};

std::string_view unary_name(UnaryFn fn);
std::string_view binary_name(BinaryFn fn);
Domain unary_domain(UnaryFn fn);
Domain binary_domain(BinaryFn fn);

// Booleans are 0 and 1.
double apply_unary(UnaryFn fn, double alpha, double beta, double x);
double apply_binary(BinaryFn fn, double x, double y);

}  // namespace tcc::graph
