// Before: vectorised loops wherever a schedule or a copy asked for them. After: those whose accesses to memory are not
// certain to start at multiples of their width are Unrolled; what stays Vectorised becomes wide accesses.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel align_vectors(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
