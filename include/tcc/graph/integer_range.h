// The numbers that an integer or bool element can have.
#pragma once

#include <cmath>

#include "tcc/graph/types.h"
#include "tcc/support/check.h"

namespace tcc::graph {

struct IntegerRange {
  double least = 0, greatest = 0;  // both included; of 64 bits the greatest is rounded up to a power of two
};

// `dtype` must not be a float.
inline IntegerRange integer_range(DType dtype) {
  TCC_CHECK(!is_float(dtype), "{} has no integer range", dtype_name(dtype));
  if (dtype == DType::kBool) return {0, 1};
  const double values = std::ldexp(1.0, static_cast<int>(8 * dtype_size(dtype)));
  return is_unsigned(dtype) ? IntegerRange{0, values - 1} : IntegerRange{-values / 2, values / 2 - 1};
}

}  // namespace tcc::graph
