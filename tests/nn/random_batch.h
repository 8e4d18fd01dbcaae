// Random inputs of a network.
#pragma once

#include <vector>

#include "tcc/nn/model.h"
#include "tcc/support/rng.h"

namespace tcc::nn {

struct RandomRows {
  std::vector<float> rows;
  std::vector<int64_t> offsets{0};
  int64_t width = 0;

  // A sample has from `least` to `most` rows.
  RandomRows(int64_t samples, int64_t columns, int64_t least, int64_t most, Rng rng) : width(columns) {
    for (int64_t s = 0; s < samples; ++s) offsets.push_back(offsets.back() + least + rng.below(most - least + 1));
    for (int64_t i = 0; i < offsets.back() * width; ++i) rows.push_back(static_cast<float>(2 * rng.uniform() - 1));
  }
  RowInput view() const { return {rows.data(), offsets.data(), width}; }
};

struct RandomBatch {
  RandomRows statements, sequences, dataflow;
  std::vector<float> hardware;
  int64_t size;
  Config config;

  RandomBatch(const Config& c, int64_t samples, uint64_t seed, int64_t least = 0, int64_t most = 9)
      : statements(samples, c.statement_width, least, most, Rng(seed).fork(1)),
        sequences(samples, c.sequence_width, least, most, Rng(seed).fork(2)),
        dataflow(samples, c.dataflow_width, least, most, Rng(seed).fork(3)),
        size(samples),
        config(c) {
    Rng rng = Rng(seed).fork(4);
    for (int64_t i = 0; i < samples * c.hardware_width; ++i) hardware.push_back(static_cast<float>(rng.uniform()));
  }
  Batch view(int64_t first, int64_t count) const {
    Batch b{.size = count, .statements = statements.view(), .sequences = sequences.view(), .dataflow = dataflow.view()};
    for (RowInput* in : {&b.statements, &b.sequences, &b.dataflow}) in->offsets += first;
    if (config.hardware_width > 0) b.hardware = hardware.data() + first * config.hardware_width;
    b.hardware_width = config.hardware_width;
    return b;
  }
  Batch view() const { return view(0, size); }
};

inline std::vector<Level> host_levels() {
  std::vector<Level> out;
  for (Level level : {Level::kV2, Level::kV3, Level::kV4})
    if (host_has(level)) out.push_back(level);
  return out;
}

}  // namespace tcc::nn
