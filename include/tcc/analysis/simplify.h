// The rule-table simplifier: what the canonical form cannot know because it needs ranges. Shrinks, and is idempotent.
#pragma once

#include "tcc/analysis/ranges.h"

namespace tcc::analysis {

// Equal to e wherever the ranges hold.
ir::Expr simplify(ir::Builder& b, ir::Expr e, const Ranges& ranges);

}  // namespace tcc::analysis
