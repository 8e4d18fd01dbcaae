// Before: local buffers with the dimension order of the tensor they were made from.
// After: where all vectorized accesses of a local buffer run along one and the same dimension, that dimension is the
// last, so that a vector is contiguous in it (a register tile of an NCHW tensor vectorized over channels).
// Comes before promote_registers, which counts on tiles of whole vectors; after split_tails, whose copies have buffers
// of their own.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel order_local_dims(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
