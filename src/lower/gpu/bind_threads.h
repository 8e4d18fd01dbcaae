// Before: Nest in which each launch is sequential code with loops bound to thread axes in it, nested or one after the
// other.
// After: one loop for each thread axis right below the grid, and below them the code of a thread: a bound loop is the
// thread's coordinate; copies marked cooperative_fetch are shared by all threads; thread 0 executes statements
// outside of every thread loop; a sum over one element a thread (annotation `tree`) is a tree, whose last steps are
// shuffles of one warp. Shared buffers are allocated once. There are no barriers yet: insert_barriers follows.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"

namespace tcc::lower {

// Rejects: extents that are not constants (kNotConstant); conditions on threads around work of all threads, local
// buffers that outlive their thread loop, grid loops that are not outermost (kUnsupported).
ir::Legal<ir::Kernel> bind_threads(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
