// The acceptance rule of annealed Metropolis-Hastings. Private to the room; a header of its own for its test.
#pragma once

#include <algorithm>
#include <cmath>

namespace tcc::search {

// min(1, exp((proposed - current) / temperature)); at temperature 0 only what is no worse is accepted.
inline double acceptance(double current, double proposed, double temperature) {
  if (proposed >= current) return 1;
  return temperature > 0 ? std::exp((proposed - current) / temperature) : 0;
}

// T_k = T_0 g^k.
inline double temperature_at(double first, double cooling, int64_t step) {
  return first * std::pow(cooling, static_cast<double>(step));
}

}  // namespace tcc::search
