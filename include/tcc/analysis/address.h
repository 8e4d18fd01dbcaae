// Addresses of accesses, and what divides them.
#pragma once

#include <span>

#include "tcc/ir/build.h"

namespace tcc::analysis {

// The address before the layout's xors, in elements.
ir::Expr flat_address(ir::Builder& b, const ir::Buffer& buffer, std::span<const ir::Expr> indices);

// A number that divides the value of e whatever the variables are; 0 for the constant 0.
int64_t known_divisor(const ir::Kernel& kernel, ir::Expr e);

}  // namespace tcc::analysis
