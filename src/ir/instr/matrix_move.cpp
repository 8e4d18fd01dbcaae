// ldmatrix: two or four matrices of eight rows of 16 bytes from shared memory. Lane 8*m + r passes the address of row r
// of matrix m; lane l receives the 4 bytes l % 4 of row l / 4 of each matrix (PTX manual, "ldmatrix"). The instruction
// moves halves; for wider and narrower elements only the form that keeps the 4 bytes of a lane together is of use.
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

constexpr std::string_view kRegisters4 = "layout[4,8,8]{0/1%4@reg*2, 1/1%8@lane*4, 2/2%4@lane*1, 2/1%2@reg*1} size 256";
constexpr std::string_view kAddresses4 = "layout[4,8,8]{0/1%4@lane*8, 1/1%8@lane*1, 2/1%8@addr*1} size 256";
constexpr std::string_view kRegisters2 = "layout[2,8,8]{0/1%2@reg*2, 1/1%8@lane*4, 2/2%4@lane*1, 2/1%2@reg*1} size 128";
constexpr std::string_view kAddresses2 = "layout[2,8,8]{0/1%2@lane*8, 1/1%8@lane*1, 2/1%8@addr*1} size 128";
constexpr std::string_view kWords4 = "layout[4,8,4]{0/1%4@reg*1, 1/1%8@lane*4, 2/1%4@lane*1} size 128";
constexpr std::string_view kWordAddresses4 = "layout[4,8,4]{0/1%4@lane*8, 1/1%8@lane*1, 2/1%4@addr*1} size 128";
constexpr std::string_view kWords2 = "layout[2,8,4]{0/1%2@reg*1, 1/1%8@lane*4, 2/1%4@lane*1} size 64";
constexpr std::string_view kWordAddresses2 = "layout[2,8,4]{0/1%2@lane*8, 1/1%8@lane*1, 2/1%4@addr*1} size 64";
constexpr std::string_view kBytes4 = "layout[4,8,16]{0/1%4@reg*4, 1/1%8@lane*4, 2/4%4@lane*1, 2/1%4@reg*1} size 512";
constexpr std::string_view kByteAddresses4 = "layout[4,8,16]{0/1%4@lane*8, 1/1%8@lane*1, 2/1%16@addr*1} size 512";
constexpr std::string_view kBytes2 = "layout[2,8,16]{0/1%2@reg*4, 1/1%8@lane*4, 2/4%4@lane*1, 2/1%4@reg*1} size 256";
constexpr std::string_view kByteAddresses2 = "layout[2,8,16]{0/1%2@lane*8, 1/1%8@lane*1, 2/1%16@addr*1} size 256";

constexpr std::string_view registers(Type t, int64_t n) {
  const int64_t bytes = type_bytes(t);
  return bytes == 2   ? (n == 4 ? kRegisters4 : kRegisters2)
         : bytes == 4 ? (n == 4 ? kWords4 : kWords2)
                      : (n == 4 ? kBytes4 : kBytes2);
}
constexpr std::string_view addresses(Type t, int64_t n) {
  const int64_t bytes = type_bytes(t);
  return bytes == 2   ? (n == 4 ? kAddresses4 : kAddresses2)
         : bytes == 4 ? (n == 4 ? kWordAddresses4 : kWordAddresses2)
                      : (n == 4 ? kByteAddresses4 : kByteAddresses2);
}

template <Type T, int64_t N>
constexpr OperandSpec kOperands[] = {
    {"D", T, Scope::kLocal, Access::kWrite, 3, {N, 8, 16 / type_bytes(T)}, registers(T, N)},
    {"S", T, Scope::kShared, Access::kRead, 3, {N, 8, 16 / type_bytes(T)}, addresses(T, N), 16}};

constexpr Instruction row(std::string_view name, std::span<const OperandSpec> operands, std::string_view semantics,
                          int64_t bytes, std::string_view ptx) {
  return warp_compute(Family::kLdmatrix, name, "ldmatrix", operands, semantics, 0, bytes, ptx);
}

constexpr std::string_view kPlain4 = "for m in 4 { for r in 8 { for c in 8 { D[m, r, c] = S[m, r, c] } } }";
constexpr std::string_view kTrans4 = "for m in 4 { for r in 8 { for c in 8 { D[m, r, c] = S[m, c, r] } } }";
constexpr std::string_view kPlain2 = "for m in 2 { for r in 8 { for c in 8 { D[m, r, c] = S[m, r, c] } } }";
constexpr std::string_view kTrans2 = "for m in 2 { for r in 8 { for c in 8 { D[m, r, c] = S[m, c, r] } } }";
constexpr std::string_view kX4 = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 %D, [%S];";
constexpr std::string_view kX4Trans = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 %D, [%S];";
constexpr std::string_view kX2 = "ldmatrix.sync.aligned.m8n8.x2.shared.b16 %D, [%S];";
constexpr std::string_view kX2Trans = "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 %D, [%S];";

constexpr Instruction kRows[] = {
    row("ldmatrix.x4.f16", kOperands<Type::kF16, 4>, kPlain4, 512, kX4),
    row("ldmatrix.x4.trans.f16", kOperands<Type::kF16, 4>, kTrans4, 512, kX4Trans),
    row("ldmatrix.x2.f16", kOperands<Type::kF16, 2>, kPlain2, 256, kX2),
    row("ldmatrix.x2.trans.f16", kOperands<Type::kF16, 2>, kTrans2, 256, kX2Trans),
    row("ldmatrix.x4.bf16", kOperands<Type::kBF16, 4>, kPlain4, 512, kX4),
    row("ldmatrix.x4.trans.bf16", kOperands<Type::kBF16, 4>, kTrans4, 512, kX4Trans),
    row("ldmatrix.x2.bf16", kOperands<Type::kBF16, 2>, kPlain2, 256, kX2),
    row("ldmatrix.x2.trans.bf16", kOperands<Type::kBF16, 2>, kTrans2, 256, kX2Trans),
    row("ldmatrix.x4.f32", kOperands<Type::kF32, 4>,
        "for m in 4 { for r in 8 { for c in 4 { D[m, r, c] = S[m, r, c] } } }", 512, kX4),
    row("ldmatrix.x2.f32", kOperands<Type::kF32, 2>,
        "for m in 2 { for r in 8 { for c in 4 { D[m, r, c] = S[m, r, c] } } }", 256, kX2),
    row("ldmatrix.x4.i8", kOperands<Type::kI8, 4>,
        "for m in 4 { for r in 8 { for c in 16 { D[m, r, c] = S[m, r, c] } } }", 512, kX4),
    row("ldmatrix.x2.i8", kOperands<Type::kI8, 2>,
        "for m in 2 { for r in 8 { for c in 16 { D[m, r, c] = S[m, r, c] } } }", 256, kX2),
};

}  // namespace

std::span<const Instruction> matrix_move_rows() {
  return kRows;
}

}  // namespace tcc::ir
