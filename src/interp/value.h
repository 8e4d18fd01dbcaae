// Rounding of values to element types, and elements in memory. Values of float types are doubles that the type holds
// exactly; integers and bool are int64.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tcc/interp/numbers.h"
#include "tcc/ir/integer_range.h"

namespace tcc::interp {

inline double round_to(ir::Type type, double x) {
  if (type == ir::Type::kF32) return round_f32(x);
  if (type == ir::Type::kF16) return round_f16(x);
  if (type == ir::Type::kBF16) return round_bf16(x);
  return x;
}
inline int64_t wrap_to(ir::Type type, int64_t v) {
  if (type == ir::Type::kBool) return v != 0;
  if (!ir::is_integer(type)) return v;
  const auto [low, high] = ir::integer_range(type);
  // The number of values is a power of two.
  const uint64_t first = static_cast<uint64_t>(low), mask = static_cast<uint64_t>(high) - first;
  return static_cast<int64_t>(first + ((static_cast<uint64_t>(v) - first) & mask));
}
// Towards zero, saturating; NaN gives 0.
inline int64_t saturate_to(ir::Type type, double x) {
  if (std::isnan(x)) return 0;
  if (type == ir::Type::kBool) return x != 0;
  const auto [low, high] = ir::integer_range(type);
  // The greatest i64 becomes 2^63 in double, which no i64 reaches.
  if (x >= static_cast<double>(high)) return high;
  if (x <= static_cast<double>(low)) return low;
  return static_cast<int64_t>(x);
}

union Reg {
  int64_t i;
  double f;
};

inline Reg load_element(ir::Type type, const std::byte* data, int64_t index) {
  const auto element = [&]<class T>(T) { return reinterpret_cast<const T*>(data)[index]; };
  switch (type) {
    case ir::Type::kBool:
    case ir::Type::kU8:
      return {.i = element(uint8_t{})};
    case ir::Type::kI8:
      return {.i = element(int8_t{})};
    case ir::Type::kI16:
      return {.i = element(int16_t{})};
    case ir::Type::kU16:
      return {.i = element(uint16_t{})};
    case ir::Type::kI32:
      return {.i = element(int32_t{})};
    case ir::Type::kI64:
    case ir::Type::kBarrier:
      return {.i = element(int64_t{})};
    case ir::Type::kF16:
      return {.f = f16_value(element(uint16_t{}))};
    case ir::Type::kBF16:
      return {.f = bf16_value(element(uint16_t{}))};
    case ir::Type::kF32:
      return {.f = static_cast<double>(element(float{}))};
    case ir::Type::kF64:
      return {.f = element(double{})};
    case ir::Type::kTensorMap:
      break;
  }
  return {.i = 0};
}
inline void store_element(ir::Type type, std::byte* data, int64_t index, Reg r) {
  switch (type) {
    case ir::Type::kBool:
    case ir::Type::kU8:
    case ir::Type::kI8:
      reinterpret_cast<uint8_t*>(data)[index] = static_cast<uint8_t>(r.i);
      return;
    case ir::Type::kI16:
    case ir::Type::kU16:
      reinterpret_cast<uint16_t*>(data)[index] = static_cast<uint16_t>(r.i);
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
