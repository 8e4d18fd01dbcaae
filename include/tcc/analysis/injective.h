// Does every iteration of some loops give the block another instance? Recomputing blocks (halo, compute_at without
// need) do not.
#pragma once

#include "tcc/analysis/ranges.h"
#include "tcc/ir/stmt.h"

namespace tcc::analysis {

// True only when certain: with everything else fixed, distinct values of `loops` give distinct iterator values of the
// block. Understands mixed radix sums of loop variables, of constant or symbolic radix, and variables that
// are taken apart into digits of constant radix.
bool is_injective(ir::Builder& b, const ir::Block& block, std::span<const ir::Loop* const> loops, const Ranges& ranges);

}  // namespace tcc::analysis
