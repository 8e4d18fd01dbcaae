#include "sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace tcc::schedule {
namespace {

struct PrimePower {
  int64_t prime;
  int exponent;
};
// Factors of n; at most 15 distinct primes fit into 63 bits.
int factorise(int64_t n, std::array<PrimePower, 16>& out) {
  int count = 0;
  for (int64_t p = 2; p * p <= n; p += p == 2 ? 1 : 2) {
    int e = 0;
    while (n % p == 0) n /= p, ++e;
    if (e > 0) out[static_cast<size_t>(count++)] = {p, e};
  }
  if (n > 1) out[static_cast<size_t>(count++)] = {n, 1};
  return count;
}

// Uniform weak composition of p into parts.size() parts: cut points among p + n - 1 places (stars and bars).
void draw_composition(int p, Rng& rng, std::span<int> parts) {
  int n = static_cast<int>(parts.size()), places = p + n - 1, bars = n - 1, stars_seen = 0;
  size_t part = 0;
  std::fill(parts.begin(), parts.end(), 0);
  for (int i = 0; i < places; ++i) {
    // Selection sampling: the place is a bar with probability bars left / places left.
    if (rng.below(places - i) < bars) {
      --bars;
      ++part;
    } else {
      ++parts[part];
      ++stars_seen;
    }
  }
}

}  // namespace

void draw_perfect_tile(int64_t extent, int64_t max_innermost, Rng& rng, std::span<int64_t> out) {
  std::array<PrimePower, 16> primes;
  int count = factorise(extent, primes);
  std::array<int, 16> parts_buffer;
  std::vector<int> heap;
  std::span<int> parts(parts_buffer.data(), std::min<size_t>(out.size(), parts_buffer.size()));
  if (out.size() > parts_buffer.size()) heap.resize(out.size()), parts = heap;
  do {
    std::fill(out.begin(), out.end(), 1);
    for (int i = 0; i < count; ++i) {
      const PrimePower& pp = primes[static_cast<size_t>(i)];
      draw_composition(pp.exponent, rng, parts);
      for (size_t j = 0; j < out.size(); ++j)
        for (int e = 0; e < parts[j]; ++e) out[j] *= pp.prime;
    }
    // With one part there is nothing to redraw.
  } while (out.size() > 1 && out.back() > max_innermost);
}

void repair_perfect_tile(int64_t extent, std::span<int64_t> factors) {
  int64_t rest = extent;
  for (size_t i = factors.size(); i-- > 1;) {
    int64_t f = factors[i];
    if (f < 1 || rest % f != 0) f = rest;
    factors[i] = f;
    rest /= f;
  }
  factors[0] = rest;
}

void draw_tile(int64_t extent, int64_t max_innermost, int64_t multiple, Rng& rng, std::span<int64_t> out) {
  int64_t rest = extent;
  auto log_uniform = [&](int64_t high) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::exp(rng.uniform() * std::log(static_cast<double>(high) + 1))),
                               1, high);
  };
  for (size_t i = out.size(); i-- > 1;) {
    bool last = i + 1 == out.size();
    int64_t high = last ? std::min(rest, max_innermost) : rest;
    int64_t f = log_uniform(std::max<int64_t>(high, 1));
    if (last && multiple > 1 && high >= multiple) f = std::max(multiple, f / multiple * multiple);
    out[i] = f;
    rest = (rest + f - 1) / f;
  }
  out[0] = rest;
}

int64_t draw_tail(int64_t modes, Rng& rng) {
  int64_t pick = rng.below(std::popcount(static_cast<uint64_t>(modes)));
  for (int64_t mode = 0;; ++mode)
    if ((modes >> mode & 1) != 0 && pick-- == 0) return mode;
}

void repair_tile(int64_t extent, std::span<int64_t> factors) {
  int64_t product = 1;
  for (size_t i = factors.size(); i-- > 1;) {
    factors[i] = std::clamp<int64_t>(factors[i], 1, std::max<int64_t>((extent + product - 1) / product, 1));
    product *= factors[i];
  }
  factors[0] = (extent + product - 1) / product;
}

}  // namespace tcc::schedule
