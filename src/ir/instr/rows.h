// The families of the instruction table.
#pragma once

#include "tcc/ir/instr.h"

namespace tcc::ir {

// What the lanes of a warp do together, done when it returns.
constexpr Instruction warp_compute(Family family, std::string_view name, std::string_view feature,
                                   std::span<const OperandSpec> operands, std::string_view semantics, int64_t flops,
                                   int64_t bytes, std::string_view ptx) {
  return {.name = name,
          .family = family,
          .feature = feature,
          .participants = Participants::kWarp,
          .operands = operands,
          .semantics = semantics,
          .flops = flops,
          .bytes = bytes,
          .ptx = ptx};
}

// What one thread of a CPU computes.
constexpr Instruction cpu_compute(Family family, std::string_view name, std::string_view feature,
                                  std::span<const OperandSpec> operands, int32_t args, std::string_view semantics,
                                  int64_t flops, int64_t bytes, std::string_view llvm) {
  return {.name = name,
          .family = family,
          .feature = feature,
          .operands = operands,
          .num_args = args,
          .semantics = semantics,
          .flops = flops,
          .bytes = bytes,
          .llvm = llvm};
}

// What synchronizes or exchanges as its behavior says, done when it returns.
constexpr Instruction act(Family family, std::string_view name, std::string_view feature, Participants participants,
                          std::span<const OperandSpec> operands, int32_t args, Behaviour behaviour,
                          std::string_view ptx) {
  return {.name = name,
          .family = family,
          .feature = feature,
          .participants = participants,
          .operands = operands,
          .num_args = args,
          .behaviour = behaviour,
          .ptx = ptx};
}

std::span<const Instruction> x86_vector_rows();
std::span<const Instruction> amx_rows();
std::span<const Instruction> mma_rows();
std::span<const Instruction> matrix_move_rows();
std::span<const Instruction> async_copy_rows();
std::span<const Instruction> warp_rows();
std::span<const Instruction> barrier_rows();
std::span<const Instruction> wgmma_rows();
std::span<const Instruction> tensor_copy_rows();
std::span<const Instruction> wmma_rows();

}  // namespace tcc::ir
