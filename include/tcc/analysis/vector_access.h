// Accesses of vectorised loops: what is contiguous over the lanes, and how wide an aligned access of it may be.
#pragma once

#include "tcc/analysis/address.h"
#include "tcc/analysis/ranges.h"
#include "tcc/ir/build.h"

namespace tcc::analysis {

// e with Var(id) replaced by a constant and simplified.
ir::Expr at_lane(ir::Builder& b, const Ranges& ranges, ir::Expr e, ir::Id id, int64_t lane);

// Elements per access (a power of two, at least 2, that divides `extent`) with which the iterations of the vectorised
// loop `id` can read or write `buffer` from the flat address on: contiguous, aligned, at most 16 bytes. 1: none.
int64_t vector_width(ir::Builder& b, const ir::Kernel& kernel, const Ranges& ranges, const ir::Buffer& buffer,
                     ir::Expr flat, ir::Id id, int64_t extent);

}  // namespace tcc::analysis
