// Work counts of a kernel with constant extents.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::analysis {

struct Counts {
  double flops = 0;    // float add, sub, mul, div, min, max, compare, math call: one each; fma two
  double int_ops = 0;  // data integer operations
  double loads = 0, stores = 0;
  double param_bytes = 0;  // bytes of the parameters: what must move at least once
};
// Loops of non-constant extent count with their upper bound.
Counts count(const ir::Kernel& kernel);

}  // namespace tcc::analysis
