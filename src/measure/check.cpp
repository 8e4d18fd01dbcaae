#include "measure/check.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "measure/gate.h"
#include "measure/reference_kernels.h"

namespace tcc::measure {
namespace {

GateResult compare(const TaskDescription& task, const TaskParam& param, const std::byte* data, int64_t set,
                   const std::byte* actual, bool equal) {
  const TaskParam::Set& from = param.sets[static_cast<size_t>(set)];
  OutputRule rule{param.type};
  rule.equal = equal;
  rule.relative = 2 * std::ldexp(1.0, -float_format(param.type).significand);
  rule.scaled = task.scaled;
  rule.scale_each = from.scale >= 0 ? reinterpret_cast<const double*>(data + from.scale) : nullptr;
  rule.scale_all = from.scale_all;
  rule.floor = float_format(param.type).smallest_normal;
  rule.integer_slack = task.has_float ? 1 : 0;
  auto* reference = reinterpret_cast<const double*>(data + from.reference);
  std::span<const int64_t> positions;
  if (param.num_samples > 0)
    positions = {reinterpret_cast<const int64_t*>(data + param.samples), static_cast<size_t>(param.num_samples)};
  GateResult gate = compare_output(rule, actual, {reference, static_cast<size_t>(param.references())}, positions);
  if (int64_t at = positions.empty() ? -1 : find_unwritten(param.type, actual, param.elements(), poison_of(set));
      at >= 0 && gate.bad == 0) {
    gate.bad = 1;
    gate.worst = at;
    gate.max_error = std::numeric_limits<double>::infinity();
    gate.text = "was not written";
  }
  return gate;
}

}  // namespace

bool outputs_are_right(const TaskDescription& task, const std::byte* data, int64_t set, const LogicalOutput& output,
                       WorkerResult& result) {
  std::vector<std::byte> scratch;
  const bool equal = task.exact && set == 0;
  for (size_t i = 0; i < task.params.size(); ++i) {
    const TaskParam& param = task.params[i];
    if (!param.is_output()) continue;
    GateResult gate = compare(task, param, data, set, output(i, scratch), equal);
    if (gate.worst >= 0 && gate.max_error >= result.max_error) {
      result.max_error = gate.max_error;
      set_text(result.where, fmt::format("parameter {} {}", i, place_text(gate.worst, param.shape)));
    }
    if (gate.bad == 0) continue;
    result.status = ChildStatus::kWrong;
    set_text(result.text, fmt::format("{} of {} elements of parameter {} are wrong on {} data; the worst, {}, {}",
                                      gate.bad, param.references(), i, equal ? "integer" : "real",
                                      place_text(gate.worst, param.shape), gate.text));
    return false;
  }
  return true;
}

bool margins_are_intact(int64_t damaged, WorkerResult& result) {
  if (damaged < 0) return true;
  result.status = ChildStatus::kWrong;
  set_text(result.text, fmt::format("writes beside buffer {}", damaged));
  return false;
}

}  // namespace tcc::measure
