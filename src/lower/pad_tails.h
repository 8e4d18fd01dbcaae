// Before: Nest. Stores into local buffers under the predicate of a loop whose tail is kPad.
// After: such a store has lost that predicate; the loads of parameters in its value carry it instead and give zero. The
// overhang of the local buffer holds values nobody reads: whatever leaves it keeps its predicate.
// First of the passes after Nest: split_tails would otherwise copy code for a predicate that goes away.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel pad_tails(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
