// Before: loops that combine values into one element of shared or global memory, or a tile that unrolled loops choose.
// After: the elements are in registers of their thread while the loop runs: they are read in front of the loop and
// written behind it. Ahead of insert_barriers, which would keep the threads in step in each iteration.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel hoist_accumulators(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
