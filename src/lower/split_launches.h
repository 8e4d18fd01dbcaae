// Before: Nest for a CPU: Allocs anywhere, statements at root level run one after the other.
// After: the root is one launch or a Seq of launches, inside one Alloc of workspace buffers when there are any; every
// other Alloc holds stack storage (scope local) of one launch. A launch that is a Parallel loop runs over its extent.
// It fixes which storage is shared, so nothing may move statements between launches afterwards.
#pragma once

#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"
#include "tcc/target/limits.h"

namespace tcc::lower {

using target::kMaxStackBytes;

// The statements at root level of a CPU's kernel, and the buffers of the Allocs around them.
struct HostLaunches {
  std::vector<ir::Stmt> launches;
  std::vector<std::vector<ir::Id>> own;  // of each launch: the buffers that no other one touches
  std::vector<ir::Id> shared;            // the buffers that several launches touch
};
HostLaunches host_launches(ir::Stmt root);
// The launch runs its iterations in parallel.
bool is_parallel(ir::Stmt launch);
// Appends the buffers of all Allocs in `s` to `ids`.
void append_allocated(ir::Stmt s, std::vector<ir::Id>& ids);

// Rejects: parallel loops below the root of a launch and vector loops without a constant extent (kUnsupported), more
// stack than kMaxStackBytes (kTooMuchLocal), local buffers of symbolic shape (kNotConstant).
ir::Legal<ir::Kernel> split_launches(const ir::Kernel& kernel, const ArenaPtr& arena);

// Bytes of stack that the largest launch of a CPU's kernel at Nest may need, however its buffers' dimensions are
// ordered. Rejects: local buffers of symbolic shape (kNotConstant).
ir::Legal<int64_t> largest_stack(const ir::Kernel& kernel);
// The part of it that the Allocs of a statement need.
ir::Legal<int64_t> stack_of(const ir::Kernel& kernel, ir::Stmt s);

}  // namespace tcc::lower
