// Before: vectorized loops whose lanes are apart in memory, next to copies of them for neighboring columns: a schedule
// reads or writes a matrix across its rows.
// After: transpose_accesses(w) on the outermost loop that is written out around them. The code generator reads or
// writes squares of at most w rows and columns as vectors and transposes them in registers.
//
//   for c in 8 {                           for c in 8 {
//     for u in 8 unrolled {                  for u in 8 unrolled @transpose_accesses(8) {
//       for v in 16 vectorized {     ->        for v in 16 vectorized {
//         B[c*8 + u, v] = A[v, c*8 + u]          B[c*8 + u, v] = A[v, c*8 + u]
//
// log2(w) shuffles for each vector of w elements take the place of w loads or stores. A square is as wide as a vector
// register at most, and fewer than four neighboring columns stay single elements. An annotation transpose_accesses of
// the schedule stays as it is. Comes after plan_unrolling, which says which loops are written out, and after
// split_launches, which says which buffers are in memory.
#pragma once

#include "lower/register_file.h"
#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel transpose_accesses(const ir::Kernel& kernel, const ArenaPtr& arena, RegisterFile registers);

}  // namespace tcc::lower
