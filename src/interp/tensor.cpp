#include "tcc/interp/tensor.h"

#include <algorithm>
#include <cstring>

#include "interp/value.h"
#include "tcc/support/check.h"
#include "tcc/support/rng.h"

namespace tcc::interp {
namespace {

template <class Draw>
TensorData fill(ir::Type type, std::span<const int64_t> shape, Draw draw) {
  TensorData t = TensorData::zeros(type, shape);
  const int64_t n = t.size();
  for (int64_t i = 0; i < n; ++i) t.set(i, draw());
  return t;
}

}  // namespace

double load_number(ir::Type type, const void* data, int64_t index) {
  const Reg r = load_element(type, static_cast<const std::byte*>(data), index);
  return ir::is_float(type) ? r.f : static_cast<double>(r.i);
}
void store_number(ir::Type type, void* data, int64_t index, double value) {
  Reg r;
  if (ir::is_float(type)) {
    r.f = round_to(type, value);
  } else {
    r.i = saturate_to(type, value);
  }
  store_element(type, static_cast<std::byte*>(data), index, r);
}
void load_numbers(ir::Type type, const void* data, std::span<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  if (type == ir::Type::kF32) {
    std::copy_n(static_cast<const float*>(data), values.size(), values.begin());
  } else if (type == ir::Type::kF64) {
    if (n > 0) std::memcpy(values.data(), data, values.size_bytes());
  } else {
    for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = load_number(type, data, i);
  }
}
void store_numbers(ir::Type type, void* data, std::span<const double> values) {
  const auto n = static_cast<int64_t>(values.size());
  if (type == ir::Type::kF32) {
    auto* to = static_cast<float*>(data);
    for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<float>(values[i]);
  } else if (type == ir::Type::kF64) {
    if (n > 0) std::memcpy(data, values.data(), values.size_bytes());
  } else if (type == ir::Type::kF16) {
    auto* to = static_cast<uint16_t*>(data);
    for (size_t i = 0; i < values.size(); ++i) to[i] = f16_bits(round_f16(values[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) store_number(type, data, i, values[static_cast<size_t>(i)]);
  }
}
double round_to_type(double value, ir::Type type) {
  return ir::is_float(type) ? round_to(type, value) : static_cast<double>(saturate_to(type, value));
}

int64_t TensorData::size() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}
double TensorData::at(int64_t i) const {
  return load_number(type, bytes.data(), i);
}
void TensorData::set(int64_t i, double value) {
  store_number(type, bytes.data(), i, value);
}

TensorData TensorData::zeros(ir::Type type, std::span<const int64_t> shape) {
  TensorData t;
  t.type = type;
  t.shape.assign(shape.begin(), shape.end());
  t.bytes.resize(static_cast<size_t>(t.size() * ir::type_bytes(type)));
  return t;
}
TensorData TensorData::make_random(ir::Type type, std::span<const int64_t> shape, uint64_t seed) {
  Rng rng(seed);
  return fill(type, shape, [&]() -> double {
    if (ir::is_float(type)) return rng.uniform() * 2 - 1;
    if (type == ir::Type::kBool) return static_cast<double>(rng.below(2));
    return static_cast<double>(rng.below(9) - (ir::is_unsigned(type) ? 0 : 4));
  });
}
TensorData TensorData::make_random_integers(ir::Type type, std::span<const int64_t> shape, uint64_t seed) {
  Rng rng(seed);
  const bool unsigned_type = ir::is_unsigned(type) || type == ir::Type::kBool;
  return fill(type, shape,
              [&]() -> double { return static_cast<double>(unsigned_type ? rng.below(2) : rng.below(5) - 2); });
}
TensorData TensorData::from_doubles(ir::Type type, std::span<const int64_t> shape, std::span<const double> values) {
  TensorData t = zeros(type, shape);
  TCC_CHECK(t.size() == static_cast<int64_t>(values.size()), "{} values for {} elements", values.size(), t.size());
  store_numbers(type, t.bytes.data(), values);
  return t;
}
std::vector<double> TensorData::to_doubles() const {
  std::vector<double> out(static_cast<size_t>(size()));
  load_numbers(type, bytes.data(), out);
  return out;
}

}  // namespace tcc::interp
