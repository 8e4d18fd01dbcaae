// Names of blocks that both those who build naive kernels and those who schedule them know.
#pragma once

namespace tcc::ir {

// The block that copies the input of a window or a convolution with its border, or the positions of it that a strided
// pointwise convolution reads.
inline constexpr const char* kPadBlock = "pad";

}  // namespace tcc::ir
