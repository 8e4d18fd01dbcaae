// Dense tensors in logical row-major order: what the interpreter takes and returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tcc/ir/type.h"

namespace tcc::interp {

// Element `index` of an array of the type as a double (i64 beyond 2^53 is rounded), and its inverse.
double load_number(ir::Type type, const void* data, int64_t index);
void store_number(ir::Type type, void* data, int64_t index, double value);
// The same of an array's first elements.
void load_numbers(ir::Type type, const void* data, std::span<double> values);
void store_numbers(ir::Type type, void* data, std::span<const double> values);
// The nearest value of the type, as a double: floats round to nearest even and overflow to infinity, integers are
// truncated and saturate.
double round_to_type(double value, ir::Type type);

struct TensorData {
  ir::Type type = ir::Type::kF32;
  std::vector<int64_t> shape;    // logical; empty: one element
  std::vector<std::byte> bytes;  // size() * type_bytes(type), native byte order

  int64_t size() const;  // elements
  // Element `i` in row-major order as a double (i64 beyond 2^53 is rounded), and its inverse, which rounds to the
  // element type; integers saturate.
  double at(int64_t i) const;
  void set(int64_t i, double value);

  static TensorData zeros(ir::Type type, std::span<const int64_t> shape);
  // Reals uniform in [-1, 1); integers in [-4, 4] (u8: [0, 8], bool: 0 or 1). The same seed gives the same tensor.
  static TensorData make_random(ir::Type type, std::span<const int64_t> shape, uint64_t seed);
  // Small integers in [-2, 2] whatever the type (u8, bool: [0, 1]): partial sums of products stay exact.
  static TensorData make_random_integers(ir::Type type, std::span<const int64_t> shape, uint64_t seed);
  static TensorData from_doubles(ir::Type type, std::span<const int64_t> shape, std::span<const double> values);
  std::vector<double> to_doubles() const;
};

}  // namespace tcc::interp
