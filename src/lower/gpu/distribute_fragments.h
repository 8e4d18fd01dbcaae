// Matrix instructions of a warp or a warpgroup. Until here a fragment is a tile of a local buffer that the schedule
// indexes by row and column; what the hardware has is registers in 32 lanes. Before: place_gpu_storage. After: below
// the thread loops of y and z stands a loop over the lanes of a warp, bound to thread.x, or below that of the
// warpgroups loops over the warps and lanes of one; a fragment buffer's last dimension is the registers of one lane,
// tile after tile; loops over the rows and columns of a tile are loops over a lane's registers, whose layout the
// instruction table knows. Tiles that lie in shared memory in rows of 16 bytes are loaded by ldmatrix, where the target
// has it.
#pragma once

#include <map>

#include "tcc/ir/instr.h"
#include "tcc/ir/reject.h"
#include "tcc/target/target.h"

namespace tcc::lower {

// A buffer that is an operand with a layout over lanes.
struct FragmentOperand {
  const ir::OperandSpec* spec;
  int64_t lanes;  // that share it: a warp's, or a warpgroup's
};
std::map<ir::Id, FragmentOperand> fragment_buffers(const ir::Kernel& nest);

// Rejects: launches that bind thread.x themselves, accesses that are not whole tiles (kBadInstruction, kUnsupported).
ir::Legal<ir::Kernel> distribute_fragments(const ir::Kernel& kernel, const target::Target& target,
                                           const ArenaPtr& arena);

}  // namespace tcc::lower
