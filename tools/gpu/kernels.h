// The kernels of gpu_check, built by hand at Stage::Lowered.
#pragma once

#include <cstdint>

#include "tcc/ir/kernel.h"

namespace tcc::gpu_check {

// Y[i] = max(A[i] + B[i], 0) for i < n, f32, any n. Parameters: A, B, Y. 256 threads, 16 elements each in four groups
// of four, so that eight 16-byte reads are under way before the first write.
ir::Kernel make_add_relu(int64_t n);

// Block tile rows x columns x depth; 256 threads in 8 warps of 4 x 8 lanes, each with a register tile of 4 x 4 pieces.
struct GemmTile {
  int64_t rows, columns, depth;
  bool operator==(const GemmTile&) const = default;
};
inline constexpr GemmTile kLargeTile{128, 128, 8};  // 8 x 8 a thread
inline constexpr GemmTile kSmallTile{64, 64, 16};   // 4 x 4 a thread

// C = A B, f32, row-major, A m x k, B k x n, any sizes. Parameters: A, B, C. Two shared buffers a tile, the next tile
// on its way to registers while the present one is multiplied, one barrier a tile.
ir::Kernel make_gemm(int64_t m, int64_t n, int64_t k, const GemmTile& tile);

}  // namespace tcc::gpu_check
