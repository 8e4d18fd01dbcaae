// A small ranking problem: programs of several tasks whose speed is a function of a few features.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tcc/nn/dataset.h"
#include "tcc/support/rng.h"

namespace tcc::nn {

inline const Config kTinyMlp{.architecture = Architecture::kMlp, .statement_width = 12, .sequence_width = 8};

// The inputs that `config` names, from the same hidden numbers. `shift` moves the optimum: another platform.
inline Samples synthetic(const Config& config, int64_t tasks, int64_t per_task, uint64_t seed, double shift = 0) {
  Samples out(config);
  for (int64_t t = 0; t < tasks; ++t) {
    Rng rng = Rng(seed).fork(static_cast<uint64_t>(t));
    std::vector<double> seconds;
    std::vector<std::vector<float>> statements, sequences, dataflow, hardware;
    for (int64_t p = 0; p < per_task; ++p) {
      const double a = rng.uniform(), b = rng.uniform(), c = rng.uniform();
      seconds.push_back(0.2 + std::fabs(a - 0.5 - shift) + (b > 0.5 ? 0.4 * c : 0.8 * (1 - c)));
      auto rows = [&](int64_t width, int64_t count) {
        std::vector<float> r;
        for (int64_t i = 0; i < count; ++i)
          for (int64_t k = 0; k < width; ++k)
            r.push_back(static_cast<float>(k == 0 ? a : k == 1 ? b : k == 2 ? c : rng.uniform() * 0.1));
        return r;
      };
      statements.push_back(rows(config.statement_width, 1 + rng.below(3)));
      sequences.push_back(rows(config.sequence_width, 4 + rng.below(3)));
      dataflow.push_back(rows(config.dataflow_width, 6));
      hardware.push_back(rows(config.hardware_width, 1));
    }
    const double best = *std::min_element(seconds.begin(), seconds.end());
    for (size_t p = 0; p < seconds.size(); ++p) {
      const std::vector<float> labels(static_cast<size_t>(config.heads), static_cast<float>(best / seconds[p]));
      out.add({statements[p], sequences[p], dataflow[p], hardware[p]}, labels, static_cast<uint64_t>(t));
    }
  }
  return out;
}

// Share of the pairs of one task that the model orders right.
inline double pairs_right(const Model& model, const Samples& data) {
  std::vector<float> scores(static_cast<size_t>(data.size()));
  Workspace ws;
  model.predict(data.batch(), scores, ws);
  double right = 0, all = 0;
  const auto labels = data.labels();
  const auto heads = static_cast<size_t>(data.heads());
  for (size_t i = 0; i < scores.size(); ++i)
    for (size_t j = 0; j < scores.size(); ++j)
      if (data.tasks()[i] == data.tasks()[j] && labels[i * heads] > labels[j * heads]) {
        ++all;
        right += scores[i] > scores[j];
      }
  return right / all;
}

}  // namespace tcc::nn
