#include "tcc/graph/scalar.h"

#include <algorithm>

#include "tcc/graph/refusal.h"
#include "tcc/graph/scalar_formulas.h"
#include "tcc/support/check.h"

namespace tcc::graph {

bool accepts(Domain domain, DType dtype) {
  switch (domain) {
    case Domain::kFloat:
    case Domain::kFloatTest:
      return is_float(dtype);
    case Domain::kNumber:
      return dtype != DType::kBool && !is_wide_unsigned(dtype);
    case Domain::kInteger:
      return dtype != DType::kBool && !is_float(dtype);
    case Domain::kRemainder:
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

namespace {

enum class Digits : bool { kSame, kDouble };
constexpr ScalarAttributes kNone = {};

constexpr UnaryRow kUnaryRows[] = {
#define X(enumerator, name, domain, since, attributes, digits, precision, formula)                     \
  {UnaryFn::enumerator,    name, Domain::domain, since, attributes, Digits::digits == Digits::kDouble, \
   LowPrecision::precision},
    TCC_GRAPH_UNARY_FNS(X)
#undef X
};

struct BinaryRow {
  std::string_view name;
  Domain domain;
};
constexpr BinaryRow kBinaryRows[] = {
#define X(enumerator, text, domain, formula) {text, Domain::domain},
    TCC_GRAPH_BINARY_FNS(X)
#undef X
};

}  // namespace

std::span<const UnaryRow> unary_rows() {
  return kUnaryRows;
}
const UnaryRow& unary_row(UnaryFn fn) {
  return kUnaryRows[static_cast<size_t>(fn)];
}

std::string_view binary_name(BinaryFn fn) {
  return kBinaryRows[static_cast<size_t>(fn)].name;
}
Domain binary_domain(BinaryFn fn) {
  return kBinaryRows[static_cast<size_t>(fn)].domain;
}

double apply_unary(UnaryFn fn, double alpha, double beta, double x) {
  return formulas::unary(fn, alpha, beta, x);
}
double apply_binary(BinaryFn fn, double x, double y) {
  return formulas::binary(fn, x, y);
}
int unary_reads(UnaryFn fn) {
  return formulas::unary(fn, 1, 1, formulas::Reads(1)).count;
}
int binary_reads(BinaryFn fn) {
  return std::max(formulas::binary(fn, formulas::Reads(1), formulas::Reads(0)).count,
                  formulas::binary(fn, formulas::Reads(0), formulas::Reads(1)).count);
}

// --- refusals ------------------------------------------------------------------------------------------------------

namespace {
constexpr std::string_view kNotePrefix = "limitation: ";

struct RefusalRow {
  Refusal reason;
  std::string_view code, meaning;
};
constexpr RefusalRow kRefusals[] = {
#define X(enumerator, code, meaning) {Refusal::enumerator, code, meaning},
    TCC_GRAPH_REFUSALS(X)
#undef X
};
}  // namespace

std::string_view refusal_code(Refusal reason) {
  return kRefusals[static_cast<size_t>(reason)].code;
}
std::string_view refusal_meaning(Refusal reason) {
  return kRefusals[static_cast<size_t>(reason)].meaning;
}

tl::unexpected<Error> refusal(Refusal reason, std::string message, std::string hint, std::vector<std::string> notes) {
  notes.push_back(fmt::format("{}{} ({})", kNotePrefix, refusal_code(reason), refusal_meaning(reason)));
  return make_error(ErrorClass::kInput, std::move(message), std::move(hint), std::move(notes));
}

std::optional<Refusal> refusal_of(const Error& error) {
  if (error.notes.empty() || !error.notes.back().starts_with(kNotePrefix)) return std::nullopt;
  std::string_view code = std::string_view(error.notes.back()).substr(kNotePrefix.size());
  code = code.substr(0, code.find(' '));
  for (const RefusalRow& row : kRefusals)
    if (code == row.code) return row.reason;
  return std::nullopt;
}

}  // namespace tcc::graph
