// mma.sync of one warp, A row-major, B column-major, D = A*B + D. Fragment layouts as in the PTX manual, "Matrix
// Fragments for mma.m16n8k..": with group = lane / 4 and t = lane % 4; a register here is one element, so a .b32
// register of halves is two. The hardware ignores the low 13 bits of the tf32 rows' operands; code rounds them first.
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

constexpr std::string_view kD16x8 = "layout[16,8]{0/8%2@reg*2, 0/1%8@lane*4, 1/2%4@lane*1, 1/1%2@reg*1} size 128";
constexpr std::string_view kA16x16 =
    "layout[16,16]{1/8%2@reg*4, 0/8%2@reg*2, 0/1%8@lane*4, 1/2%4@lane*1, 1/1%2@reg*1} size 256";
constexpr std::string_view kB16x8 = "layout[16,8]{0/8%2@reg*2, 1/1%8@lane*4, 0/2%4@lane*1, 0/1%2@reg*1} size 128";
constexpr std::string_view kA16x8 = "layout[16,8]{1/4%2@reg*2, 0/8%2@reg*1, 0/1%8@lane*4, 1/1%4@lane*1} size 128";
constexpr std::string_view kB8x8 = "layout[8,8]{0/4%2@reg*1, 1/1%8@lane*4, 0/1%4@lane*1} size 64";
constexpr std::string_view kA16x32 =
    "layout[16,32]{1/16%2@reg*8, 0/8%2@reg*4, 0/1%8@lane*4, 1/4%4@lane*1, 1/1%4@reg*1} size 512";
constexpr std::string_view kB32x8 = "layout[32,8]{0/16%2@reg*4, 1/1%8@lane*4, 0/4%4@lane*1, 0/1%4@reg*1} size 256";

// Halves, k of 8: A has the registers of D.
constexpr std::string_view kB8x8Half = "layout[8,8]{1/1%8@lane*4, 0/2%4@lane*1, 0/1%2@reg*1} size 64";
constexpr std::string_view kBt8x8Half = "layout[8,8]{0/1%8@lane*4, 1/2%4@lane*1, 1/1%2@reg*1} size 64";

// The same registers of B where its tile is transposed, [n, k].
constexpr std::string_view kBt8x16 = "layout[8,16]{1/8%2@reg*2, 0/1%8@lane*4, 1/2%4@lane*1, 1/1%2@reg*1} size 128";
constexpr std::string_view kBt8x8 = "layout[8,8]{1/4%2@reg*1, 0/1%8@lane*4, 1/1%4@lane*1} size 64";
constexpr std::string_view kBt8x32 = "layout[8,32]{1/16%2@reg*4, 0/1%8@lane*4, 1/4%4@lane*1, 1/1%4@reg*1} size 256";

constexpr OperandSpec fragment(std::string_view name, Type type, Access access, int64_t rows, int64_t columns,
                               std::string_view layout) {
  return {name, type, Scope::kLocal, access, 2, {rows, columns}, layout};
}
constexpr Instruction row(std::string_view name, std::string_view feature, std::span<const OperandSpec> operands,
                          std::string_view semantics, int64_t flops, std::string_view ptx) {
  return warp_compute(Family::kMma, name, feature, operands, semantics, flops, 0, ptx);
}

constexpr OperandSpec kF16[] = {fragment("D", Type::kF32, Access::kReadWrite, 16, 8, kD16x8),
                                fragment("A", Type::kF16, Access::kRead, 16, 16, kA16x16),
                                fragment("B", Type::kF16, Access::kRead, 16, 8, kB16x8)};
constexpr OperandSpec kBF16[] = {fragment("D", Type::kF32, Access::kReadWrite, 16, 8, kD16x8),
                                 fragment("A", Type::kBF16, Access::kRead, 16, 16, kA16x16),
                                 fragment("B", Type::kBF16, Access::kRead, 16, 8, kB16x8)};
constexpr OperandSpec kHalf[] = {fragment("D", Type::kF16, Access::kReadWrite, 16, 8, kD16x8),
                                 fragment("A", Type::kF16, Access::kRead, 16, 16, kA16x16),
                                 fragment("B", Type::kF16, Access::kRead, 16, 8, kB16x8)};
constexpr OperandSpec kTf32[] = {fragment("D", Type::kF32, Access::kReadWrite, 16, 8, kD16x8),
                                 fragment("A", Type::kF32, Access::kRead, 16, 8, kA16x8),
                                 fragment("B", Type::kF32, Access::kRead, 8, 8, kB8x8)};
constexpr OperandSpec kInt8[] = {fragment("D", Type::kI32, Access::kReadWrite, 16, 8, kD16x8),
                                 fragment("A", Type::kI8, Access::kRead, 16, 32, kA16x32),
                                 fragment("B", Type::kI8, Access::kRead, 32, 8, kB32x8)};

constexpr OperandSpec kF16K8[] = {kF16[0], fragment("A", Type::kF16, Access::kRead, 16, 8, kD16x8),
                                  fragment("B", Type::kF16, Access::kRead, 8, 8, kB8x8Half)};

constexpr OperandSpec kBF16K8[] = {kF16[0], fragment("A", Type::kBF16, Access::kRead, 16, 8, kD16x8),
                                   fragment("B", Type::kBF16, Access::kRead, 8, 8, kB8x8Half)};

// B transposed.
constexpr OperandSpec kBF16K8Bt[] = {kF16[0], kBF16K8[1], fragment("B", Type::kBF16, Access::kRead, 8, 8, kBt8x8Half)};
constexpr OperandSpec kF16K8Bt[] = {kF16[0], kF16K8[1], fragment("B", Type::kF16, Access::kRead, 8, 8, kBt8x8Half)};
constexpr OperandSpec kF16Bt[] = {kF16[0], kF16[1], fragment("B", Type::kF16, Access::kRead, 8, 16, kBt8x16)};
constexpr OperandSpec kBF16Bt[] = {kBF16[0], kBF16[1], fragment("B", Type::kBF16, Access::kRead, 8, 16, kBt8x16)};
constexpr OperandSpec kTf32Bt[] = {kTf32[0], kTf32[1], fragment("B", Type::kF32, Access::kRead, 8, 8, kBt8x8)};
constexpr OperandSpec kInt8Bt[] = {kInt8[0], kInt8[1], fragment("B", Type::kI8, Access::kRead, 8, 32, kBt8x32)};

constexpr std::string_view kFloat16 =
    "for i in 16 { for j in 8 { for k in 16 { D[i, j] = D[i, j] + f32(A[i, k]) * f32(B[k, j]) } } }";

constexpr std::string_view kFloat16Bt =
    "for i in 16 { for j in 8 { for k in 16 { D[i, j] = D[i, j] + f32(A[i, k]) * f32(B[j, k]) } } }";

constexpr std::string_view kFloat8 =
    "for i in 16 { for j in 8 { for k in 8 { D[i, j] = D[i, j] + f32(A[i, k]) * f32(B[k, j]) } } }";
constexpr std::string_view kFloat8Bt =
    "for i in 16 { for j in 8 { for k in 8 { D[i, j] = D[i, j] + f32(A[i, k]) * f32(B[j, k]) } } }";

constexpr Instruction kRows[] = {
    row("mma.m16n8k16.f32.f16", "mma_m16n8k16", kF16, kFloat16, 4096,
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 %D, %A, %B, %D;"),
    row("mma.m16n8k8.f32.f16", "mma_m16n8", kF16K8, kFloat8, 2048,
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 %D, %A, %B, %D;"),
    row("mma.m16n8k8.f32.f16.bt", "mma_m16n8", kF16K8Bt, kFloat8Bt, 2048,
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 %D, %A, %B, %D;"),
    row("mma.m16n8k8.f32.bf16", "bf16", kBF16K8, kFloat8, 2048,
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 %D, %A, %B, %D;"),
    row("mma.m16n8k8.f32.bf16.bt", "bf16", kBF16K8Bt, kFloat8Bt, 2048,
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 %D, %A, %B, %D;"),
    row("mma.m16n8k16.f32.bf16", "bf16", kBF16, kFloat16, 4096,
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 %D, %A, %B, %D;"),
    row("mma.m16n8k16.f16.f16", "mma_m16n8k16", kHalf,
        "for i in 16 { for j in 8 { for k in 16 { D[i, j] = D[i, j] + A[i, k] * B[k, j] } } }", 4096,
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 %D, %A, %B, %D;"),
    row("mma.m16n8k8.f32.tf32", "tf32", kTf32,
        "for i in 16 { for j in 8 { for k in 8 { D[i, j] = D[i, j] + A[i, k] * B[k, j] } } }", 2048,
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 %D, %A, %B, %D;"),
    row("mma.m16n8k32.i32.i8", "mma_m16n8k16", kInt8,
        "for i in 16 { for j in 8 { for k in 32 { D[i, j] = D[i, j] + i32(A[i, k]) * i32(B[k, j]) } } }", 8192,
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 %D, %A, %B, %D;"),
    row("mma.m16n8k16.f32.f16.bt", "mma_m16n8k16", kF16Bt, kFloat16Bt, 4096,
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 %D, %A, %B, %D;"),
    row("mma.m16n8k16.f32.bf16.bt", "bf16", kBF16Bt, kFloat16Bt, 4096,
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 %D, %A, %B, %D;"),
    row("mma.m16n8k8.f32.tf32.bt", "tf32", kTf32Bt,
        "for i in 16 { for j in 8 { for k in 8 { D[i, j] = D[i, j] + A[i, k] * B[j, k] } } }", 2048,
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 %D, %A, %B, %D;"),
    row("mma.m16n8k32.i32.i8.bt", "mma_m16n8k16", kInt8Bt,
        "for i in 16 { for j in 8 { for k in 32 { D[i, j] = D[i, j] + i32(A[i, k]) * i32(B[j, k]) } } }", 8192,
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 %D, %A, %B, %D;"),
};

}  // namespace

std::span<const Instruction> mma_rows() {
  return kRows;
}

}  // namespace tcc::ir
