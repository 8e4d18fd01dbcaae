// Gives every reduction block that still has an initialization a nest of its own in front of its outermost reduction
// loop. Before: Scheduled. After: no block has an init. First, because it needs the blocks' iterator kinds.
#pragma once
#include "tcc/ir/kernel.h"
namespace tcc::lower {
ir::Kernel place_inits(const ir::Kernel& kernel, const ArenaPtr& arena);
}
