// The way to Nest in two halves, for sketches: they keep the result of the first and repeat the second.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"
#include "tcc/ir/walk.h"
#include "tcc/target/target.h"

namespace tcc::lower {

// The passes in front of `fold`: Built or Scheduled -> Form::kAllocated. Decision scalars may remain.
ir::Legal<ir::Kernel> build_nest(const ir::Kernel& kernel, const target::Target& target, const ArenaPtr& arena);

// Substitutes `decisions`, simplifies everything with the ranges of the enclosing loops and drops loops of extent one.
// Scalars that are substituted disappear from the kernel. The result is at Stage::kNest, its limits are not checked.
//
//   for i in 4 { for j in d {              for i in 4 {
//     A[i * 8 // 8 + j] = 0.0        ->      A[i] = 0.0
//   } }                      d = 1         }
ir::Kernel fold(const ir::Kernel& kernel, const ir::Substitution& decisions, const ArenaPtr& arena);

// fold() with `decisions`, then the passes behind `fold` up to Nest, which check the target's limits.
ir::Legal<ir::Kernel> finish_nest(const ir::Kernel& kernel, const ir::Substitution& decisions,
                                  const target::Target& target, const ArenaPtr& arena);

}  // namespace tcc::lower
