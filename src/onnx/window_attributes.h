// What Conv, the pools and ConvTranspose read alike.
#pragma once

#include "handlers.h"

namespace tcc::onnx {

inline constexpr int64_t kMaxAttribute = int64_t{1} << 20;

// The attribute's list, `otherwise` for each entry where it is missing; each entry is from `least` to kMaxAttribute.
Result<std::vector<int64_t>> list_of(NodeContext& c, const char* name, size_t entries, int64_t otherwise,
                                     int64_t least);
Result<size_t> spatial_axes(const NodeContext& c);

// x with its last axis moved to the second place, or its second axis to the last.
Made channels_moved(NodeContext& c, const Made& x, bool to_second);
// x (batch, channels, spatial axes) averaged over the windows that the node's attributes describe.
Made emit_average_pool(NodeContext& c, graph::ValueId x);

}  // namespace tcc::onnx
