// The storage of scratch on a CPU's stack: code generators allocate it, and checks of limits count it.
#pragma once

#include <cstdint>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::analysis {

inline constexpr int64_t kPaddedBelow = 64;        // longer rows lose less to their last vector than to padding
inline constexpr int64_t kPaddedBytes = 64 << 10;  // what is larger is a copy of part of a tensor, and no register tile

struct LocalStorage {
  std::vector<int64_t> strides;  // of the dimensions, in elements
  int64_t elements = 0;          // with the padding
};
// Row-major. The innermost dimension that is longer than 1 is padded to a power of two where it is short, so that
// register tiles whose vectors are partly masked still fall apart into whole vectors; large buffers are not padded. For
// buffers of constant shape without a layout.
LocalStorage local_storage(const ir::Buffer& buffer);
// Elements of the buffer's storage at most, whichever of its dimensions becomes the innermost.
int64_t local_elements_at_most(const ir::Buffer& buffer);

}  // namespace tcc::analysis
