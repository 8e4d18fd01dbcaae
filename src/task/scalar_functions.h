// The functions of graph/scalar.h as expressions of a kernel.
#pragma once

#include "tcc/graph/graph.h"
#include "tcc/ir/build.h"

namespace tcc::task {

// The function of x, computed in x's type, or in f64 where its row says so.
ir::Expr unary_value(ir::Builder& b, const graph::UnaryAttrs& attrs, ir::Expr x);
// The function of two operands of one type. `is_unsigned`: they are u32 or u64 numbers, which live in the signed types
// of their width.
ir::Expr binary_value(ir::Builder& b, graph::BinaryFn fn, bool is_unsigned, ir::Expr x, ir::Expr y);

}  // namespace tcc::task
