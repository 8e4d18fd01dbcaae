// Before: loops of any kind around accesses to local buffers.
// After: serial loops whose variable chooses an element of a register-sized local buffer are Unrolled, so that the
// emitter sees constant indices and keeps the buffer in registers.
// Stands after split_tails: a predicated copy of a tile unrolls by itself.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

// `register_bytes`: what the vector registers hold; larger buffers stay in memory. A nest that would expand to more
// than 1,024 statements stays as it is.
ir::Kernel promote_registers(const ir::Kernel& kernel, const ArenaPtr& arena, int64_t register_bytes);

}  // namespace tcc::lower
