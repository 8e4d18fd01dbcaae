// The one source of randomness. Deterministic across platforms; fork(n) gives an independent generator, so
// proposal n of a round draws the same numbers whichever thread makes it.
#pragma once

#include <cstdint>
#include <span>

#include "tcc/support/hash.h"

namespace tcc {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(mix_hash(seed)) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ull;
    uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  // Uniform in [0, n), n > 0 (Lemire's multiply-shift; the bias is below n / 2^64).
  int64_t below(int64_t n) {
    return static_cast<int64_t>((static_cast<unsigned __int128>(next()) * static_cast<uint64_t>(n)) >> 64);
  }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Standard normal (Box-Muller, one value per call).
  double normal();
  // Index drawn with the given non-negative weights (not all zero).
  int64_t weighted(std::span<const double> weights);

  Rng fork(uint64_t n) const { return Rng(combine_hash(state_, n)); }
  uint64_t state() const { return state_; }

 private:
  uint64_t state_;
};

}  // namespace tcc
