// Functions of single bytes for processors that look up tables in registers.
#pragma once

#include "tcc/graph/passes.h"

namespace tcc::graph {

// What elementwise operators compute from one tensor of bytes and single constants, and give as bytes, becomes a
// table:
//
//   Cast(Clip(Round(Div(Sigmoid(Mul(Cast(x), s)), t)), 0, 255), u8)   becomes   Gather(table of 256 bytes, x)
//
// Left alone: few cheap operators, small tensors, and where anything else reads a value on the way. The evaluator makes
// the table, in double precision. Shapes must be known. Returns how many tables there are. Errors: those of the
// evaluator.
Result<int64_t> tabulate_byte_functions(Graph& graph, Evaluator& evaluator);

}  // namespace tcc::graph
