// Regions: which part of a buffer some statements touch, relative to a scope. Derived, never stored.
#pragma once

#include <functional>
#include <vector>

#include "tcc/analysis/ranges.h"
#include "tcc/ir/walk.h"

namespace tcc::analysis {

// One access: indices as expressions of loops (block iterators already replaced by their bindings).
struct AccessInfo {
  ir::Id buffer;
  bool write;
  std::vector<ir::Expr> indices;
};
// Loops from the root down to a statement, outermost first.
using LoopStack = std::vector<const ir::Loop*>;

// Calls f(access, loops around it, innermost block or nullptr) for every load, store and operand below `root`,
// in program order. Stores come after the loads of the same statement. Init statements of blocks are included.
void visit_accesses(ir::Builder& b, ir::Stmt root,
                    ir::FunctionRef<void(const AccessInfo&, const LoopStack&, const ir::Block*)> f);

struct DimRange {
  ir::Expr base;    // first element, over variables outside the scope
  ir::Expr extent;  // number of elements
};
// The range of one index when the variables with inner(v) run over their ranges and all others are fixed; nullopt when
// it is not an affine box.
std::optional<DimRange> dim_range(ir::Builder& b, ir::Expr index, const Ranges& ranges,
                                  ir::FunctionRef<bool(ir::Id)> inner);
// The smallest box around both, when their bases differ by a constant; nullopt otherwise.
std::optional<DimRange> unite(ir::Builder& b, const DimRange& x, const DimRange& y);
// A range that begins in the dimension and overhangs it is shortened to the dimension's extent. It asks for no more
// than the sign of the base: whether a base is a number may depend on decisions, and with symbols the range must be the
// one that numbers give.
DimRange clip(ir::Builder& b, const DimRange& range, ir::Expr dimension, const Ranges& ranges);

}  // namespace tcc::analysis
