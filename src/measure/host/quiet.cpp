#include "measure/host/quiet.h"

#include <time.h>

#include <algorithm>

namespace tcc::measure {
namespace {

constexpr double kFirstLookSeconds = 20e-3;

double run_chain() {
  double start = raw_seconds();
  uint64_t x = 1;
  for (int i = 0; i < 25000; ++i) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    asm volatile("" : "+r"(x));
  }
  return raw_seconds() - start;
}

// Six additions, six products and four integer additions that do not wait for each other: what a core of today begins
// in one latency of its floating-point units.
void fill_ports() {
  using Vector = float __attribute__((vector_size(16)));
  Vector zero = {}, one = {1, 1, 1, 1};
  asm volatile("" : "+x"(zero), "+x"(one));  // the compiler must not know their values
  Vector a0 = one, a1 = one, a2 = one, a3 = one, a4 = one, a5 = one;
  Vector m0 = one, m1 = one, m2 = one, m3 = one, m4 = one, m5 = one;
  uint64_t i0 = 0, i1 = 1, i2 = 2, i3 = 3;
  for (uint64_t round = 0; round < 25000; ++round) {
    a0 += zero, a1 += zero, a2 += zero, a3 += zero, a4 += zero, a5 += zero;
    m0 *= one, m1 *= one, m2 *= one, m3 *= one, m4 *= one, m5 *= one;
    i0 += round, i1 += round, i2 += round, i3 += round;
    asm volatile("" : "+x"(a0), "+x"(a1), "+x"(a2), "+x"(a3), "+x"(a4), "+x"(a5), "+r"(i0), "+r"(i1));
    asm volatile("" : "+x"(m0), "+x"(m1), "+x"(m2), "+x"(m3), "+x"(m4), "+x"(m5), "+r"(i2), "+r"(i3));
  }
}

void keep_smaller(double& best, double seen) {
  if (seen > 0 && (best == 0 || seen < best)) best = seen;
}

}  // namespace

double raw_seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void QuietTimes::learn(const QuietTimes& seen) {
  keep_smaller(chain, seen.chain);
  keep_smaller(ports, seen.ports);
}

QuietWatch::QuietWatch(const QuietTimes& best, std::function<void(void (*)())> everywhere)
    : best_(best), everywhere_(std::move(everywhere)) {
  if (best_.ports > 0) return;
  double start = raw_seconds();
  do slowdown();
  while (raw_seconds() - start < kFirstLookSeconds);
}

double QuietWatch::ports() {
  double start = raw_seconds();
  if (everywhere_)
    everywhere_(fill_ports);
  else
    fill_ports();
  return raw_seconds() - start;
}

double QuietWatch::slowdown() {
  QuietTimes seen{run_chain(), ports()};
  last_chain_ = seen.chain;
  best_.learn(seen);
  return std::max(seen.chain / best_.chain, seen.ports / best_.ports);
}

}  // namespace tcc::measure
