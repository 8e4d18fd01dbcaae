// Rounding to the narrow float types, their bits, and integers as doubles that may be rounded once more.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tcc::interp {

// Nearest even to f16, once: also of doubles that no float holds.
inline double round_f16(double x) {
  const double magnitude = std::fabs(x);
  if (!(magnitude < 65520.0)) return std::isnan(x) ? x : std::copysign(HUGE_VAL, x);
  if (magnitude < 0x1p-14) return std::nearbyint(x * 0x1p24) * 0x1p-24;
  uint64_t bits = std::bit_cast<uint64_t>(x);
  bits += 0x1ffffffffffull + ((bits >> 42) & 1);
  return std::bit_cast<double>(bits & ~0x3ffffffffffull);
}
inline double round_bf16(double x) {
  if (std::isnan(x) || std::isinf(x)) return x;
  if (std::fabs(x) < 0x1p-126) return std::nearbyint(x * 0x1p133) * 0x1p-133;
  uint64_t bits = std::bit_cast<uint64_t>(x);
  bits += 0xfffffffffffull + ((bits >> 45) & 1);
  const double rounded = std::bit_cast<double>(bits & ~0x1fffffffffffull);
  return std::fabs(rounded) >= 0x1p128 ? std::copysign(HUGE_VAL, x) : rounded;
}
inline double round_f32(double x) {
  return static_cast<double>(static_cast<float>(x));
}

// Of values the type holds exactly.
inline uint16_t f16_bits(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint16_t sign = static_cast<uint16_t>((bits >> 48) & 0x8000);
  if (std::isnan(x)) return sign | 0x7e00;
  if (std::isinf(x)) return sign | 0x7c00;
  const double magnitude = std::fabs(x);
  if (magnitude < 0x1p-14) return sign | static_cast<uint16_t>(magnitude * 0x1p24);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023 + 15;
  return static_cast<uint16_t>(sign | (exponent << 10) | ((bits >> 42) & 0x3ff));
}
inline double f16_value(uint16_t h) {
  const int exponent = (h >> 10) & 0x1f;
  const uint64_t sign = static_cast<uint64_t>(h & 0x8000) << 48;
  const uint64_t mantissa = h & 0x3ff;
  if (exponent == 0) return (sign != 0 ? -0x1p-24 : 0x1p-24) * static_cast<double>(mantissa);
  const uint64_t wide = exponent == 31 ? 0x7ff : static_cast<uint64_t>(exponent - 15 + 1023);
  return std::bit_cast<double>(sign | (wide << 52) | (mantissa << 42));
}
inline uint16_t bf16_bits(double x) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16) |
         static_cast<uint16_t>(std::isnan(x) ? 0x40 : 0);
}
inline double bf16_value(uint16_t b) {
  return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(b) << 16));
}

// An int64 as a double whose last bit is sticky, so that a second rounding to fewer bits is correct.
inline double odd_double(int64_t v) {
  const double d = static_cast<double>(v);
  if (v > -(int64_t{1} << 53) && v < (int64_t{1} << 53)) return d;
  if (d >= 0x1p63) return std::nextafter(d, 0.0);
  const int64_t back = static_cast<int64_t>(d);
  if (back == v || (std::bit_cast<uint64_t>(d) & 1) != 0) return d;
  return std::nextafter(d, back < v ? HUGE_VAL : -HUGE_VAL);
}

}  // namespace tcc::interp
