// Float arithmetic with the roundings of PTX, independent of the host's instructions.
#pragma once

#include <bit>
#include <cmath>

#include "emulation/ptx_code.h"
#include "tcc/interp/numbers.h"

namespace tcc::emulation {

enum class Rounding : uint8_t { kNearest, kZero, kDown, kUp };

inline float flush(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}

// p + c with the last bit sticky, so that rounding it to fewer bits is rounding the exact sum (Boldo and Melquiond,
// "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
inline double odd_sum(double p, double c) {
  const double s = p + c;
  const double back = s - p;
  const double error = (p - (s - back)) + (c - back);
  const uint64_t bits = std::bit_cast<uint64_t>(s);
  if (!(error != 0) || (bits & 1) != 0 || !std::isfinite(s)) return s;
  return std::bit_cast<double>((error > 0) == (s > 0) ? bits + 1 : bits - 1);
}

template <Rounding R>
inline float to_single(double x) {
  const float f = static_cast<float>(x);
  if constexpr (R == Rounding::kNearest) return f;
  const double back = static_cast<double>(f);
  if (!std::isfinite(x) || back == x) return f;
  if (R == Rounding::kDown || (R == Rounding::kZero && x > 0)) return back > x ? std::nextafter(f, -HUGE_VALF) : f;
  return back < x ? std::nextafter(f, HUGE_VALF) : f;
}

// Largest and smallest as PTX has them: a NaN loses, -0 is less than +0.
template <class T>
inline T real_max(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <class T>
inline T real_min(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

struct Half {
  static double value(uint16_t h) { return interp::f16_value(h); }
  static uint16_t bits(double x) { return interp::f16_bits(interp::round_f16(x)); }
};
struct Brain {
  static double value(uint16_t h) { return interp::bf16_value(h); }
  static uint16_t bits(double x) { return interp::bf16_bits(interp::round_bf16(x)); }
};

}  // namespace tcc::emulation
