// The lanes of a vectorized loop on a CPU: flat addresses, and how an index moves from lane to lane.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "tcc/analysis/ranges.h"
#include "tcc/ir/build.h"
#include "tcc/ir/query.h"

namespace tcc::analysis {

// A piece of a vectorized loop: lane l is iteration base + l.
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

// nullopt when the lanes differ by a value that is not constant.
std::optional<LaneSplit> split_lanes(ir::Builder& b, ir::Expr e, const LaneRange& range);
// Row-major strides in elements of a buffer without a layout; a symbolic extent counts as 1.
std::vector<int64_t> row_major_strides(const ir::Buffer& buffer);
// Element address of logical `indices`: row-major over `strides`, or by the layout's digits (its xors are not applied).
// `ranges` knows the loops; it removes the divisions of digits that the index cannot reach.
ir::Expr flatten(ir::Builder& b, const ir::Buffer& buffer, std::span<const int64_t> strides,
                 std::span<const ir::Expr> indices, const Ranges& ranges);

// Length of the runs of consecutive elements that the lanes fall into, a power of two.
int64_t run_length(const std::vector<int64_t>& offsets);
// Are runs of this length accessed one by one, as vectors of their own?
inline bool is_vector_run(int64_t run, int64_t element_bytes) {
  return run >= 4 && run * element_bytes >= 16;
}
// Vectors of `piece` elements that cover `span` elements are few enough to load all of them and pick the lanes.
inline bool is_cheap_cover(int64_t span, int64_t piece, int64_t lanes) {
  return (span + piece - 1) / piece <= (piece == lanes ? 4 : 2);
}
// Windows of a register's width, each of which is read once, cost less than reading each of these lanes by itself.
inline bool are_few_windows(int64_t windows, int64_t lanes) {
  return lanes >= 4 && windows <= std::max<int64_t>(3, lanes / 4);
}
// Does an access of these lanes, without a mask, touch single elements? Neither runs nor a cheap cover serve it.
bool lanes_are_apart(const std::vector<int64_t>& offsets, int64_t element_bytes, bool store);
// Neighboring columns below which single elements are as fast as a square that is transposed in registers.
inline constexpr int64_t kMinTransposed = 4;
// Of lanes' places (elements) and of stores or loads: the fewest neighboring columns that are worth shuffles. Two
// columns whose elements follow each other lane by lane, as pairs of 16-bit numbers for dot products do, are one run of
// memory.
inline int64_t least_transposed(std::span<const int64_t> places, bool store) {
  for (size_t lane = 1; lane < places.size(); ++lane)
    if (places[lane] != places[lane - 1] + 2) return kMinTransposed;
  return store ? 2 : kMinTransposed;
}
// Buffers on the stack of at most this size may be in registers, element by element: squares would keep them in memory.
inline constexpr int64_t kMostInRegisters = 4096;  // bytes; all registers of AVX-512 hold 2048

}  // namespace tcc::analysis
