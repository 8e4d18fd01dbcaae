// Does every iteration of some loops give the block another instance, or an index another value? Recomputing blocks
// (halo, compute_at without need) do not.
#pragma once

#include <optional>
#include <vector>

#include "tcc/analysis/ranges.h"
#include "tcc/ir/stmt.h"

namespace tcc::analysis {

// True only when certain: with everything else fixed, distinct values of `loops` give distinct iterator values of the
// block. Understands mixed radix sums of loop variables, of constant or symbolic radix, variables that
// are taken apart into digits of constant radix, and digits of one place among all instances, whatever loops make it.
bool is_injective(ir::Builder& b, const ir::Block& block, std::span<const ir::Loop* const> loops, const Ranges& ranges);

// By how much an index moves with a loop of constant extent, without its sign.
struct LoopStep {
  ir::Id loop = ir::kNoId;
  int64_t step = 0, extent = 0;
};
// Those of the loops in which the index is linear and that it mentions; nullopt: another index.
std::optional<std::vector<LoopStep>> loop_steps(ir::Expr index, std::span<const ir::Loop* const> loops);
// True only when certain: iterations of the loops give distinct values, because each step is beyond what the smaller
// ones reach.
bool are_distinct(std::vector<LoopStep> steps);

}  // namespace tcc::analysis
