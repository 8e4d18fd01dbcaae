// Index arithmetic of the host emitter: flat addresses, and what an index does from lane to lane of a vector loop.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tcc/analysis/ranges.h"
#include "tcc/ir/build.h"
#include "tcc/ir/query.h"

namespace tcc::codegen {

// The vectorised loop being emitted: lane l of the current piece is iteration base + l.
struct LaneRange {
  ir::Id id = ir::kNoId;
  int64_t base = 0;
  int64_t lanes = 0;   // of the piece, a power of two
  int64_t extent = 0;  // of the whole loop
};

// An index expression as a part that is the same in all lanes plus a constant for each lane.
struct LaneSplit {
  ir::Expr uniform = nullptr;    // never nullptr
  std::vector<int64_t> offsets;  // one per lane; empty: the same in all lanes
};

// k*(x mod c) + k*c*(x div c) becomes k*x, also below a common division: undoes split-then-flatten.
ir::Expr recombine(ir::Builder& b, ir::Expr e, const analysis::Ranges* ranges = nullptr);
// nullopt when the lanes differ by something that is not constant.
std::optional<LaneSplit> split_lanes(ir::Builder& b, ir::Expr e, const LaneRange& range);
// Element address of logical `indices`: row-major over `strides`, or by the layout's digits (its xors are not applied).
// `ranges` knows the loops; it removes the divisions of digits that the index cannot reach.
ir::Expr flatten(ir::Builder& b, const ir::Buffer& buffer, std::span<const int64_t> strides,
                 std::span<const ir::Expr> indices, const analysis::Ranges& ranges);
// Largest power of two (at most 64) that divides every value of the expression.
int64_t known_divisor(ir::Expr e);

}  // namespace tcc::codegen
