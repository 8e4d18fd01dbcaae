// Values of integer expressions where the variables have values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tcc/ir/expr.h"

namespace tcc::ir {

// Towards negative infinity, as kFloorDiv and kFloorMod; b is not 0. The one quotient that does not fit wraps around.
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return static_cast<int64_t>(-static_cast<uint64_t>(a));
  return a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0);
}
inline int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t m = a % b;
  return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

// Few variables, so they are looked for one after the other; the first entry of a variable counts.
using Assignment = std::vector<std::pair<Id, int64_t>>;
// Gives the variable another value, or its first.
void assign(Assignment& values, Id id, int64_t value);

// The value of index arithmetic; comparisons and what joins them are 0 or 1. nullopt: it depends on memory, on a call,
// on a variable without a value or on a float, divides by zero, or leaves the range of 64 bits.
std::optional<int64_t> evaluate(Expr e, std::span<const std::pair<Id, int64_t>> values);

}  // namespace tcc::ir
