// Before: loops that combine values into one element of a buffer in memory, or into a tile that unrolled loops choose.
// After: the elements are in registers while the loop runs: they are read in front of the loop and written behind it.
#pragma once

#include "lower/register_file.h"
#include "tcc/ir/kernel.h"

namespace tcc::lower {

// For GPUs: elements of shared or global memory, in registers of their thread. Ahead of insert_barriers, which would
// keep the threads in step in each iteration.
ir::Kernel hoist_accumulators(const ir::Kernel& kernel, const ArenaPtr& arena);

// For CPUs: tiles of local buffers that are larger than the registers, or indexed by loops that are not written out;
// vectorized loops choose elements too. Behind promote_registers, which takes the buffers that fit as a whole. The
// emitter keeps values at constant places in registers, however far a loop is written out.
ir::Kernel hoist_local_tiles(const ir::Kernel& kernel, const ArenaPtr& arena, RegisterFile registers);

}  // namespace tcc::lower
