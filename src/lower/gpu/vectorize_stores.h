// Before: nests of unrolled loops around one store to shared or global memory.
// After: where the iterations may run in any order, the contiguous loop of the nest is its innermost one and
// Vectorized: the store, and loads that are contiguous with it, become wide accesses.
//
//   for i in 4 unrolled {                  for i in 4 unrolled {
//     for j in 8 unrolled {                  for k in 2 unrolled {
//       for k in 2 unrolled {        ->        for j in 8 vectorized {
//         C[i, k, j] = T[k, i, j]                C[i, k, j] = T[k, i, j]
//
// NVRTC's optimizer is slower than linear in the number of memory accesses, and these nests make most of them. Behind
// promote_registers, which unrolls the loops; before plan_unrolling, which counts what is left.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel vectorize_stores(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
