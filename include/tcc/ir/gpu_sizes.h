// Sizes that the hardware fixes for every GPU that the instruction table knows. What differs between devices is in
// target::CudaInfo.
#pragma once

#include <cstdint>

namespace tcc::ir {

inline constexpr int64_t kWarpLanes = 32;
inline constexpr int64_t kGroupWarps = 4;  // of a warpgroup
inline constexpr int64_t kGroupLanes = kGroupWarps * kWarpLanes;
// Bytes that one lane reads or writes with one instruction, at most.
inline constexpr int64_t kMaxAccessBytes = 16;
// Tensor copies (CUDA driver API, "cuTensorMapEncodeTiled"): bytes that the strides of the tensor divide by, bytes of a
// row of a box with 128B swizzle, and the alignment of swizzled tiles in shared memory.
inline constexpr int64_t kTmaStrideAlign = 16;
inline constexpr int64_t kBoxBytes = 128;
inline constexpr int64_t kSwizzledTileAlignment = 1024;

}  // namespace tcc::ir
