// Replaces block iterators by their bindings; a block's predicate becomes an If around its body.
// Before: no inits. After: no blocks.
#pragma once
#include "tcc/ir/kernel.h"
namespace tcc::lower {
ir::Kernel inline_blocks(const ir::Kernel& kernel, const ArenaPtr& arena);
}
