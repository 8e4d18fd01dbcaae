// What both models of GPUs, of kernels and of columns, know of copies. Private to the room.
#pragma once

namespace tcc::cost {

// Of the load and store unit, for each line of 128 bytes that one instruction of a warp touches when threads copy to
// shared memory. Fit to five products of f32 on an H100 (benchmarks/results/gpu_h100_networks.json, second_form): lines
// of a copy of 4 bytes a lane, beside the loads of shared memory.
inline constexpr double kCopyLineCycles = 1.25;

}  // namespace tcc::cost
