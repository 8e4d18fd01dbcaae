// Before: vectorized loops wherever a schedule or a copy asked for them. After: those whose accesses to memory are not
// certain to start at multiples of their width are Unrolled; what stays Vectorized becomes wide accesses. Copies to
// registers that start at a known place within a vector keep their vectors:
//
//   for v in 17 vectorized { row[v] = x[8*t - 1 + v] }
//
//   row[0] = x[8*t - 1]; for v in 16 vectorized { row[v + 1] = x[8*t + v] }
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel align_vectors(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
