// Tiles of a product by warpgroups that do not fill the last wave of blocks. Private to the room.
//
// Before: a nest whose loop with a role says by the annotation `tree` how many parts of its sums may be added at the
// end, and whose grid says by `persistent_blocks` how many blocks run at a time.
// After: three launches. The first makes the tiles of whole waves; the second parts of sums of the others, by a block
// each, into a workspace; the third adds the parts and stores what becomes of them. Nests of another form, and those
// whose tiles fill their waves, lose the annotation.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel split_last_wave(const ir::Kernel& nest, const ArenaPtr& arena);

}  // namespace tcc::lower
