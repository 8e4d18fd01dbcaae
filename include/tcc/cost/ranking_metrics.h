// How well scores rank measured programs: the metrics of TenSet, TLP, TCL and Pruner.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tcc::cost {

// The measured programs of one task. seconds.size() == scores.size(); seconds that are not positive and finite are
// those of failures and count as never chosen.
struct RankedTask {
  std::span<const double> seconds;
  std::span<const float> scores;  // higher is expected to be faster
  double weight = 1;              // times that the networks run the task
};

// Top-k (TenSet 2021, section 4; TLP eq. 5; TCL eq. 13): sum of weight * best seconds over sum of weight * the best
// seconds among the k programs of highest score, both over all tasks: a ratio of sums, not a mean of ratios. In (0, 1];
// programs of equal scores keep their order. Tasks without a measured program are left out; 0 where all are. A choice
// of failures only counts as the slowest program that runs; TenSet's code counts it as 1e5 times the best seconds,
// which makes one such task outweigh all others.
double top_k(std::span<const RankedTask> tasks, int64_t k);

// Best-k (Pruner, section 5.1) of a chosen set: sum of weight * best seconds over sum of weight * the k-th best seconds
// inside the set. `chosen`: for each task the numbers of its programs. 0 where a set holds fewer than k programs.
double best_k(std::span<const RankedTask> tasks, std::span<const std::vector<int64_t>> chosen, int64_t k);

// Share of pairs of programs of one task whose scores are in the order of their speeds, over all tasks: pairs of equal
// seconds do not count, equal scores count half. 0.5 is a guess.
double pair_accuracy(std::span<const RankedTask> tasks);

}  // namespace tcc::cost
