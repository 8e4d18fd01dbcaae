// Expressions of one element of elementwise operators, from the formulas of tcc/graph/scalar_formulas.h.
#pragma once

#include "tcc/graph/graph.h"
#include "tcc/ir/build.h"

namespace tcc::task {

// The result of the node for operands x and y in their compute type; y is nullptr where it has one operand.
// `wide_unsigned`: the operands are u32 or u64 in the signed type of that width.
ir::Expr element_value(ir::Builder& b, const graph::Node& node, bool wide_unsigned, ir::Expr x, ir::Expr y);

// u32 and u64, held in the signed type of that width, as signed numbers of the same order, and back: the top bit is
// turned.
ir::Expr flip_order(ir::Builder& b, ir::Expr x);

}  // namespace tcc::task
