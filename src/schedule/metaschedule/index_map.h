// Index maps of TVM as it writes them in JSON: {"root_index": r, "nodes": [{"type": ..., "data": ...}, ...]}, a graph
// whose nodes refer to each other by number.
#pragma once

#include <string_view>
#include <vector>

#include "tcc/schedule/primitives.h"
#include "tcc/support/result.h"

namespace tcc::schedule {

// Each output is the mixed radix number of digits (v / divisor) % extent of the inputs, outermost first; extent 0: the
// rest. No digit: always 0.
struct IndexMap {
  size_t inputs = 0;
  std::vector<std::vector<IterDigit>> outputs;
};

// Of sums of inputs times constants, and quotients and remainders of these by constants. An error says which output has
// another form and why.
Result<IndexMap> parse_index_map(std::string_view json);

// The physical layout in which an index goes where the map says, as transform_layout takes it: a tile is (dimension,
// extent), and `order` numbers the dimensions' outer parts and, from the rank on, the tiles.
struct BlockedOrder {
  std::vector<int64_t> order;
  std::vector<std::pair<int64_t, int64_t>> tiles;
};
Result<BlockedOrder> blocked_order(const IndexMap& map);

}  // namespace tcc::schedule
