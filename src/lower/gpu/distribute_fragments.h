// Matrix instructions of a warp or a warpgroup. Until here a fragment is a tile of a local buffer that the schedule
// indexes by row and column; what the hardware has is registers in 32 lanes. Before: place_gpu_storage. After: below
// the thread loops of y and z comes a loop over the lanes of a warp, bound to thread.x, or below that of the
// warpgroups loops over the warps and lanes of one; a fragment buffer's last dimension is the registers of one lane,
// tile after tile; loops over the rows and columns of a tile are loops over a lane's registers, whose layout the
// instruction table knows. ldmatrix loads tiles whose rows of 16 bytes are in shared memory, where the target
// has it.
//
// What is computed from fragments element by element stays in registers: matrices of the same layout, or of one in
// which the same lanes hold the same elements (sums that become an operand of the next product), and vectors of a value
// for each row, which all lanes have that hold a part of the row. A loop that combines the columns of a row into such a
// vector, with the annotation `tree`, becomes a loop over registers and exchanges between those lanes.
#pragma once

#include "lower/gpu/fragments.h"
#include "tcc/ir/reject.h"
#include "tcc/target/target.h"

namespace tcc::lower {

// Rejects: launches that bind thread.x themselves, accesses that are not whole tiles (kBadInstruction, kUnsupported).
ir::Legal<ir::Kernel> distribute_fragments(const ir::Kernel& kernel, const target::Target& target,
                                           const ArenaPtr& arena);

}  // namespace tcc::lower
