// Which ldmatrix loads a fragment's tile: that follows from the fragment's layout over lanes and from the dimension
// that is contiguous in shared memory.
#pragma once

#include <cstdint>
#include <optional>

#include "tcc/ir/instr.h"
#include "tcc/ir/layout.h"
#include "tcc/ir/type.h"

namespace tcc::lower {

struct MatrixLoad {
  int32_t row = -1;           // of the instruction table
  int64_t tiles = 1;          // neighboring tiles that one instruction loads
  int rows = 0;               // dimension of the tile along which the eight lanes of a matrix pass addresses
  int64_t offset[2][2] = {};  // [bit of the matrix number][dimension]: how far that bit moves a matrix
};

// `contiguous`: the tile's dimension along memory. `next`: the dimension along which `count` tiles follow each other in
// the registers. nullopt: the lanes' registers are not rows of matrices, or too few of them.
std::optional<MatrixLoad> plan_matrix_load(const ir::Layout& layout, ir::Type type, int contiguous, int next,
                                           int64_t count);

// The row that moves an opaque fragment's tile: out of shared memory (`load`), or into it. -1: no row does.
int32_t find_tile_move(const ir::OperandSpec& fragment, bool load);

}  // namespace tcc::lower
