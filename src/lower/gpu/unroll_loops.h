// Before: loops with the annotation unroll_max. After: the loop and those below it with constant extents are Unrolled,
// innermost first, as long as the statements that result are at most the annotation's value (TVM's
// auto_unroll_max_step). Loops over elements of local buffers are promote_registers' business.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel unroll_loops(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
