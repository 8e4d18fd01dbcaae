// An expression of its own, apart from the arena it was made in; kernels are copied by compact() (ir/kernel.h).
#pragma once

#include "tcc/ir/build.h"

namespace tcc::ir {

// The same expression in `arena`; shared nodes are copied once. nullptr stays nullptr.
Expr copy_expr(Arena& arena, Expr e);

}  // namespace tcc::ir
