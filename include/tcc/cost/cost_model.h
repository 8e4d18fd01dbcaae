// What a program is worth before it is run. Scores are relative: within one task, higher is expected to be faster.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tcc/support/span2d.h"

namespace tcc::cost {

// One measured program. Rows and samples are given in the order of their records: models are functions of that order.
struct Samples {
  Span2D<const float> features;         // one row a sample
  std::span<const float> throughputs;   // best seconds of the task / seconds of the sample, in (0, 1]; 0 = failed
  std::span<const uint64_t> tasks;      // equal for samples of one task
  std::span<const float> weights = {};  // of the samples, above 0; empty: 1 each
  // The task whose programs will be ranked: its samples are fitted again, by what the others leave of them.
  std::optional<uint64_t> task = {};
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  // scores.size() == features.rows(). Thread-safe between updates.
  virtual void predict(Span2D<const float> features, std::span<float> scores) const = 0;
  // The same with how far the model is from sure, in the scores' unit; 0 where it cannot tell.
  virtual void predict_spread(Span2D<const float> features, std::span<float> scores, std::span<float> spreads) const;
  // Learns from all samples so far; the same samples give the same model, bit for bit.
  virtual void update(const Samples& samples) = 0;
  // False until there are enough samples (16) to say more than the prior knowledge.
  virtual bool trained() const = 0;
};

// Gradient-boosted regression trees on log2 of the throughput; before 16 samples the ranking of make_rule_model, which
// it keeps correcting afterwards. Features are rows of features::extract, or of gpu_row. A score that is higher by 1
// means twice as fast.
std::unique_ptr<CostModel> make_tree_model();
// A fixed ranking from what is known about CPUs (for rows of gpu_row, the analytical model's): vector use, register
// tile against registers, cache traffic, balance of the parallel loop. Never learns.
std::unique_ptr<CostModel> make_rule_model();
// Scores that depend on the features' bits and the seed only: the yardstick for the others.
std::unique_ptr<CostModel> make_random_model(uint64_t seed);

// Share of pairs of one task, with different throughputs, that the scores order rightly.
double pair_accuracy(std::span<const float> scores, std::span<const float> throughputs,
                     std::span<const uint64_t> tasks);

}  // namespace tcc::cost
