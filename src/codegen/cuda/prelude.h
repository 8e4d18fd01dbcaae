// The device prelude: the one text in front of every kernel. It holds every asm statement; what is printed for a kernel
// calls its functions. No headers are included; NVRTC's built-in functions suffice. Another text that gives the same
// names their meaning runs the same kernels elsewhere. Private to codegen/cuda.
//
// An instruction row becomes the function row_function(row). It takes a pointer for every operand, in order, and then
// the arguments; where all of them are constants they are template arguments instead, so that the asm sees immediates.
// Arguments that must be immediates are template arguments always.
#pragma once

#include <string>

#include "tcc/ir/instr.h"

namespace tcc::codegen::cuda {

// The whole text: what every kernel may use, then the functions of the rows with a PTX text in table order.
const std::string& prelude();

// A source that begins with the prelude, with those functions of instructions only that it calls: NVRTC takes some
// milliseconds to read them all.
std::string without_unused(const std::string& source);

// "tcc_mma_m16n8k16_f32_f16" for the row "mma.m16n8k16.f32.f16".
std::string row_function(const ir::Instruction& row);
// The argument is part of the opcode or an immediate of it.
bool is_immediate(const ir::Instruction& row, size_t argument);
// "int", or "unsigned" for a mask of lanes.
const char* argument_type(const ir::Instruction& row);
// The operand is passed as a tensor map with the coordinates of a box of it, innermost first: its function takes
// (const tcc_tensor_map& NAME, int NAME0, int NAME1, ...) and is there for tensors of each rank.
bool is_tensor_map(const ir::Instruction& row, const ir::OperandSpec& spec);
inline constexpr size_t kMinMapRank = 2, kMaxMapRank = 5;
// The operand is passed as a tcc_matrix, what tcc_tile() makes of a pointer to shared memory.
bool is_matrix(const ir::Instruction& row, const ir::OperandSpec& spec);
// The operand is a matrix in shared memory whose rows are equally far apart; behind its pointer the function takes
// `int NAME_pitch`, that distance in elements, which is `%NAME_pitch` in the row's text.
bool has_pitch(const ir::Instruction& row, const ir::OperandSpec& spec);
// Elements of an operand that one participant holds.
int64_t registers_per_lane(const ir::OperandSpec& spec);
// Text of the pointer type that a row's function takes for an operand, "const float*".
std::string operand_pointer(const ir::OperandSpec& spec);

}  // namespace tcc::codegen::cuda
