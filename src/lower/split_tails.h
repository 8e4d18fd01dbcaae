// Before: loads, stores and Ifs under predicates that come from non-dividing tiles and from padding.
// After: where a predicate holds for most tiles as a whole, the tile's code exists twice: `if (whole tile inside)
// {without the predicate} else {as it was}`. Where the test fails for one tile only, the else branch knows which one it
// is, and its predicates compare inner loops with constants. Predicates that always hold are gone. A loop ends after
// the last iteration that does something, unless its schedule asks for a mask. Copies have loops and buffers of their
// own. Comes before the passes that handle registers: the later ones treat each copy by itself.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel split_tails(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
