// The first stop of the lowering, in two halves so that sketches can keep the first and repeat the second.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"
#include "tcc/ir/walk.h"

namespace tcc::lower {

// Built or Scheduled -> a nest without blocks: initialisations placed, iterators replaced by their bindings, buffers
// compacted to the region that is live at a time and allocated where they live. Decision scalars may remain.
ir::Legal<ir::Kernel> build_nest(const ir::Kernel& kernel, const ArenaPtr& arena);

// Substitutes `decisions`, simplifies everything with the ranges of the enclosing loops and drops loops of extent one.
// Scalars that are substituted disappear from the kernel. The result is at Stage::kNest.
ir::Kernel finish_nest(const ir::Kernel& kernel, const ir::Substitution& decisions, const ArenaPtr& arena);

}  // namespace tcc::lower
