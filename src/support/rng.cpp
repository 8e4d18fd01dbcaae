#include "tcc/support/rng.h"

#include <cmath>

namespace tcc {

double Rng::normal() {
  double u = 1.0 - uniform(), v = uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

int64_t Rng::weighted(std::span<const double> weights) {
  double total = 0;
  for (double w : weights) total += w;
  double x = uniform() * total;
  int64_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = static_cast<int64_t>(i);
    x -= weights[i];
    if (x < 0) return last;
  }
  return last;
}

}  // namespace tcc
