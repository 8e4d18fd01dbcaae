// The exact GELU within an expression, which backends compute as one function instead of by an error function.
//
//   0.5 * x * (1.0 + erf(x * 0.70710678)) * b      scale 1, x, rest {b}
#pragma once

#include <optional>
#include <vector>

#include "tcc/ir/expr.h"

namespace tcc::analysis {

// A product that equals scale * x/2 * (1 + erf(x / sqrt(2))) * rest[0] * rest[1] * ...
struct Gelu {
  double scale = 1;
  ir::Expr x = nullptr;
  std::vector<ir::Expr> rest;
};
// nullopt: the expression is not a product of single precision with these factors, in any order.
std::optional<Gelu> match_gelu(ir::Expr e);

}  // namespace tcc::analysis
