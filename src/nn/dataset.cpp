#include "tcc/nn/dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tcc/support/check.h"

namespace tcc::nn {

void Samples::Input::add(std::span<const float> values) {
  if (width > 0) {
    TCC_CHECK(static_cast<int64_t>(values.size()) % width == 0, "{} values are not rows of {}", values.size(), width);
    rows.insert(rows.end(), values.begin(), values.end());
  }
  offsets.push_back(width > 0 ? static_cast<int64_t>(rows.size()) / width : 0);
}

std::span<const float> Samples::Input::of(int64_t sample) const {
  const int64_t first = offsets[static_cast<size_t>(sample)], last = offsets[static_cast<size_t>(sample) + 1];
  return {rows.data() + first * width, static_cast<size_t>((last - first) * width)};
}

Samples::Samples(const Config& config) : heads_(config.heads) {
  statements_.width = config.statement_width;
  sequences_.width = config.sequence_width;
  dataflow_.width = config.dataflow_width;
  hardware_.width = config.hardware_width;
}

void Samples::add(const SampleRows& rows, std::span<const float> labels, uint64_t task) {
  TCC_CHECK(labels.empty() || static_cast<int64_t>(labels.size()) == heads_, "{} labels for {} heads", labels.size(),
            heads_);
  TCC_CHECK(hardware_.width == 0 || static_cast<int64_t>(rows.hardware.size()) == hardware_.width,
            "a hardware row of {} columns, not {}", hardware_.width, rows.hardware.size());
  statements_.add(rows.statements);
  sequences_.add(rows.sequences);
  dataflow_.add(rows.dataflow);
  hardware_.add(rows.hardware);
  labels_.insert(labels_.end(), labels.begin(), labels.end());
  if (labels.empty())
    labels_.insert(labels_.end(), static_cast<size_t>(heads_), std::numeric_limits<float>::quiet_NaN());
  tasks_.push_back(task);
}

void Samples::clear() {
  for (Input* in : {&statements_, &sequences_, &dataflow_, &hardware_}) {
    in->rows.clear();
    in->offsets.assign(1, 0);
  }
  labels_.clear();
  tasks_.clear();
}

SampleRows Samples::rows(int64_t i) const {
  return {statements_.of(i), sequences_.of(i), dataflow_.of(i), hardware_.of(i)};
}

void Samples::gather(std::span<const int64_t> indices, Samples& out) const {
  out.clear();
  const auto heads = static_cast<size_t>(heads_);
  for (int64_t i : indices)
    out.add(rows(i), std::span(labels_).subspan(static_cast<size_t>(i) * heads, heads), tasks_[static_cast<size_t>(i)]);
}

Samples Samples::empty_like() const {
  Samples out = Samples(Config{.statement_width = statements_.width,
                               .sequence_width = sequences_.width,
                               .dataflow_width = dataflow_.width,
                               .hardware_width = hardware_.width,
                               .heads = heads_});
  return out;
}

Batch Samples::batch() const {
  auto view = [](const Input& in) { return RowInput{in.rows.data(), in.offsets.data(), in.width}; };
  return {.size = size(),
          .statements = view(statements_),
          .sequences = view(sequences_),
          .dataflow = view(dataflow_),
          .hardware = hardware_.width > 0 ? hardware_.rows.data() : nullptr,
          .hardware_width = hardware_.width};
}

InputScale input_scale(const Dataset& data) {
  InputScale out;
  Samples part = data.empty_like();
  std::vector<int64_t> indices(256);
  auto widen = [](std::vector<float>& most, const RowInput& in, int64_t size) {
    most.resize(static_cast<size_t>(in.width));
    for (int64_t r = in.offsets[0]; r < in.offsets[size]; ++r)
      for (int64_t c = 0; c < in.width; ++c) {
        const float v = std::fabs(in.rows[r * in.width + c]);
        if (std::isfinite(v)) most[static_cast<size_t>(c)] = std::max(most[static_cast<size_t>(c)], v);
      }
  };
  for (int64_t first = 0; first < data.size(); first += 256) {
    indices.resize(static_cast<size_t>(std::min<int64_t>(256, data.size() - first)));
    std::iota(indices.begin(), indices.end(), first);
    data.gather(indices, part);
    const Batch b = part.batch();
    widen(out.statements, b.statements, b.size);
    widen(out.sequences, b.sequences, b.size);
    widen(out.dataflow, b.dataflow, b.size);
  }
  for (std::vector<float>* scale : {&out.statements, &out.sequences, &out.dataflow})
    for (float& v : *scale) v = v > 0 ? 1 / v : 1;
  return out;
}

}  // namespace tcc::nn
