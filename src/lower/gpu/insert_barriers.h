// Before: code of a thread, as spread_threads leaves it. After: a barrier stands between two accesses of one block's
// threads to a shared (or global) element when one of them writes and nothing else orders them; also between the end of
// a loop's body and its next iteration. As TVM's ThreadSync, by buffers instead of elements.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel insert_barriers(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
