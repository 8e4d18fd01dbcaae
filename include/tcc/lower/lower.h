// The one lowering: Built or Scheduled -> Nest -> Lowered. There is no other list of passes.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"
#include "tcc/target/target.h"

namespace tcc::lower {

// Runs the pass list up to `stop` (Stage::kNest or Stage::kLowered) and checks the target's limits at Nest. The
// result's nodes live in `arena`, which keeps the input's arena alive. A kernel that is at Nest already continues from
// there. Rejects: limits, forms that the target cannot run.
ir::Legal<ir::Kernel> lower(const ir::Kernel& kernel, const target::Target& target, ir::Stage stop,
                            const ArenaPtr& arena);

// Reads a kernel at Nest: extents, footprints and thread counts against the target.
ir::Legal<void> check_limits(const ir::Kernel& nest, const target::Target& target);

}  // namespace tcc::lower
