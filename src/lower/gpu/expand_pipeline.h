// Overlap of copies into shared memory with the work on what was copied before.
// Before: code of a thread, as bind_threads leaves it, and loops with the annotation pipeline_depth D (D > 1) whose
// body begins with copies into shared buffers that only the rest of the body reads.
// After: each such buffer has D versions. D - 1 iterations' copies run ahead: in front of the loop, then one
// iteration's in each iteration, while the body works on a version that has arrived. Where the target has asynchronous
// copies and pipeline_async is not 0, a copy of 4, 8 or 16 bytes a thread is one of those, and waits are for the oldest
// group; others go through registers: read ahead of the work, written behind it. Barriers of the loop are there (one an
// iteration); insert_barriers leaves the loop's own buffers alone. Before insert_barriers; after align_vectors, which
// says what can be copied in one piece.
#pragma once

#include <set>

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"
#include "tcc/target/target.h"

namespace tcc::lower {

// Rejects: annotations and extents that are not constants (kNotConstant), shared buffers that the loop's body does not
// have to itself (kUnsupported).
ir::Legal<ir::Kernel> expand_pipeline(const ir::Kernel& kernel, const target::Target& target, const ArenaPtr& arena);

// Buffers of which the loop, one that expand_pipeline made, uses versions in turn.
std::set<ir::Id> pipelined_buffers(const ir::Kernel& kernel, const ir::Loop& loop);

}  // namespace tcc::lower
