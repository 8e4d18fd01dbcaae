// What --fast-math changes in the loops of a task: graph::Graph::fast_math.
#pragma once

#include "tcc/ir/build.h"

namespace tcc::task {

// The same loops for floats that are not NaN. Selects that decide between two floats by comparing them become minimum
// and maximum, and a test for NaN in a select's condition is false. A test whose result is a value (IsNaN) stays.
ir::Stmt take_floats_as_numbers(ir::Builder& b, ir::Stmt root);

}  // namespace tcc::task
