// Before: loops of any kind around accesses to local buffers.
// After: serial loops whose variable chooses an element of a register-sized local buffer are Unrolled, so that the
// emitter sees constant indices and keeps the buffer in registers.
// Comes after split_tails: a predicated copy of a tile unrolls by itself.
#pragma once

#include "lower/register_file.h"
#include "tcc/ir/kernel.h"

namespace tcc::lower {

// Buffers larger than all registers stay in memory, and so do those whose elements loops around a sum choose where they
// would leave no register for what the sum reads. A nest that would expand to more than 1,024 statements stays as it
// is, loops counted that the emitter writes out (annotation unroll_max).
ir::Kernel promote_registers(const ir::Kernel& kernel, const ArenaPtr& arena, RegisterFile registers);

}  // namespace tcc::lower
