// Matrix instructions of a warp. Until here a fragment is a tile of a local buffer that the schedule indexes by row and
// column; what the hardware has is registers in 32 lanes.
// Before: place_gpu_storage. After: below the thread loops of y and z stands a loop over the lanes of a warp, bound to
// thread.x; a fragment buffer's last dimension is the registers of one lane, tile after tile; loops over the rows and
// columns of a tile are loops over a lane's registers, whose layout the instruction table knows. Tiles that lie in
// shared memory in rows of 16 bytes are loaded by ldmatrix, where the target has it.
#pragma once

#include <map>

#include "tcc/ir/instr.h"
#include "tcc/ir/reject.h"
#include "tcc/target/target.h"

namespace tcc::lower {

// Buffers of a nest that are operands with a layout over lanes, with the operand.
std::map<ir::Id, const ir::OperandSpec*> fragment_buffers(const ir::Kernel& nest);

// Rejects: launches that bind thread.x themselves, accesses that are not whole tiles (kBadInstruction, kUnsupported).
ir::Legal<ir::Kernel> distribute_fragments(const ir::Kernel& kernel, const target::Target& target,
                                           const ArenaPtr& arena);

}  // namespace tcc::lower
