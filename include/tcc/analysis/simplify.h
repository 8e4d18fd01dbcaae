// The rule-table simplifier: what the canonical form cannot know because it needs ranges. Shrinks, and is idempotent.
#pragma once

#include "tcc/analysis/ranges.h"

namespace tcc::analysis {

// Equal to e wherever the ranges hold.
ir::Expr simplify(ir::Builder& b, ir::Expr e, const Ranges& ranges);

// The same for an address, the sum of a tensor's digits, with rules that put digits of fused and split loops together
// again. They would change the text of kernels and with it the hashes of records, so `simplify` is without them.
ir::Expr simplify_address(ir::Builder& b, ir::Expr e, const Ranges& ranges);

}  // namespace tcc::analysis
