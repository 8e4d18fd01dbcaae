// Sums and products of extents that are known at run time only, and where the elements of what is joined along such
// axes are. All are made once: results of the same counts have one count. Private to the room.
#pragma once

#include "handlers.h"

namespace tcc::onnx {

Made sum_of(NodeContext& c, std::vector<ValueId> counts, int64_t fixed);
Made product_of(NodeContext& c, std::vector<ValueId> counts, int64_t fixed);

// Both give i64 places among all elements, with the extents that they have in the graph, for each position of the
// result. Positions behind the last element that counts have some place. `ends`: kNone where the extent is fixed.
//
// Of parts side by side along one axis, each with its end.
Made joined_places(NodeContext& c, const std::vector<ValueId>& ends, const std::vector<int64_t>& extents);
// Of neighboring axes made one, each with its end.
Made packed_places(NodeContext& c, const std::vector<ValueId>& ends, const Shape& extents);

}  // namespace tcc::onnx
