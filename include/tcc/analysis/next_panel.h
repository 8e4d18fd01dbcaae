// Which weights a program reads soon, beyond those that its innermost loop is about to read.
//
// A panel is the run of a weight's elements that the innermost loops sweep: for a matrix product, all of a block of
// columns. Loops around sweep it again, for other rows, and then the next panel begins. Only the first sweep reads from
// memory, and so needs many times the bandwidth that the later ones leave unused. When each iteration of each sweep
// asks for a small part of the next panel, the bandwidth that is needed is even.
#pragma once

#include <optional>
#include <span>

#include "tcc/analysis/ranges.h"
#include "tcc/ir/query.h"

namespace tcc::analysis {

struct NextPanel {
  const ir::Buffer* buffer = nullptr;
  int64_t elements = 0;        // of one panel, side by side
  int64_t iterations = 0;      // of `l`, in all sweeps of a panel
  int64_t each = 0;            // how many elements one iteration asks for: all of them ask for the panel
  ir::Expr address = nullptr;  // the first of these, in elements from the start of the buffer's storage
};

// Of the buffer with the largest panel, of those that `is_meant` accepts: what an iteration of `l` asks for. `around`
// are the loops around `l`, outermost first; `ranges` knows all loops. The sweeps are by serial loops of constant
// extents, without gaps, and there are at least two of them. A loop that several ones were fused into may repeat and
// advance. The address behind the last panel is behind the buffer. nullopt: nothing is swept twice.
std::optional<NextPanel> next_panel(ir::Builder& b, const ir::Kernel& kernel, const Ranges& ranges,
                                    std::span<const ir::Loop* const> around, const ir::Loop& l,
                                    ir::FunctionRef<bool(ir::Id)> is_meant);

}  // namespace tcc::analysis
