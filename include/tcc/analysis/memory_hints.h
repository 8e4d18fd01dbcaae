// Where hints about memory have an effect: buffers whose stores may go past the caches, and lines to ask for ahead.
#pragma once

#include <set>
#include <vector>

#include "tcc/analysis/ranges.h"
#include "tcc/ir/query.h"

namespace tcc::analysis {

// Cache lines of a weight that one iteration asks for ahead, at most (AnnotationKey::kPrefetchWeights).
inline constexpr int64_t kMaxWeightLines = 64;

// The buffers that the statement writes and does not read, of those that `in_memory` accepts.
std::set<ir::Id> streamed_buffers(ir::Stmt s, ir::FunctionRef<bool(ir::Id)> in_memory);

// The cache lines that one access of a loop touches in one iteration.
struct LinesAhead {
  const ir::Buffer* buffer = nullptr;
  bool write = false;
  ir::Expr uniform = nullptr;   // element address in a later iteration, without the loops inside
  std::vector<int64_t> starts;  // first elements of the lines, from `uniform` on, ascending
};
// The accesses in the body of `l` whose address moves with the loop and whose other loops are constant, as they will be
// `distance` iterations later. Accesses of more than 4,096 elements and those with an xor in their layout are left out.
// `ranges` knows all loops; a line is `line_bytes` long.
std::vector<LinesAhead> lines_ahead(ir::Builder& b, const ir::Kernel& kernel, const Ranges& ranges, const ir::Loop& l,
                                    int64_t distance, int64_t line_bytes, ir::FunctionRef<bool(ir::Id)> in_memory);

}  // namespace tcc::analysis
