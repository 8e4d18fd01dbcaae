// The bound that the tests put on Winograd's rounding errors.
#pragma once

#include <algorithm>
#include <cmath>

#include "tcc/graph/winograd.h"

namespace tcc::graph {

inline double row_norm(const std::vector<double>& matrix, int64_t row, int64_t columns) {
  double sum = 0;
  for (int64_t j = 0; j < columns; ++j) sum += std::fabs(matrix[static_cast<size_t>(row * columns + j)]);
  return sum;
}

// How much larger than in the direct form the bound on partial sums can be, so how much larger the bound on the
// rounding error: the square (two axes) of
//   max over i of sum over k of |A^T_ik| (sum over j of |G_kj|) (sum over l of |B^T_kl|) / 3,
// 7.1 for m = 2 and 256 for m = 4. That is the worst case; the tests allow 4 u sqrt(9 C) amplification max|x| with
// normal weights, u the unit roundoff of f32.
inline double winograd_amplification(int64_t m) {
  const WinogradMatrices& w = winograd_matrices(m);
  double most = 0;
  for (int64_t i = 0; i < w.m; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < w.a; ++k)
      sum += std::fabs(w.at[static_cast<size_t>(i * w.a + k)]) * row_norm(w.g, k, 3) * row_norm(w.bt, k, w.a);
    most = std::max(most, sum / 3);
  }
  return most * most;
}

}  // namespace tcc::graph
