// Rounding of values to element types, and elements in memory. Values of float types are doubles that the type holds
// exactly; integers and bool are int64.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tcc/ir/type.h"

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

inline double round_to(ir::Type type, double x) {
  switch (type) {
    case ir::Type::kF32:
      return round_f32(x);
    case ir::Type::kF16:
      return round_f16(x);
    case ir::Type::kBF16:
      return round_bf16(x);
    case ir::Type::kF64:
    case ir::Type::kBool:
    case ir::Type::kI8:
    case ir::Type::kU8:
    case ir::Type::kI32:
    case ir::Type::kI64:
    case ir::Type::kBarrier:
    case ir::Type::kTensorMap:
      return x;
  }
  return x;
}
inline int64_t wrap_to(ir::Type type, int64_t v) {
  switch (type) {
    case ir::Type::kI8:
      return static_cast<int8_t>(v);
    case ir::Type::kU8:
      return static_cast<uint8_t>(v);
    case ir::Type::kI32:
      return static_cast<int32_t>(v);
    case ir::Type::kBool:
      return v != 0;
    case ir::Type::kI64:
    case ir::Type::kF16:
    case ir::Type::kBF16:
    case ir::Type::kF32:
    case ir::Type::kF64:
    case ir::Type::kBarrier:
    case ir::Type::kTensorMap:
      return v;
  }
  return v;
}
// Towards zero, saturating; NaN gives 0.
inline int64_t saturate_to(ir::Type type, double x) {
  if (std::isnan(x)) return 0;
  if (type == ir::Type::kBool) return x != 0;
  double low = -0x1p63, high = 0x1p63;
  if (type == ir::Type::kI8) low = -128, high = 127;
  if (type == ir::Type::kU8) low = 0, high = 255;
  if (type == ir::Type::kI32) low = -0x1p31, high = 0x1p31 - 1;
  if (x >= high) return type == ir::Type::kI64 ? INT64_MAX : static_cast<int64_t>(high);
  if (x <= low) return type == ir::Type::kI64 ? INT64_MIN : static_cast<int64_t>(low);
  return static_cast<int64_t>(x);
}

union Reg {
  int64_t i;
  double f;
};

inline Reg load_element(ir::Type type, const std::byte* data, int64_t index) {
  Reg r;
  switch (type) {
    case ir::Type::kBool:
    case ir::Type::kU8:
      r.i = reinterpret_cast<const uint8_t*>(data)[index];
      return r;
    case ir::Type::kI8:
      r.i = reinterpret_cast<const int8_t*>(data)[index];
      return r;
    case ir::Type::kI32:
      r.i = reinterpret_cast<const int32_t*>(data)[index];
      return r;
    case ir::Type::kI64:
    case ir::Type::kBarrier:
      r.i = reinterpret_cast<const int64_t*>(data)[index];
      return r;
    case ir::Type::kF16:
      r.f = f16_value(reinterpret_cast<const uint16_t*>(data)[index]);
      return r;
    case ir::Type::kBF16:
      r.f = bf16_value(reinterpret_cast<const uint16_t*>(data)[index]);
      return r;
    case ir::Type::kF32:
      r.f = static_cast<double>(reinterpret_cast<const float*>(data)[index]);
      return r;
    case ir::Type::kF64:
      r.f = reinterpret_cast<const double*>(data)[index];
      return r;
    case ir::Type::kTensorMap:
      r.i = 0;
      return r;
  }
  r.i = 0;
  return r;
}
inline void store_element(ir::Type type, std::byte* data, int64_t index, Reg r) {
  switch (type) {
    case ir::Type::kBool:
    case ir::Type::kU8:
    case ir::Type::kI8:
      reinterpret_cast<uint8_t*>(data)[index] = static_cast<uint8_t>(r.i);
      return;
    case ir::Type::kI32:
      reinterpret_cast<int32_t*>(data)[index] = static_cast<int32_t>(r.i);
      return;
    case ir::Type::kI64:
    case ir::Type::kBarrier:
      reinterpret_cast<int64_t*>(data)[index] = r.i;
      return;
    case ir::Type::kF16:
      reinterpret_cast<uint16_t*>(data)[index] = f16_bits(r.f);
      return;
    case ir::Type::kBF16:
      reinterpret_cast<uint16_t*>(data)[index] = bf16_bits(r.f);
      return;
    case ir::Type::kF32:
      reinterpret_cast<float*>(data)[index] = static_cast<float>(r.f);
      return;
    case ir::Type::kF64:
      reinterpret_cast<double*>(data)[index] = r.f;
      return;
    case ir::Type::kTensorMap:
      return;
  }
}

}  // namespace tcc::interp
