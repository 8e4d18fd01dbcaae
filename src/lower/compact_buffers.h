// Shrinks every temporary to the box that is touched during one iteration of the innermost loop around all of its
// accesses, and allocates it there. Before: no blocks, no Alloc. After: every temporary has exactly one Alloc.
// After inline_blocks, because regions are read off indices over loops.
//
// Substituting decisions commutes with this pass: a kernel with decision symbols gets the boxes that the kernel with
// numbers gets. Where only numbers can decide, a kernel with symbols is rejected.
#pragma once
#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"
namespace tcc::lower {
ir::Legal<ir::Kernel> compact_buffers(const ir::Kernel& kernel, const ArenaPtr& arena);
}
