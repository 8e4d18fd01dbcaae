// Elements of tensors as doubles, and back with one rounding to nearest even.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tcc/ir/type.h"

namespace tcc::measure {

// Rounds to `bits` of significand with the smallest exponent `min_exponent` (of the last place, for subnormals).
inline double round_significand(double x, int bits, int min_exponent) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = std::max(std::ilogb(x) - bits + 1, min_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
}

// The nearest value of the type, as a double; overflow gives infinity. Integers saturate.
inline double round_to_type(double x, ir::Type type) {
  auto overflow = [&](double rounded, double largest) {
    return std::fabs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
  };
  auto saturate = [&](double low, double high) { return x != x ? 0 : std::fmin(std::fmax(std::trunc(x), low), high); };
  switch (type) {
    case ir::Type::kF64:
      return x;
    case ir::Type::kF32:
      return static_cast<double>(static_cast<float>(x));
    case ir::Type::kF16:
      return overflow(round_significand(x, 11, -24), 65504.0);
    case ir::Type::kBF16:
      return overflow(round_significand(x, 8, -133), 0x1.fep127);
    case ir::Type::kI8:
      return saturate(-128, 127);
    case ir::Type::kU8:
      return saturate(0, 255);
    case ir::Type::kI32:
      return saturate(-2147483648.0, 2147483647.0);
    case ir::Type::kI64:
      return std::trunc(x);
    case ir::Type::kBool:
      return x != 0 ? 1 : 0;
    case ir::Type::kBarrier:
    case ir::Type::kTensorMap:
      break;
  }
  return x;
}

inline double decode_f16(uint16_t h) {
  int exponent = (h >> 10) & 31;
  double significand = h & 1023;
  double value = exponent == 31  ? (significand != 0 ? std::numeric_limits<double>::quiet_NaN()
                                                     : std::numeric_limits<double>::infinity())
                 : exponent == 0 ? std::ldexp(significand, -24)
                                 : std::ldexp(significand + 1024, exponent - 25);
  return h & 0x8000 ? -value : value;
}
inline uint16_t encode_f16(double x) {  // x is already a value of the type
  uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  double a = std::fabs(x);
  if (a != a) return 0x7e00;
  if (std::isinf(a)) return sign | 0x7c00;
  if (a < 0x1p-14) return sign | static_cast<uint16_t>(std::ldexp(a, 24));
  int exponent = std::ilogb(a);
  return sign | static_cast<uint16_t>((exponent + 15) << 10) |
         static_cast<uint16_t>(std::ldexp(a, 10 - exponent) - 1024);
}

inline double load_number(ir::Type type, const void* data, int64_t index) {
  auto read = [&]<class T>(T value) {
    std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  };
  switch (type) {
    case ir::Type::kF64:
      return read(double{});
    case ir::Type::kF32:
      return static_cast<double>(read(float{}));
    case ir::Type::kF16:
      return decode_f16(read(uint16_t{}));
    case ir::Type::kBF16:
      return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(read(uint16_t{})) << 16));
    case ir::Type::kBool:
    case ir::Type::kU8:
      return read(uint8_t{});
    case ir::Type::kI8:
      return read(int8_t{});
    case ir::Type::kI32:
      return read(int32_t{});
    case ir::Type::kI64:
      return static_cast<double>(read(int64_t{}));
    case ir::Type::kBarrier:
    case ir::Type::kTensorMap:
      break;
  }
  return 0;
}

inline void store_number(ir::Type type, void* data, int64_t index, double x) {
  auto write = [&]<class T>(T value) {
    std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  };
  double value = round_to_type(x, type);
  switch (type) {
    case ir::Type::kF64:
      return write(value);
    case ir::Type::kF32:
      return write(static_cast<float>(value));
    case ir::Type::kF16:
      return write(encode_f16(value));
    case ir::Type::kBF16:
      return write(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
    case ir::Type::kBool:
    case ir::Type::kU8:
      return write(static_cast<uint8_t>(value));
    case ir::Type::kI8:
      return write(static_cast<int8_t>(value));
    case ir::Type::kI32:
      return write(static_cast<int32_t>(value));
    case ir::Type::kI64:
      return write(static_cast<int64_t>(value));
    case ir::Type::kBarrier:
    case ir::Type::kTensorMap:
      break;
  }
}

}  // namespace tcc::measure
