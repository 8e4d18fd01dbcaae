// The nest that initializes a reduction: used by decompose_reduction and by the lowering of blocks that still have an
// init.
#pragma once

#include "tcc/ir/edit.h"

namespace tcc::analysis {

// Copies of the loops from path position `first` on (a Loop) that the block's spatial bindings or predicate mention,
// around a block that stores the identity. path ends at a reduction block with an init. The new block's id is returned
// in *block.
ir::Stmt make_init_nest(ir::KernelEditor& edit, const ir::Path& path, size_t first, ir::Id* block);
// Path position of the outermost loop that any reduce iterator's binding mentions; path.nodes.size() - 1 (the block)
// when there are no reduce loops.
size_t first_reduce_loop(const ir::Path& path);

}  // namespace tcc::analysis
