// Copies and products by different warps of a block, for kernels that multiply by warpgroups.
// Before: distribute_fragments. A launch holds one loop with the annotations pipeline_depth (D) and pipeline_role; its
// body fills shared buffers of its own with boxes of the kernel's parameters and multiplies them by instructions of a
// warpgroup.
// After: the launch's threads are Roles. A producer warpgroup, of which one thread works, starts the copies by TMA, up
// to D iterations ahead; W consumer warpgroups do all the rest. Two barriers in shared memory for each of D versions
// of the buffers say that a version is full, and that it is empty again. Copies are in the layout that TMA calls
// "128B swizzle". Results leave by tensor copies as well, between barriers of their warpgroup (stage_results.h). A grid
// with the annotation persistent_blocks has this many blocks at most, each for several tiles. Blocks of a cluster
// multicast their shared operands. bind_threads and insert_barriers do not change these launches, so these barriers are
// all that they have.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"
#include "tcc/target/target.h"

namespace tcc::lower {

// The launch's threads are Roles already.
bool has_roles(ir::Stmt launch);
// At Nest: whether expand_roles can do the launch. Rejects: kBadInstruction (a copy that TMA cannot make),
// kUnsupported (another form of loop).
ir::Legal<void> check_roles(const ir::Kernel& nest, ir::Stmt launch);
ir::Legal<ir::Kernel> expand_roles(const ir::Kernel& kernel, const target::Target& target, const ArenaPtr& arena);

}  // namespace tcc::lower
