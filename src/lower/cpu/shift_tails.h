// Before: Nest. Tiles of a loop whose tail is kShift overhang its end, and their stores have a predicate for that.
// After: where the loop's body is a map, which may store an element twice, and the loop has at least one whole tile,
// the last tile begins earlier and ends with the loop: it has no predicate, and its vectors are whole.
// Before split_tails, which would make a copy of the code for what overhangs.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel shift_tails(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
