// The one lowering: Built or Scheduled -> Nest -> Lowered, by the passes of the target's pipeline (pass.h).
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"
#include "tcc/lower/pass.h"
#include "tcc/target/target.h"

namespace tcc::lower {

// Runs the target's passes up to `stop` (Stage::kNest or Stage::kLowered); one of them checks the target's limits at
// Nest. The result's nodes live in `arena`, which keeps the input's arena alive. A kernel that is at Nest already
// continues from there. `observer`, where given, sees the result of every pass. Rejects: limits, forms that the target
// cannot run.
ir::Legal<ir::Kernel> lower(const ir::Kernel& kernel, const target::Target& target, ir::Stage stop,
                            const ArenaPtr& arena, const PassObserver& observer = nullptr);

// Reads a kernel at Nest: extents, footprints and thread counts against the target.
ir::Legal<void> check_limits(const ir::Kernel& nest, const target::Target& target);

}  // namespace tcc::lower
