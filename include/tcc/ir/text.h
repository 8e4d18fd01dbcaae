// The text form of kernels: parse(print(k)) == k (same hash, same numbering in the order of first appearance).
#pragma once

#include <string>
#include <string_view>

#include "tcc/ir/kernel.h"
#include "tcc/support/result.h"

namespace tcc::ir {

std::string print(const Kernel& kernel);
std::string print(const Kernel& kernel, Expr e);  // one expression, names as in the kernel
std::string print(const Kernel& kernel, Stmt s);
// Errors: line, column, what was expected, as "<file>:3:14: expected ...".
Result<Kernel> parse(std::string_view text, std::string_view file = "<text>");

}  // namespace tcc::ir
