// How far lowering expands the loops of a GPU kernel (src/lower/gpu/plan_unrolling.h), for lowering itself and for the
// cost models, which count what is left of loops.
#pragma once

#include <cstdint>

#include "tcc/ir/kernel.h"
#include "tcc/ir/walk.h"

namespace tcc::analysis {

// A serial loop that chooses elements of a local array is expanded whole up to this number of iterations.
inline constexpr int64_t kMaxRegisterLoop = 64;

// Statements of straight code that an expanded loop becomes, at most. `on_chip`: all that the loop loads and stores is
// in shared memory or registers; `products`: the launch has products by matrix instructions.
double max_unrolled_statements(bool on_chip, bool products);

// Whether the statement loads and stores only buffers that `is_on_chip` accepts.
bool stays_on_chip(ir::Stmt s, ir::FunctionRef<bool(ir::Id)> is_on_chip);

// Iterations of an innermost serial loop of loads from memory that become straight code, so that their loads are under
// way together. `statements`: of one iteration. 1: none.
int64_t unrolled_loads(int64_t extent, double statements);

}  // namespace tcc::analysis
