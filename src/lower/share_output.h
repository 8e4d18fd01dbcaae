// Before: Nest. Rows in memory of their own, which the last step reads element by element to write the output.
// After: the rows are in the output and the last step scales them in place, for outputs beyond the second-level cache:
// the lines that the stores wait for then arrive while values are made, which takes its time, rather than in the step
// that only moves them. Rows whose vectors run along another dimension stay where they are. Ahead of pad_tails, which
// gives local buffers room that the output does not have.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/target/target.h"

namespace tcc::lower {

ir::Kernel share_output(const ir::Kernel& kernel, const target::Target& target, const ArenaPtr& arena);

}  // namespace tcc::lower
