// Before: Nest for a CPU: Allocs anywhere, statements at root level run one after the other.
// After: the root is one launch or a Seq of launches, inside one Alloc of workspace buffers when there are any; every
// other Alloc holds stack storage (scope local) of one launch. A launch that is a Parallel loop runs over its extent.
// Serial statements that share a small buffer are one launch, so that the buffer can be registers: a tile's
// accumulators are set, summed and stored by three statements at root level where no parallel loop is around them.
// It fixes which storage is shared, so nothing may move statements between launches afterwards.
#pragma once

#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"
#include "tcc/target/limits.h"

namespace tcc::lower {

using target::kMaxStackBytes;

// Statements at root level that run one after the other: a parallel loop, or serial ones.
struct HostLaunch {
  std::vector<ir::Stmt> stmts;
  std::vector<ir::Id> own;  // the buffers of Allocs at root level that no other launch touches

  bool is_parallel() const;  // it runs its iterations in parallel
  // `own`, and the buffers of all Allocs in the statements.
  std::vector<ir::Id> allocated() const;
};
// The launches of a CPU's kernel.
struct HostLaunches {
  std::vector<HostLaunch> launches;
  std::vector<ir::Id> shared;  // the buffers of Allocs at root level that several launches touch
};
HostLaunches host_launches(ir::Stmt root);

// Rejects: parallel loops below the root of a launch and vector loops without a constant extent (kUnsupported), more
// stack than kMaxStackBytes (kTooMuchLocal), local buffers of symbolic shape (kNotConstant).
ir::Legal<ir::Kernel> split_launches(const ir::Kernel& kernel, const ArenaPtr& arena);

// Bytes of stack that the largest launch of a CPU's kernel at Nest may need, however its buffers' dimensions are
// ordered. Serial launches take what fits, at most kMaxStackBytes. Rejects: local buffers of symbolic shape
// (kNotConstant).
ir::Legal<int64_t> largest_stack(const ir::Kernel& kernel);

}  // namespace tcc::lower
