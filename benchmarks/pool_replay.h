// A search that replays: it reveals programs of a pool round by round, those that a model ranks first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tcc/cost/cost_model.h"
#include "tcc/driver/cost_models.h"

namespace tcc::benchmarks {

// The programs of a pool that a search has measured, and the others. `all` must outlive it.
class PoolReplay {
 public:
  // The seed orders the tasks.
  PoolReplay(const driver::PoolFeatures& all, uint64_t seed);

  // Tasks of which a program ran, in the order of measuring.
  std::span<const size_t> order() const { return order_; }
  // Reveals the `count` programs of group g that have the highest scores and were not revealed. A score of -infinity:
  // the program is not to be revealed.
  void reveal(size_t g, std::span<const float> scores, int64_t count);
  // `each` programs of every task, those that the model ranks first.
  void round(const cost::CostModel& model, int64_t each);
  // Hands the model all that is revealed. `next`: the task whose programs it will rank, where that is one.
  void teach(cost::CostModel& model, std::optional<uint64_t> next = {});

  // The least seconds that are revealed of group g. A task with failures only is as slow as its slowest program.
  double found(size_t g) const;

  // That of top-k: best seconds over best revealed seconds, by task weight.
  double value() const;
  // Geometric mean over the tasks of found seconds over best seconds.
  double mean_slowdown() const;

 private:
  void reveal_best(size_t g, std::span<const float> scores);

  const driver::PoolFeatures& all_;
  cost::Samples samples_;
  std::vector<size_t> groups_;  // of the samples
  std::vector<std::vector<bool>> revealed_;
  std::vector<double> best_;   // revealed seconds of each group; 0: none that ran
  std::vector<size_t> order_;  // of the tasks
};

}  // namespace tcc::benchmarks
