// The place of tiles in shared memory: boxes of bulk tensor copies and matrices of warpgroups' products. For whatever
// runs such code without a device.
//
// With a swizzle of S bytes, the 16-byte pieces of rows of S bytes are permuted: bits of the address from 4 on are
// xored with those from 7 on (PTX manual, "Swizzling Modes").
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>

#include "tcc/codegen/artifact.h"

namespace tcc::emulation {

inline constexpr int64_t kSwizzleBytes = 16;  // bytes that stay together

inline int64_t swizzled(int64_t address, int64_t swizzle) {
  return swizzle > 0 ? address ^ ((address >> 7) & (swizzle / kSwizzleBytes - 1)) << 4 : address;
}

// A matrix as a product finds it (PTX manual, "Asynchronous Warpgroup Level Matrix Shared Memory Layout"). All in
// bytes.
struct MatrixTile {
  int64_t start = 0, leading = 0, stride = 0, swizzle = 0, element = 2;

  // Where an element is. row: of A, column of B; transposed: rows are contiguous.
  int64_t at(int64_t row, int64_t k, bool transposed) const {
    const int64_t wide = kSwizzleBytes / element, piece = swizzle / element;
    if (swizzle == 0)
      return start + row / 8 * stride + row % 8 * kSwizzleBytes + k / wide * leading + k % wide * element;
    return swizzled(transposed
                        ? start + row % piece * element + row / piece * leading + k % 8 * swizzle + k / 8 * stride
                        : start + row % 8 * swizzle + row / 8 * stride + k * element,
                    swizzle);
  }
  // It begins in the first row of the pattern, as the hardware takes for granted.
  bool begins_well() const { return swizzle == 0 || start % (8 * swizzle) < swizzle; }
};

// What a product of tf32 reads of a float: the low 13 bits are ignored.
inline float cut_to_tf32(float f) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(f) & 0xffffe000u);
}
// What a tensor map of TFLOAT32 makes of a float: the nearest value with 10 bits of mantissa, ties away from zero.
inline float rounded_to_tf32(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7f800000u) == 0x7f800000u) return f;  // infinities and NaN
  return cut_to_tf32(std::bit_cast<float>(bits + 0x1000u));
}
// The elements of a piece of a box that has been copied into shared memory, as the map wants them.
inline void round_piece(const codegen::TensorMap& map, void* piece) {
  if (!map.tf32) return;
  std::array<float, kSwizzleBytes / sizeof(float)> values;
  std::memcpy(values.data(), piece, kSwizzleBytes);
  for (float& f : values) f = rounded_to_tf32(f);
  std::memcpy(piece, values.data(), kSwizzleBytes);
}

inline int64_t box_bytes(const codegen::TensorMap& map) {
  return std::accumulate(map.box.begin(), map.box.end(), ir::type_bytes(map.type), std::multiplies<>());
}

// The pieces of a box whose first element has the coordinates `at` (innermost first) and whose first byte is at
// `shared`, row after row. Calls f(the piece's place in shared memory, bytes from the tensor's beginning to its first
// element, first and last of its elements that are inside of the tensor).
template <class F>
void for_pieces(const codegen::TensorMap& map, const std::array<int64_t, 5>& at, int64_t shared, F f) {
  const int64_t element = ir::type_bytes(map.type), row = map.box[0] * element, rows = box_bytes(map) / row;
  const int64_t per_piece = kSwizzleBytes / element;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t rest = r, from = 0;
    bool inside = true;
    for (size_t d = 1; d < map.box.size(); ++d) {
      const int64_t index = at[d] + rest % map.box[d];
      rest /= map.box[d];
      inside = inside && index >= 0 && index < map.dims[d];
      from += index * map.strides[d - 1];
    }
    for (int64_t p = 0; p < row / kSwizzleBytes; ++p) {
      const int64_t first = at[0] + p * per_piece;
      const int64_t begin = std::clamp<int64_t>(-first, 0, per_piece);
      const int64_t end = inside ? std::clamp<int64_t>(map.dims[0] - first, begin, per_piece) : begin;
      f(swizzled(shared + r * row + p * kSwizzleBytes, map.swizzle), from + first * element, begin, end);
    }
  }
}

}  // namespace tcc::emulation
