// Element types, shapes and constant data of the tensor graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::graph {

// X(enumerator, text, bytes per element)
#define TCC_GRAPH_DTYPES(X) \
  X(kF32, "f32", 4)         \
  X(kF64, "f64", 8)         \
  X(kF16, "f16", 2)         \
  X(kBF16, "bf16", 2)       \
  X(kI8, "i8", 1)           \
  X(kU8, "u8", 1)           \
  X(kI32, "i32", 4)         \
  X(kI64, "i64", 8)         \
  X(kU32, "u32", 4)         \
  X(kU64, "u64", 8)         \
  X(kBool, "bool", 1)       \
  X(kI16, "i16", 2)         \
  X(kU16, "u16", 2)

enum class DType : uint8_t {
#define X(enumerator, text, bytes) enumerator,
  TCC_GRAPH_DTYPES(X)
#undef X
};

int64_t dtype_size(DType dtype);
std::string_view dtype_name(DType dtype);
bool is_float(DType dtype);
constexpr bool is_byte(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kI8;
}
constexpr bool is_unsigned(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kU16 || dtype == DType::kU32 || dtype == DType::kU64;
}
// u32 and u64: kernels hold them in the signed type of their width, so arithmetic on them is limited to what that
// serves.
constexpr bool is_wide_unsigned(DType dtype) {
  return dtype == DType::kU32 || dtype == DType::kU64;
}

// Static extents, outermost first; a scalar has rank 0. Every extent is >= 0 and the element count fits int64.
using Shape = std::vector<int64_t>;

constexpr int64_t kMaxRank = 16;
constexpr int64_t kMaxElements = int64_t{1} << 36;

// Product of the extents (1 for a scalar). The shape must have passed check_shape.
int64_t element_count(const Shape& shape);
// Rank <= kMaxRank, extents >= 0, product <= kMaxElements; `what` names the tensor in the message.
Result<void> check_shape(const Shape& shape, const std::string& what);
// "1x3x224x224"; "scalar" for rank 0.
std::string shape_text(const Shape& shape);
// Numpy broadcasting of two shapes, or nothing when they do not fit.
std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b);

// The numbers of a constant tensor: little endian, row major. A splat holds one element that stands for all.
// The bytes may be a view into a mapped file; `owner` keeps them alive. Copying shares the bytes.
struct Constant {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  bool splat = false;
};

Constant make_constant(std::vector<std::byte> bytes);
Constant make_constant_i64(std::span<const int64_t> values);
// One element of the given type standing for a whole tensor.
Constant make_splat(DType dtype, double value);
// `count` values converted to `dtype` (rounded to nearest even, integers saturate).
Constant make_constant_from_doubles(DType dtype, std::span<const double> values);

// Element `i` of the tensor (splats repeat). Half types are widened exactly.
double constant_element(const Constant& constant, DType dtype, int64_t i);
// All `count` elements as doubles.
std::vector<double> constant_doubles(const Constant& constant, DType dtype, int64_t count);
// All `count` elements of an integer or bool constant, exactly (u64 beyond the range of i64 wraps).
std::vector<int64_t> constant_integers(const Constant& constant, DType dtype, int64_t count);
// All `count` elements as raw bytes of the type (splats are expanded into `storage`, else the bytes are shared).
std::span<const std::byte> dense_bytes(const Constant& constant, DType dtype, int64_t count,
                                       std::vector<std::byte>& storage);

}  // namespace tcc::graph
