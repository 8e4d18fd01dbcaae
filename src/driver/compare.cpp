// Two sets of times: Mann and Whitney's rank test says whether they differ, a bootstrap says by how much. Times have
// long tails and several modes, so nothing here assumes a distribution.
#include <algorithm>
#include <cmath>

#include "tcc/driver/library.h"
#include "tcc/support/rng.h"

namespace tcc::driver {
namespace {

constexpr int kResamples = 1000;
constexpr double kLevel = 0.01, kSmallestEffect = 0.01;

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double resampled_median(const std::vector<double>& values, std::vector<double>& scratch, Rng& rng) {
  scratch.resize(values.size());
  for (double& v : scratch) v = values[static_cast<size_t>(rng.below(static_cast<int64_t>(values.size())))];
  return median_of(scratch);
}

// Two-sided, with the correction for ties.
double rank_test(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<std::pair<double, bool>> all;
  for (double v : a) all.push_back({v, true});
  for (double v : b) all.push_back({v, false});
  std::sort(all.begin(), all.end());
  const auto m = static_cast<double>(a.size()), n = static_cast<double>(b.size()), total = m + n;
  double ranks = 0, ties = 0;
  for (size_t i = 0; i < all.size();) {
    size_t end = i;
    while (end < all.size() && all[end].first == all[i].first) ++end;
    const auto equal = static_cast<double>(end - i);
    const double rank = (static_cast<double>(i) + static_cast<double>(end) + 1) / 2;
    for (; i < end; ++i) ranks += all[i].second ? rank : 0;
    ties += equal * equal * equal - equal;
  }
  const double u = ranks - m * (m + 1) / 2;
  const double variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)));
  if (!(variance > 0)) return 1;
  const double z = (std::fabs(u - m * n / 2) - 0.5) / std::sqrt(variance);
  return std::min(1.0, std::erfc(std::max(z, 0.0) / std::sqrt(2.0)));
}

}  // namespace

Comparison compare_times(const std::vector<double>& a, const std::vector<double>& b) {
  Comparison c;
  std::vector<double> x = a, y = b;
  c.median_a = median_of(x);
  c.median_b = median_of(y);
  c.ratio = c.median_b / c.median_a;
  Rng rng(1);
  std::vector<double> ratios;
  for (int i = 0; i < kResamples; ++i) {
    const double lower = resampled_median(a, x, rng);
    ratios.push_back(resampled_median(b, y, rng) / lower);
  }
  std::sort(ratios.begin(), ratios.end());
  c.low = ratios[kResamples / 40];
  c.high = ratios[kResamples - 1 - kResamples / 40];
  c.p = a.size() + b.size() > 2 ? rank_test(a, b) : 1;
  c.differs = c.p < kLevel && (c.low > 1 + kSmallestEffect || c.high < 1 - kSmallestEffect);
  return c;
}

}  // namespace tcc::driver
