// Before: loops of virtual threads around the work of a thread, each repeating all of it.
// After: such loops are, unrolled, around the single statements that differ between virtual threads; local buffers
// have a leading dimension for each, and what the block shares is filled once. As TVM's "inject virtual thread".
// After place_gpu_storage, which says what is local; before bind_threads, because virtual threads hide the copies.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"

namespace tcc::lower {

// Rejects: extents that are not constants, shared buffers that a virtual thread fills by part.
ir::Legal<ir::Kernel> sink_vthreads(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
