// Before: vectorized loops, whose accesses start at multiples of their width where they are contiguous.
// After: access_bytes(n) on each innermost vectorized loop whose body is stores: its lanes become accesses of at most n
// bytes, the widest for which some access of the loop is contiguous and aligned. A vectorized loop without the
// annotation is one that the compiler unrolls.
//
//   for v in 8 vectorized {                for v in 8 vectorized @access_bytes(16) {
//     B[t*8 + v] = A[t*8 + v]      ->        B[t*8 + v] = A[t*8 + v]
//
// Memory serves at most 16 bytes of a thread at once. A loop of more than 64 lanes is left to the compiler: it would be
// hundreds of lines. An annotation access_bytes of the schedule stays as it is. Comes last: alignment follows from
// layouts and from the values of variables, which earlier passes still change.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel choose_access_widths(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
