// Before: loops that the code generator writes out, around updates of local buffers.
// After: complete_tiles(1) on a loop that updates the same elements in each copy of its body, where these elements fill
// a third of the vector registers or more. The code generator then completes them after each copy.
//
//   for t in 3 unrolled {                  for t in 3 unrolled @complete_tiles(1) {
//     for i in 6 unrolled {                  for i in 6 unrolled {
//       for v in 16 vectorized {       ->      for v in 16 vectorized {
//         T[i, v] = T[i, v] + ...                T[i, v] = T[i, v] + ...
//
// Without the mark a compiler loads values that the next copy needs while this one runs, and keeps them in registers
// that the tile needs. An annotation complete_tiles of the schedule stays as it is. Comes after plan_unrolling, which
// says which loops are written out, and after split_launches, which says which buffers are local.
#pragma once

#include "lower/register_file.h"
#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel complete_tiles(const ir::Kernel& kernel, const ArenaPtr& arena, RegisterFile registers);

}  // namespace tcc::lower
