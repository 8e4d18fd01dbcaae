// ldmatrix: four 8x8 matrices of halves from shared memory. Lane 8*m + r passes the address of row r of matrix m; lane
// l receives columns 2*(l % 4) and the next of row l / 4 of each matrix (PTX manual, "ldmatrix").
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

constexpr std::string_view kRegisters = "layout[4,8,8]{0/1%4@reg*2, 1/1%8@lane*4, 2/2%4@lane*1, 2/1%2@reg*1} size 256";
constexpr std::string_view kAddresses = "layout[4,8,8]{0/1%4@lane*8, 1/1%8@lane*1, 2/1%8@addr*1} size 256";

template <Type T>
constexpr OperandSpec kOperands[] = {{"D", T, Scope::kLocal, Access::kWrite, 3, {4, 8, 8}, kRegisters},
                                     {"S", T, Scope::kShared, Access::kRead, 3, {4, 8, 8}, kAddresses, 16}};

constexpr Instruction row(std::string_view name, std::span<const OperandSpec> operands, bool transposed) {
  return {.name = name,
          .feature = "ldmatrix",
          .participants = Participants::kWarp,
          .operands = operands,
          .num_args = 0,
          .completion = Completion::kImmediate,
          .proxy = Proxy::kGeneric,
          .behaviour = Behaviour::kCompute,
          .semantics = transposed ? "for m in 4 { for r in 8 { for c in 8 { D[m, r, c] = S[m, c, r] } } }"
                                  : "for m in 4 { for r in 8 { for c in 8 { D[m, r, c] = S[m, r, c] } } }",
          .flops = 0,
          .bytes = 512,
          .ptx = transposed ? "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 %D, [%S];"
                            : "ldmatrix.sync.aligned.m8n8.x4.shared.b16 %D, [%S];"};
}

constexpr Instruction kRows[] = {
    row("ldmatrix.x4.f16", kOperands<Type::kF16>, false),
    row("ldmatrix.x4.trans.f16", kOperands<Type::kF16>, true),
    row("ldmatrix.x4.bf16", kOperands<Type::kBF16>, false),
    row("ldmatrix.x4.trans.bf16", kOperands<Type::kBF16>, true),
};

}  // namespace

std::span<const Instruction> matrix_move_rows() {
  return kRows;
}

}  // namespace tcc::ir
