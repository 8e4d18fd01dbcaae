// The ranges of integer types against those of the language.
#include <catch2/catch.hpp>
#include <limits>

#include "tcc/ir/integer_range.h"

using namespace tcc::ir;

namespace {

template <class T>
constexpr bool is_range_of(Type type) {
  const IntegerRange range = integer_range(type);
  return range.low == std::numeric_limits<T>::min() && range.high == std::numeric_limits<T>::max();
}

}  // namespace

TEST_CASE("integer types hold what the language's types of their width and sign hold") {
  CHECK(is_range_of<int8_t>(Type::kI8));
  CHECK(is_range_of<uint8_t>(Type::kU8));
  CHECK(is_range_of<int16_t>(Type::kI16));
  CHECK(is_range_of<uint16_t>(Type::kU16));
  CHECK(is_range_of<int32_t>(Type::kI32));
  CHECK(is_range_of<int64_t>(Type::kI64));
}
