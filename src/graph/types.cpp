#include "tcc/graph/types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tcc/support/check.h"

namespace tcc::graph {

namespace {
struct DTypeRow {
  std::string_view name;
  int64_t bytes;
};
constexpr DTypeRow kDTypes[] = {
#define X(enumerator, text, bytes) {text, bytes},
    TCC_GRAPH_DTYPES(X)
#undef X
};
}  // namespace

int64_t dtype_size(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)].bytes;
}
std::string_view dtype_name(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)].name;
}

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || dtype == DType::kBF16;
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

Result<void> check_shape(const Shape& shape, const std::string& what) {
  if (static_cast<int64_t>(shape.size()) > kMaxRank) {
    return input_error("{} has {} dimensions; at most {} are supported", what, shape.size(), kMaxRank);
  }
  // Extents are bounded one by one too, so that a zero elsewhere cannot hide an extent that overflows partial products.
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent < 0) return input_error("{} has the negative dimension {}", what, extent);
    if (extent > kMaxElements || __builtin_mul_overflow(count, std::max<int64_t>(extent, 1), &count) ||
        count > kMaxElements) {
      return input_error("{} of shape {} is too large: more than {} elements", what, shape_text(shape), kMaxElements);
    }
  }
  return {};
}

std::string shape_text(const Shape& shape) {
  if (shape.empty()) return "scalar";
  return fmt::format("{}", fmt::join(shape, "x"));
}

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

Constant make_constant(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return Constant{owner, std::span<const std::byte>(*owner), false};
}

Constant make_constant_i64(std::span<const int64_t> values) {
  auto bytes = std::as_bytes(values);
  return make_constant(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

namespace {

double widen_half(uint16_t bits) {
  int exponent = (bits >> 10) & 31;
  int mantissa = bits & 1023;
  double sign = (bits & 0x8000) ? -1.0 : 1.0;
  if (exponent == 31) return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 1024, exponent - 25);
}

// Models have 10^8 weights, so these two call no function of libm.
int floor_exponent(double magnitude) {
  return static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52) - 1023;
}
// magnitude * 2^exponent to the nearest integer, below 2^51.
uint32_t nearest_steps(double magnitude, int exponent) {
  const double steps = magnitude * std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
  return static_cast<uint32_t>((steps + 0x1p52) - 0x1p52);
}

// Nearest even on the half grid: the spacing at |v| is 2^(exponent - 10), subnormals share 2^-24.
uint16_t narrow_half(double v) {
  if (std::isnan(v)) return 0x7e00;
  uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  double magnitude = std::fabs(v);
  if (magnitude >= 65520) return sign | 0x7c00;
  int exponent = magnitude < 0x1p-14 ? -14 : floor_exponent(magnitude);
  const uint32_t steps = nearest_steps(magnitude, 10 - exponent);
  // `steps` may carry into the next exponent; the encoding's carry is the same addition.
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + steps);
}

uint16_t narrow_bfloat(double v) {
  if (std::isnan(v)) return 0x7fc0;
  uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  double magnitude = std::fabs(v);
  if (magnitude >= 0x1.ffp127) return sign | 0x7f80;
  int exponent = magnitude < 0x1p-126 ? -126 : floor_exponent(magnitude);
  const uint32_t steps = nearest_steps(magnitude, 7 - exponent);
  return sign | static_cast<uint16_t>(((exponent + 126) << 7) + steps);
}

// Calls f with a value of the C++ type that holds an element; of the half types, its bits.
template <class F>
auto with_stored_type(DType dtype, F f) {
  switch (dtype) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kF16:
    case DType::kBF16:
    case DType::kU16:
      return f(uint16_t{});
    case DType::kI16:
      return f(int16_t{});
    case DType::kI8:
      return f(int8_t{});
    case DType::kU8:
    case DType::kBool:
      return f(uint8_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU32:
      return f(uint32_t{});
    case DType::kU64:
      return f(uint64_t{});
  }
  TCC_UNREACHABLE();
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

template <class T>
T saturate(double v) {
  if (std::isnan(v)) return 0;
  double r = std::nearbyint(v);
  if (r <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (r >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(r);
}

void store_double(std::byte* at, DType dtype, double v) {
  if (dtype == DType::kF16) return store(at, narrow_half(v));
  if (dtype == DType::kBF16) return store(at, narrow_bfloat(v));
  if (dtype == DType::kBool) return store(at, static_cast<uint8_t>(v != 0));
  with_stored_type(dtype, [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      store(at, static_cast<T>(v));
    } else {
      store(at, saturate<T>(v));
    }
  });
}

double load_double(const std::byte* at, DType dtype) {
  if (dtype == DType::kF16) return widen_half(load<uint16_t>(at));
  if (dtype == DType::kBF16) return std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(at)) << 16);
  if (dtype == DType::kBool) return load<uint8_t>(at) != 0;
  return with_stored_type(dtype, [&]<class T>(T) { return static_cast<double>(load<T>(at)); });
}

int64_t load_integer(const std::byte* at, DType dtype) {
  TCC_CHECK(!is_float(dtype), "integer read of {}", dtype_name(dtype));
  if (dtype == DType::kBool) return load<uint8_t>(at) != 0;
  return with_stored_type(dtype, [&]<class T>(T) { return static_cast<int64_t>(load<T>(at)); });
}

}  // namespace

Constant make_splat(DType dtype, double value) {
  std::vector<std::byte> bytes(static_cast<size_t>(dtype_size(dtype)));
  store_double(bytes.data(), dtype, value);
  Constant constant = make_constant(std::move(bytes));
  constant.splat = true;
  return constant;
}

Constant make_constant_from_doubles(DType dtype, std::span<const double> values) {
  int64_t size = dtype_size(dtype);
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i)
    store_double(bytes.data() + i * static_cast<size_t>(size), dtype, values[i]);
  return make_constant(std::move(bytes));
}

double constant_element(const Constant& constant, DType dtype, int64_t i) {
  size_t offset = constant.splat ? 0 : static_cast<size_t>(i * dtype_size(dtype));
  TCC_CHECK(offset + static_cast<size_t>(dtype_size(dtype)) <= constant.bytes.size());
  return load_double(constant.bytes.data() + offset, dtype);
}

std::vector<double> constant_doubles(const Constant& constant, DType dtype, int64_t count) {
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = constant_element(constant, dtype, i);
  return values;
}

std::vector<int64_t> constant_integers(const Constant& constant, DType dtype, int64_t count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  int64_t step = constant.splat ? 0 : dtype_size(dtype);
  TCC_CHECK(count == 0 || static_cast<size_t>(step * (count - 1) + dtype_size(dtype)) <= constant.bytes.size());
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = load_integer(constant.bytes.data() + i * step, dtype);
  }
  return values;
}

std::span<const std::byte> dense_bytes(const Constant& constant, DType dtype, int64_t count,
                                       std::vector<std::byte>& storage) {
  auto size = static_cast<size_t>(dtype_size(dtype));
  if (!constant.splat) {
    TCC_CHECK(constant.bytes.size() == size * static_cast<size_t>(count));
    return constant.bytes;
  }
  storage.resize(size * static_cast<size_t>(count));
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    std::memcpy(storage.data() + i * size, constant.bytes.data(), size);
  }
  return storage;
}

}  // namespace tcc::graph
