// Before: loops that a schedule or a pass marked Unrolled, and loops below the annotation unroll_max.
// After: unroll_max of a loop is the largest number of iterations that the code generator writes out; without it, an
// Unrolled or Vectorized loop is written out whole, a serial loop never. Vectorized loops that become lanes are not
// concerned.
//
//   for i in 8 @unroll_max(16) {           for i in 8 {
//     for j in 4 {                   ->      for j in 4 @unroll_max(16) {
//       B[i, j] = A[j, i]                      B[i, j] = A[j, i]
//
// What results is at most 4,096 statements a loop. Comes after every pass that adds statements, because it
// counts them as they will be printed.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel plan_cpu_unrolling(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
