#include "tcc/cost/ranking_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tcc/support/check.h"

namespace tcc::cost {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double valid(double seconds) {
  return seconds > 0 && std::isfinite(seconds) ? seconds : kNever;
}

double best_of(const RankedTask& task) {
  double best = kNever;
  for (double s : task.seconds) best = std::min(best, valid(s));
  return best;
}

}  // namespace

double top_k(std::span<const RankedTask> tasks, int64_t k) {
  TCC_CHECK(k > 0, "top-{}", k);
  double least = 0, found = 0;
  for (const RankedTask& task : tasks) {
    TCC_CHECK(task.seconds.size() == task.scores.size(), "{} seconds, {} scores", task.seconds.size(),
              task.scores.size());
    const double best = best_of(task);
    if (best == kNever) continue;
    std::vector<size_t> order(task.scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return task.scores[x] > task.scores[y]; });
    double chosen = kNever, slowest = best;
    for (size_t i = 0; i < order.size(); ++i) {
      const double seconds = valid(task.seconds[order[i]]);
      if (static_cast<int64_t>(i) < k) chosen = std::min(chosen, seconds);
      if (seconds != kNever) slowest = std::max(slowest, seconds);
    }
    least += task.weight * best;
    // A choice of failures only is as bad as the slowest program that runs.
    found += task.weight * std::min(chosen, slowest);
  }
  return found > 0 ? least / found : 0;
}

double best_k(std::span<const RankedTask> tasks, std::span<const std::vector<int64_t>> chosen, int64_t k) {
  TCC_CHECK(k > 0 && tasks.size() == chosen.size(), "best-{} of {} sets for {} tasks", k, chosen.size(), tasks.size());
  double least = 0, found = 0;
  for (size_t t = 0; t < tasks.size(); ++t) {
    const double best = best_of(tasks[t]);
    if (best == kNever) continue;
    std::vector<double> seconds;
    for (int64_t i : chosen[t]) seconds.push_back(valid(tasks[t].seconds[static_cast<size_t>(i)]));
    if (std::ssize(seconds) < k) return 0;
    std::nth_element(seconds.begin(), seconds.begin() + (k - 1), seconds.end());
    const double kth = seconds[static_cast<size_t>(k - 1)];
    if (kth == kNever) return 0;
    least += tasks[t].weight * best;
    found += tasks[t].weight * kth;
  }
  return found > 0 ? least / found : 0;
}

double pair_accuracy(std::span<const RankedTask> tasks) {
  double right = 0, all = 0;
  for (const RankedTask& task : tasks)
    for (size_t i = 0; i < task.seconds.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const double x = valid(task.seconds[i]), y = valid(task.seconds[j]);
        if (x == y) continue;
        all += 1;
        if (task.scores[i] == task.scores[j])
          right += 0.5;
        else
          right += (x < y) == (task.scores[i] > task.scores[j]) ? 1 : 0;
      }
  return all > 0 ? right / all : 0.5;
}

}  // namespace tcc::cost
