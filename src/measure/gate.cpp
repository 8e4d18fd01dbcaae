#include "measure/gate.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "measure/number.h"

namespace tcc::measure {
namespace {

// The error of one element as a share of what is allowed; infinity when it cannot be right.
double error_share(const OutputRule& rule, double actual, double reference, double scale) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  double expected = round_to_type(reference, rule.type);
  if (!ir::is_float(rule.type)) {
    double difference = std::fabs(actual - expected);
    return difference == 0 ? 0 : difference <= rule.integer_slack ? 1 : kWrong;
  }
  if (expected != expected) return actual != actual ? 0 : kWrong;
  if (std::isinf(expected) || !std::isfinite(actual)) return actual == expected ? 0 : kWrong;
  if (rule.equal) return actual == expected ? 0 : kWrong;
  double allowed = rule.relative * std::fabs(reference) + rule.scaled * scale + rule.floor;
  return std::fabs(actual - reference) / allowed;
}

std::string describe(const OutputRule& rule, double actual, double reference, double scale) {
  std::string text = fmt::format("is {:.9g}, not {:.9g}", actual, round_to_type(reference, rule.type));
  if (actual != actual) return text + " (NaN: not written, or made from what was not written)";
  if (rule.equal || !ir::is_float(rule.type)) return text + " (must be equal)";
  double allowed = rule.relative * std::fabs(reference) + rule.scaled * scale + rule.floor;
  return text + fmt::format(" (error {:.3g}, allowed {:.3g})", std::fabs(actual - reference), allowed);
}

}  // namespace

GateResult compare_output(const OutputRule& rule, const void* actual, std::span<const double> reference) {
  GateResult result;
  for (int64_t i = 0; i < static_cast<int64_t>(reference.size()); ++i) {
    double x = load_number(rule.type, actual, i);
    double ref = reference[static_cast<size_t>(i)];
    double scale = rule.scale_each ? rule.scale_each[i] : rule.scale_all;
    double share = error_share(rule, x, ref, scale);
    if (share > 1 && result.bad++ == 0) result.text = describe(rule, x, ref, scale);
    if (share > result.max_error || result.worst < 0) {
      result.max_error = share;
      result.worst = i;
    }
  }
  return result;
}

std::string place_text(int64_t element, std::span<const int64_t> shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = shape[d] > 0 ? element % shape[d] : 0;
    element /= shape[d] > 0 ? shape[d] : 1;
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace tcc::measure
