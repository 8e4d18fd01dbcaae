// Limits of the processes that run programs, and sizes that the hardware fixes for every device.
#pragma once

#include <cstdint>

namespace tcc::target {

// Bytes of local buffers that one launch may keep on the stack of a worker thread of the runtime.
inline constexpr int64_t kMaxStackBytes = 256 << 10;
// Bytes of a row in shared memory that the swizzles of tensor copies, matrix loads and matrix products move together.
inline constexpr int64_t kSwizzleBytes = 16;

}  // namespace tcc::target
