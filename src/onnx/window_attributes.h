// What Conv, the pools and ConvTranspose read alike.
#pragma once

#include "handlers.h"

namespace tcc::onnx {

inline constexpr int64_t kMaxAttribute = int64_t{1} << 20;

// The attribute's list, `otherwise` for each entry where it is missing; each entry is from `least` to kMaxAttribute.
Result<std::vector<int64_t>> list_of(NodeContext& c, const char* name, size_t entries, int64_t otherwise,
                                     int64_t least);
Result<size_t> spatial_axes(const NodeContext& c);

}  // namespace tcc::onnx
