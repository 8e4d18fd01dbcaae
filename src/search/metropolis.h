// The acceptance rule of annealed Metropolis-Hastings. Private to the room; a header of its own for its test.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace tcc::search {

// min(1, exp((proposed - current) / temperature)); at temperature 0 only what is no worse is accepted.
inline double acceptance(double current, double proposed, double temperature) {
  if (proposed >= current) return 1;
  return temperature > 0 ? std::exp((proposed - current) / temperature) : 0;
}

// T_0: a share of the standard deviation of the first scores, at least one. The distance between the extremes would be
// that of the worst outlier.
inline double first_temperature(std::span<const float> scores, double share) {
  double mean = 0, squares = 0;
  const auto n = static_cast<double>(scores.size());
  for (float score : scores) mean += static_cast<double>(score) / n;
  for (float score : scores) squares += std::pow(static_cast<double>(score) - mean, 2) / n;
  return share * std::sqrt(squares);
}

// T_k = T_0 g^k.
inline double temperature_at(double first, double cooling, int64_t step) {
  return first * std::pow(cooling, static_cast<double>(step));
}

}  // namespace tcc::search
