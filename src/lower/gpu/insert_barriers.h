// Before: code of a thread, as bind_threads leaves it. After: a barrier separates two accesses of one block's
// threads to a shared (or global) element when one of them writes and nothing else orders them; also between the end of
// a loop's body and its next iteration; what a pipeline orders itself is left alone. As TVM's ThreadSync, by buffers
// instead of elements. A barrier also separates the uses of two shared buffers that may have one place
// (analysis/shared_plan.h); their sizes decide that, so swizzle_shared comes before.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/target/target.h"

namespace tcc::lower {

ir::Kernel insert_barriers(const ir::Kernel& kernel, const target::Target& target, const ArenaPtr& arena);

}  // namespace tcc::lower
