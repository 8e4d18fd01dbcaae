// Shrinks every temporary to the box that is touched during one iteration of the innermost loop around all of its
// accesses, and allocates it there. Before: no blocks, no Alloc. After: every temporary has exactly one Alloc.
// After inline_blocks, because regions are read off indices over loops.
#pragma once
#include "tcc/ir/kernel.h"
namespace tcc::lower {
ir::Kernel compact_buffers(const ir::Kernel& kernel, const ArenaPtr& arena);
}
