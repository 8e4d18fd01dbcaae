// Before: loops that combine values into one element of shared or global memory.
// After: the element is in a register of its thread while the loop runs: it is read in front of the loop and written
// behind it. Ahead of insert_barriers, which would keep the threads in step in each iteration.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel hoist_accumulators(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
