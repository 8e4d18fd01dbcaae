// How well scores order programs.
#pragma once

#include <cstdint>
#include <span>

namespace tcc::test {

// Share of pairs of one task, with different throughputs, that the scores order rightly; equal scores count half.
inline double pair_accuracy(std::span<const float> scores, std::span<const float> throughputs,
                            std::span<const uint64_t> tasks) {
  double right = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    for (size_t j = i + 1; j < scores.size(); ++j) {
      if (tasks[i] != tasks[j] || throughputs[i] == throughputs[j]) continue;
      ++pairs;
      if (scores[i] == scores[j])
        right += 0.5;
      else
        right += (scores[i] < scores[j]) == (throughputs[i] < throughputs[j]) ? 1 : 0;
    }
  return pairs == 0 ? 0.5 : right / pairs;
}

}  // namespace tcc::test
