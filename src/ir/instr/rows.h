// The families of the instruction table.
#pragma once

#include "tcc/ir/instr.h"

namespace tcc::ir {

std::span<const Instruction> x86_vector_rows();
std::span<const Instruction> amx_rows();
std::span<const Instruction> mma_rows();
std::span<const Instruction> matrix_move_rows();
std::span<const Instruction> wmma_rows();
std::span<const Instruction> async_copy_rows();
std::span<const Instruction> warp_rows();
std::span<const Instruction> barrier_rows();
std::span<const Instruction> wgmma_rows();
std::span<const Instruction> tensor_copy_rows();

}  // namespace tcc::ir
