#include "measure/verdict.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "measure/timing.h"
#include "tcc/support/check.h"

namespace tcc::measure {
namespace {

constexpr double kPairedConfidence = 0.99;

std::string parameter_text(ir::BufferRole role, ir::Type type, const std::vector<int64_t>& shape) {
  return fmt::format("{} {}[{}]", ir::buffer_role_name(role), ir::type_name(type), fmt::join(shape, ","));
}

}  // namespace

std::string buffer_text(int64_t index, const codegen::Artifact& artifact) {
  int64_t params = 0;
  for (const codegen::BufferInfo& info : artifact.buffers) params += info.role != ir::BufferRole::kTemp;
  return index < params ? fmt::format("parameter {}", index) : fmt::format("workspace {}", index - params);
}

void read_samples(const WorkerResult& result, Measurement& m) {
  auto count = static_cast<size_t>(std::clamp<int64_t>(result.num_samples, 0, kMaxSamples));
  TCC_CHECK(count > 0, "a child finished timing without samples");
  m.samples.assign(result.samples.begin(), result.samples.begin() + static_cast<int64_t>(count));
  std::vector<double> sorted = m.samples;
  std::sort(sorted.begin(), sorted.end());
  Interval interval = median_interval(sorted);
  m.median = interval.median;
  m.low = interval.low;
  m.high = interval.high;
  m.disturbed = result.disturbed != 0;
  if (m.disturbed) {
    m.median = sorted[(count - 1) / 10];
    m.low = sorted.front();
    m.high = std::max(m.median, interval.median);
  }
  m.repeats = result.repeats;
  m.dropped = result.dropped;
  m.converged = result.converged != 0;
  m.cut_short = result.cut_short != 0;
  m.calibration = result.calibration;
  m.device_seconds = result.device_seconds;
  if (result.has_counts != 0) m.counts = result.counts;
}

void disqualify(Measurement& m, const Measurement& second) {
  m.status = second.status;
  m.failure = second.failure;
  m.max_error = std::max(m.max_error, second.max_error);
  m.where = second.where;
  m.gate.clear();
  m.samples.clear();
  m.median = m.low = m.high = 0;
  m.converged = m.cut_short = m.disturbed = false;
  m.dropped = m.repeats = 0;
  m.device_seconds = 0;
  m.counts = {};
}

std::string constant_layouts(const codegen::Artifact& artifact) {
  std::string text;
  for (size_t i = 0; i < artifact.buffers.size(); ++i) {
    const codegen::BufferInfo& info = artifact.buffers[i];
    if (info.role == ir::BufferRole::kWeight && !info.layout.empty()) text += fmt::format("{} {}\n", i, info.layout);
  }
  return text;
}

std::string parameter_mismatch(const codegen::Artifact& artifact, const TaskDescription& task) {
  size_t params = 0;
  for (const codegen::BufferInfo& info : artifact.buffers) {
    if (info.role == ir::BufferRole::kTemp) continue;
    if (params >= task.params.size()) return "more parameters than the task has";
    const TaskParam& param = task.params[params];
    if (info.role != param.role || info.type != param.type || info.shape != param.shape)
      return fmt::format("parameter {}: the task has {}, the program {}", params,
                         parameter_text(param.role, param.type, param.shape),
                         parameter_text(info.role, info.type, info.shape));
    ++params;
  }
  return params == task.params.size() ? "" : "fewer parameters than the task has";
}

void PairTally::add(const WorkerResult& result, bool swapped) {
  std::vector<double> ratios;
  for (size_t i = 0; i < static_cast<size_t>(std::clamp<int64_t>(result.num_samples, 1, kMaxSamples)); ++i) {
    double ratio = result.samples[i] / result.samples_b[i];
    ratios.push_back(swapped ? 1 / ratio : ratio);
  }
  if (all_.empty()) comparison_.low = HUGE_VAL, comparison_.high = 0;
  all_.insert(all_.end(), ratios.begin(), ratios.end());
  if (ratios.size() < static_cast<size_t>(kMinimalPairs)) a_wins_ = b_wins_ = false;
  std::sort(ratios.begin(), ratios.end());
  Interval interval = median_interval(ratios, kPairedConfidence);
  a_wins_ = a_wins_ && interval.high < 1 && interval.median <= 1 - kMinimalEffect;
  b_wins_ = b_wins_ && interval.low > 1 && interval.median >= 1 + kMinimalEffect;
  comparison_.low = std::min(comparison_.low, interval.low);
  comparison_.high = std::max(comparison_.high, interval.high);
}

PairedComparison PairTally::close() {
  std::sort(all_.begin(), all_.end());
  comparison_.ratio = median_interval(all_).median;
  comparison_.pairs = static_cast<int64_t>(all_.size());
  if (a_wins_) comparison_.winner = PairedComparison::Winner::kA;
  if (b_wins_) comparison_.winner = PairedComparison::Winner::kB;
  return comparison_;
}

}  // namespace tcc::measure
