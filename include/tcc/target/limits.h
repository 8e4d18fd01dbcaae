// Limits of the processes that run programs.
#pragma once

#include <cstdint>

namespace tcc::target {

// Bytes of local buffers that one launch may keep on the stack of a worker thread of the runtime.
inline constexpr int64_t kMaxStackBytes = 256 << 10;

}  // namespace tcc::target
