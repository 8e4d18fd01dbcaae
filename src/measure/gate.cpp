#include "measure/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tcc/interp/tensor.h"

namespace tcc::measure {
namespace {

// The error of one element as a share of what is allowed; infinity when it cannot be right.
double error_share(const OutputRule& rule, double actual, double reference, double scale) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  double expected = interp::round_to_type(reference, rule.type);
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
  std::string text = fmt::format("is {:.9g}, not {:.9g}", actual, interp::round_to_type(reference, rule.type));
  if (actual != actual) return text + " (NaN: not written, or made from what was not written)";
  if (rule.equal || !ir::is_float(rule.type)) return text + " (must be equal)";
  double allowed = rule.relative * std::fabs(reference) + rule.scaled * scale + rule.floor;
  return text + fmt::format(" (error {:.3g}, allowed {:.3g})", std::fabs(actual - reference), allowed);
}

// The largest share of a block of f32 elements that are all in order, without a branch, so that it becomes vector code.
// Infinity when any is not, or might not be: the block is then looked at one by one.
constexpr int64_t kBlock = 256;
double plain_block(const OutputRule& rule, const float* actual, const double* reference, const double* scale,
                   int64_t count) {
  double most = 0;
  bool odd = false;
  for (int64_t i = 0; i < count; ++i) {
    double x = static_cast<double>(actual[i]), ref = reference[i];
    double allowed = rule.relative * std::fabs(ref) + rule.scaled * (scale ? scale[i] : rule.scale_all) + rule.floor;
    double difference = std::fabs(x - ref);
    most = std::max(most, difference / allowed);
    // Written so that NaN is odd. What rounds to infinity is far beyond the largest number compared with here.
    odd |= !(difference <= allowed) | !(std::fabs(ref) < 1e30) | !(std::fabs(x) < 1e30);
  }
  return odd ? std::numeric_limits<double>::infinity() : most;
}
bool equal_block(const float* actual, const double* reference, int64_t count) {
  bool odd = false;
  for (int64_t i = 0; i < count; ++i)
    odd |= !(actual[i] == static_cast<float>(reference[i])) | !(std::fabs(reference[i]) < 1e30);
  return !odd;
}

}  // namespace

GateResult compare_output(const OutputRule& rule, const void* actual, std::span<const double> reference,
                          std::span<const int64_t> positions) {
  GateResult result;
  auto compare = [&](int64_t i) {
    int64_t element = positions.empty() ? i : positions[static_cast<size_t>(i)];
    double x = interp::load_number(rule.type, actual, element);
    double ref = reference[static_cast<size_t>(i)];
    double scale = rule.scale_each ? rule.scale_each[i] : rule.scale_all;
    double share = error_share(rule, x, ref, scale);
    if (share > 1 && result.bad++ == 0) result.text = describe(rule, x, ref, scale);
    if (share > result.max_error || result.worst < 0) {
      result.max_error = share;
      result.worst = element;
    }
  };
  auto count = static_cast<int64_t>(reference.size());
  const bool blocks = rule.type == ir::Type::kF32 && positions.empty();
  const auto* floats = static_cast<const float*>(actual);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    int64_t n = std::min(kBlock, count - begin);
    if (blocks && result.worst >= 0) {
      const double* refs = reference.data() + begin;
      const double* scales = rule.scale_each ? rule.scale_each + begin : nullptr;
      if (rule.equal && equal_block(floats + begin, refs, n)) continue;
      if (!rule.equal && plain_block(rule, floats + begin, refs, scales, n) <= result.max_error) continue;
    }
    for (int64_t i = begin; i < begin + n; ++i) compare(i);
  }
  return result;
}

int64_t find_unwritten(ir::Type type, const void* actual, int64_t elements, uint8_t poison) {
  if (!ir::is_float(type)) return -1;
  const int64_t size = ir::type_bytes(type);
  const std::array<uint8_t, 8> pattern = {poison, poison, poison, poison, poison, poison, poison, poison};
  const auto* bytes = static_cast<const char*>(actual);
  // Nearly all elements begin with another byte; the call is for the few that do not.
  for (int64_t i = 0; i < elements; ++i)
    if (static_cast<uint8_t>(bytes[i * size]) == poison &&
        std::memcmp(bytes + i * size, pattern.data(), static_cast<size_t>(size)) == 0)
      return i;
  return -1;
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
