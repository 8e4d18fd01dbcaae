// Accesses of vectorized loops: what is contiguous over the lanes, and how wide an aligned access of it may be.
#pragma once

#include <vector>

#include "tcc/analysis/address.h"
#include "tcc/analysis/ranges.h"
#include "tcc/ir/build.h"
#include "tcc/ir/walk.h"

namespace tcc::analysis {

// e with Var(id) replaced by a constant and simplified.
ir::Expr at_lane(ir::Builder& b, const Ranges& ranges, ir::Expr e, ir::Id id, int64_t lane);

// Elements per access (a power of two, at least 2, that divides `extent`) with which the iterations of the vectorized
// loop `id` can read or write `buffer` from the flat address on: contiguous, aligned, at most 16 bytes. 1: none.
int64_t vector_width(ir::Builder& b, const ir::Kernel& kernel, const Ranges& ranges, const ir::Buffer& buffer,
                     ir::Expr flat, ir::Id id, int64_t extent);

// Memory that the threads of a GPU share: an access of it may be several elements wide.
inline bool is_gpu_memory(const ir::Buffer& buffer) {
  return buffer.scope == ir::Scope::kGlobal || buffer.scope == ir::Scope::kWorkspace ||
         buffer.scope == ir::Scope::kConst || buffer.scope == ir::Scope::kShared;
}

struct LaneStore {
  const ir::Store* store;
  ir::Expr predicate;  // of the store and the Ifs around it; nullptr: always
};
// Appends the stores of a body that holds only stores and one-sided conditions; false: it holds something else.
// `condition`: of what is around the body; nullptr: always.
bool lane_stores(ir::Builder& b, ir::Stmt body, ir::Expr condition, std::vector<LaneStore>& out);

// The loads that are evaluated together with `value`. Loads in the arms of a select or in the indices of another load
// may not be evaluated.
void visit_lane_loads(ir::Expr value, ir::FunctionRef<void(const ir::Load&)> f);

}  // namespace tcc::analysis
