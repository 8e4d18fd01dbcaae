// Intervals of index expressions where the variables have intervals.
#pragma once

#include <cstdint>

#include "tcc/ir/walk.h"

namespace tcc::ir {

// Both ends included. An end at +-kUnbounded is not known.
struct Interval {
  static constexpr int64_t kUnbounded = int64_t{1} << 62;
  int64_t low = -kUnbounded, high = kUnbounded;
  bool known() const { return low > -kUnbounded && high < kUnbounded; }
};

// Values of `e` where each variable v has a value in variable(v). Ends that depend on memory, on calls or on floats, or
// that reach 2^62, are not known.
Interval interval_of(Expr e, FunctionRef<Interval(Id)> variable);

}  // namespace tcc::ir
