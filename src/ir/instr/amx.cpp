// AMX tiles of 16 rows of 64 bytes. The B operands of the products hold groups of k values side by side (VNNI order):
// two bf16 or four i8. The rows named .pairs, .quads and .kn say the same of B as a plain k x n matrix: its place in
// the tile register is seen by these instructions only, and a load wants groups of k side by side in memory, by the
// layout of the buffer.
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

constexpr OperandSpec tile(std::string_view name, Type type, Access access, int64_t columns) {
  return {name, type, Scope::kAmxTile, access, 2, {16, columns}};
}
constexpr OperandSpec memory(std::string_view name, Type type, Access access, int64_t columns) {
  return {name, type, Scope::kGlobal, access, 2, {16, columns}};
}
constexpr Instruction row(std::string_view name, std::string_view feature, std::span<const OperandSpec> operands,
                          std::string_view semantics, int64_t flops, int64_t bytes, std::string_view llvm) {
  return {.name = name,
          .family = Family::kAmx,
          .feature = feature,
          .operands = operands,
          .semantics = semantics,
          .flops = flops,
          .bytes = bytes,
          .llvm = llvm};
}

constexpr OperandSpec kZeroF32[] = {tile("D", Type::kF32, Access::kWrite, 16)};
constexpr OperandSpec kZeroI32[] = {tile("D", Type::kI32, Access::kWrite, 16)};
constexpr OperandSpec kLoadBF16[] = {tile("D", Type::kBF16, Access::kWrite, 32),
                                     memory("S", Type::kBF16, Access::kRead, 32)};
constexpr OperandSpec kLoadI8[] = {tile("D", Type::kI8, Access::kWrite, 64), memory("S", Type::kI8, Access::kRead, 64)};
constexpr OperandSpec kLoadF32[] = {tile("D", Type::kF32, Access::kWrite, 16),
                                    memory("S", Type::kF32, Access::kRead, 16)};
constexpr OperandSpec kLoadI32[] = {tile("D", Type::kI32, Access::kWrite, 16),
                                    memory("S", Type::kI32, Access::kRead, 16)};
constexpr OperandSpec kStoreF32[] = {memory("D", Type::kF32, Access::kWrite, 16),
                                     tile("S", Type::kF32, Access::kRead, 16)};
constexpr OperandSpec kStoreI32[] = {memory("D", Type::kI32, Access::kWrite, 16),
                                     tile("S", Type::kI32, Access::kRead, 16)};
constexpr OperandSpec kProductBF16[] = {tile("D", Type::kF32, Access::kReadWrite, 16),
                                        tile("A", Type::kBF16, Access::kRead, 32),
                                        tile("B", Type::kBF16, Access::kRead, 32)};
constexpr OperandSpec kProductI8[] = {tile("D", Type::kI32, Access::kReadWrite, 16),
                                      tile("A", Type::kI8, Access::kRead, 64), tile("B", Type::kI8, Access::kRead, 64)};

constexpr OperandSpec kLoadPairs[] = {{"D", Type::kBF16, Scope::kAmxTile, Access::kWrite, 2, {32, 16}},
                                      {"S", Type::kBF16, Scope::kGlobal, Access::kRead, 2, {32, 16}}};
constexpr OperandSpec kLoadQuads[] = {{"D", Type::kI8, Scope::kAmxTile, Access::kWrite, 2, {64, 16}},
                                      {"S", Type::kI8, Scope::kGlobal, Access::kRead, 2, {64, 16}}};
constexpr OperandSpec kProductPairs[] = {tile("D", Type::kF32, Access::kReadWrite, 16),
                                         tile("A", Type::kBF16, Access::kRead, 32),
                                         {"B", Type::kBF16, Scope::kAmxTile, Access::kRead, 2, {32, 16}}};
constexpr OperandSpec kProductQuads[] = {tile("D", Type::kI32, Access::kReadWrite, 16),
                                         tile("A", Type::kI8, Access::kRead, 64),
                                         {"B", Type::kI8, Scope::kAmxTile, Access::kRead, 2, {64, 16}}};

constexpr std::string_view kCopy16 = "for i in 16 { for j in 16 { D[i, j] = S[i, j] } }";
constexpr std::string_view kCopy32 = "for i in 16 { for j in 32 { D[i, j] = S[i, j] } }";
constexpr std::string_view kCopy64 = "for i in 16 { for j in 64 { D[i, j] = S[i, j] } }";

constexpr Instruction kRows[] = {
    {.name = "amx.config",
     .family = Family::kAmx,
     .feature = "amx_tile",
     .num_args = 2,
     .behaviour = Behaviour::kTileConfig,
     .bytes = 64,
     .llvm = "llvm.x86.ldtilecfg"},
    row("amx.zero.f32", "amx_tile", kZeroF32, "for i in 16 { for j in 16 { D[i, j] = 0.0 } }", 0, 0,
        "llvm.x86.tilezero"),
    row("amx.zero.i32", "amx_tile", kZeroI32, "for i in 16 { for j in 16 { D[i, j] = 0i32 } }", 0, 0,
        "llvm.x86.tilezero"),
    row("amx.load.bf16", "amx_tile", kLoadBF16, kCopy32, 0, 1024, "llvm.x86.tileloadd64"),
    row("amx.load.i8", "amx_tile", kLoadI8, kCopy64, 0, 1024, "llvm.x86.tileloadd64"),
    row("amx.load.f32", "amx_tile", kLoadF32, kCopy16, 0, 1024, "llvm.x86.tileloadd64"),
    row("amx.load.i32", "amx_tile", kLoadI32, kCopy16, 0, 1024, "llvm.x86.tileloadd64"),
    row("amx.store.f32", "amx_tile", kStoreF32, kCopy16, 0, 1024, "llvm.x86.tilestored64"),
    row("amx.store.i32", "amx_tile", kStoreI32, kCopy16, 0, 1024, "llvm.x86.tilestored64"),
    row("amx.tdpbf16ps", "amx_bf16", kProductBF16,
        "for i in 16 { for j in 16 { for k in 32 { D[i, j] = D[i, j] + f32(A[i, k]) * f32(B[k // 2, j*2 + k % 2]) } } "
        "}",
        16384, 0, "llvm.x86.tdpbf16ps"),
    row("amx.tdpbssd", "amx_int8", kProductI8,
        "for i in 16 { for j in 16 { for k in 64 { D[i, j] = D[i, j] + i32(A[i, k]) * i32(B[k // 4, j*4 + k % 4]) } } "
        "}",
        32768, 0, "llvm.x86.tdpbssd"),
    row("amx.load.bf16.pairs", "amx_tile", kLoadPairs, "for k in 32 { for j in 16 { D[k, j] = S[k, j] } }", 0, 1024,
        "llvm.x86.tileloadd64"),
    row("amx.load.i8.quads", "amx_tile", kLoadQuads, "for k in 64 { for j in 16 { D[k, j] = S[k, j] } }", 0, 1024,
        "llvm.x86.tileloadd64"),
    row("amx.tdpbf16ps.kn", "amx_bf16", kProductPairs,
        "for i in 16 { for j in 16 { for k in 32 { D[i, j] = D[i, j] + f32(A[i, k]) * f32(B[k, j]) } } }", 16384, 0,
        "llvm.x86.tdpbf16ps"),
    row("amx.tdpbssd.kn", "amx_int8", kProductQuads,
        "for i in 16 { for j in 16 { for k in 64 { D[i, j] = D[i, j] + i32(A[i, k]) * i32(B[k, j]) } } }", 32768, 0,
        "llvm.x86.tdpbssd"),
};

}  // namespace

std::span<const Instruction> amx_rows() {
  return kRows;
}

}  // namespace tcc::ir
