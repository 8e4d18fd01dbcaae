// The values that an integer type can hold.
#pragma once

#include <cstdint>

#include "tcc/ir/type.h"

namespace tcc::ir {

struct IntegerRange {
  int64_t low = 0, high = 0;
};

// Of a type with is_integer().
constexpr IntegerRange integer_range(Type integer) {
  const int64_t bits = 8 * type_bytes(integer);
  if (is_unsigned(integer)) return {0, (int64_t{1} << bits) - 1};  // at most 16 bits
  const int64_t high = INT64_MAX >> (64 - bits);
  return {-high - 1, high};
}

}  // namespace tcc::ir
