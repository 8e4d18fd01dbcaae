#include "tcc/graph/scalar.h"

#include <algorithm>
#include <cmath>

#include "tcc/graph/refusal.h"
#include "tcc/support/check.h"

namespace tcc::graph {

bool accepts(Domain domain, DType dtype) {
  switch (domain) {
    case Domain::kFloat:
    case Domain::kFloatTest:
      return is_float(dtype);
    case Domain::kNumber:
      return dtype != DType::kBool && !is_wide_unsigned(dtype);
    case Domain::kExtremum:
    case Domain::kOrder:
      return dtype != DType::kBool;
    case Domain::kBool:
      return dtype == DType::kBool;
    case Domain::kAny:
    case Domain::kEquality:
      return true;
  }
  TCC_UNREACHABLE();
}

std::string_view unary_name(UnaryFn fn) {
  switch (fn) {
#define X(enumerator, text, domain) \
  case UnaryFn::enumerator:         \
    return text;
    TCC_GRAPH_UNARY_FNS(X)
#undef X
  }
  TCC_UNREACHABLE();
}

std::string_view binary_name(BinaryFn fn) {
  switch (fn) {
#define X(enumerator, text, domain) \
  case BinaryFn::enumerator:        \
    return text;
    TCC_GRAPH_BINARY_FNS(X)
#undef X
  }
  TCC_UNREACHABLE();
}

Domain unary_domain(UnaryFn fn) {
  switch (fn) {
#define X(enumerator, text, domain) \
  case UnaryFn::enumerator:         \
    return Domain::domain;
    TCC_GRAPH_UNARY_FNS(X)
#undef X
  }
  TCC_UNREACHABLE();
}

Domain binary_domain(BinaryFn fn) {
  switch (fn) {
#define X(enumerator, text, domain) \
  case BinaryFn::enumerator:        \
    return Domain::domain;
    TCC_GRAPH_BINARY_FNS(X)
#undef X
  }
  TCC_UNREACHABLE();
}

double apply_unary(UnaryFn fn, double alpha, double beta, double x) {
  auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  auto softplus = [](double v) { return v > 30 ? v : std::log1p(std::exp(v)); };
  switch (fn) {
    case UnaryFn::kAbs:
      return std::fabs(x);
    case UnaryFn::kNeg:
      return -x;
    case UnaryFn::kSign:
      return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0));
    case UnaryFn::kNot:
      return x == 0;
    case UnaryFn::kExp:
      return std::exp(x);
    case UnaryFn::kLog:
      return std::log(x);
    case UnaryFn::kSqrt:
      return std::sqrt(x);
    case UnaryFn::kReciprocal:
      return 1 / x;
    case UnaryFn::kErf:
      return std::erf(x);
    case UnaryFn::kFloor:
      return std::floor(x);
    case UnaryFn::kCeil:
      return std::ceil(x);
    case UnaryFn::kRound:
      return std::nearbyint(x);
    case UnaryFn::kSin:
      return std::sin(x);
    case UnaryFn::kCos:
      return std::cos(x);
    case UnaryFn::kTan:
      return std::tan(x);
    case UnaryFn::kSinh:
      return std::sinh(x);
    case UnaryFn::kCosh:
      return std::cosh(x);
    case UnaryFn::kAsinh:
      return std::asinh(x);
    case UnaryFn::kAcosh:
      return std::acosh(x);
    case UnaryFn::kAtanh:
      return std::atanh(x);
    case UnaryFn::kIsNan:
      return std::isnan(x);
    case UnaryFn::kIsInf:
      return std::isinf(x) && (x > 0 ? alpha : beta) != 0;
    case UnaryFn::kGelu:
      return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
    case UnaryFn::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
    case UnaryFn::kElu:
      return x < 0 ? alpha * std::expm1(x) : x;
    case UnaryFn::kSelu:
      return beta * (x < 0 ? alpha * std::expm1(x) : x);
    case UnaryFn::kCelu:
      return x < 0 ? alpha * std::expm1(x / alpha) : x;
    case UnaryFn::kSoftplus:
      return softplus(x);
    case UnaryFn::kSoftsign:
      return x / (1 + std::fabs(x));
    case UnaryFn::kHardSigmoid:
      return std::isnan(x) ? x : std::clamp(alpha * x + beta, 0.0, 1.0);
    case UnaryFn::kHardSwish:
      return std::isnan(x) ? x : x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
    case UnaryFn::kMish:
      return x * std::tanh(softplus(x));
    case UnaryFn::kSwish:
      return x * sigmoid(alpha * x);
    case UnaryFn::kThresholdedRelu:
      return x <= alpha ? 0 : x;
    case UnaryFn::kShrink:
      return x < -alpha ? x + beta : x > alpha ? x - beta : std::isnan(x) ? x : 0;
  }
  TCC_UNREACHABLE();
}

double apply_binary(BinaryFn fn, double x, double y) {
  switch (fn) {
    case BinaryFn::kMax:
      return std::isnan(y) || x < y ? y : x;
    case BinaryFn::kMin:
      return std::isnan(y) || y < x ? y : x;
    case BinaryFn::kPow:
      return std::pow(x, y);
    case BinaryFn::kMod: {
      double r = std::fmod(x, y);
      return r != 0 && (r < 0) != (y < 0) ? r + y : r;
    }
    case BinaryFn::kFMod:
      return std::fmod(x, y);
    case BinaryFn::kPRelu:
      return x < 0 ? x * y : x;
    case BinaryFn::kAnd:
      return x != 0 && y != 0;
    case BinaryFn::kOr:
      return x != 0 || y != 0;
    case BinaryFn::kXor:
      return (x != 0) != (y != 0);
    case BinaryFn::kEqual:
      return x == y;
    case BinaryFn::kLess:
      return x < y;
    case BinaryFn::kLessOrEqual:
      return x <= y;
    case BinaryFn::kGreater:
      return x > y;
    case BinaryFn::kGreaterOrEqual:
      return x >= y;
  }
  TCC_UNREACHABLE();
}

// --- refusals ------------------------------------------------------------------------------------------------------

namespace {
constexpr std::string_view kNotePrefix = "limitation: ";
}

std::string_view refusal_code(Refusal reason) {
  switch (reason) {
#define X(enumerator, code, meaning) \
  case Refusal::enumerator:          \
    return code;
    TCC_GRAPH_REFUSALS(X)
#undef X
  }
  TCC_UNREACHABLE();
}

std::string_view refusal_meaning(Refusal reason) {
  switch (reason) {
#define X(enumerator, code, meaning) \
  case Refusal::enumerator:          \
    return meaning;
    TCC_GRAPH_REFUSALS(X)
#undef X
  }
  TCC_UNREACHABLE();
}

tl::unexpected<Error> refusal(Refusal reason, std::string message, std::string hint, std::vector<std::string> notes) {
  notes.push_back(fmt::format("{}{} ({})", kNotePrefix, refusal_code(reason), refusal_meaning(reason)));
  return make_error(ErrorClass::kInput, std::move(message), std::move(hint), std::move(notes));
}

std::optional<Refusal> refusal_of(const Error& error) {
  if (error.notes.empty() || !error.notes.back().starts_with(kNotePrefix)) return std::nullopt;
  std::string_view code = std::string_view(error.notes.back()).substr(kNotePrefix.size());
  code = code.substr(0, code.find(' '));
#define X(enumerator, text, meaning) \
  if (code == text) return Refusal::enumerator;
  TCC_GRAPH_REFUSALS(X)
#undef X
  return std::nullopt;
}

}  // namespace tcc::graph
