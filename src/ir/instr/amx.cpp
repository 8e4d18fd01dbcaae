// AMX tiles of 16 rows of 64 bytes. The B operands of the products hold groups of k values side by side (VNNI order):
// two bf16 or four i8. The rows named .pairs, .quads and .kn say the same of B as a plain k x n matrix: its place in
// the tile register is seen by these instructions only, and a load wants groups of k side by side in memory, by the
// layout of the buffer.
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

constexpr OperandSpec tile(std::string_view name, Type type, Access access) {
  return {name, type, Scope::kAmxTile, access, 2, {16, 64 / type_bytes(type)}};
}
constexpr OperandSpec memory(std::string_view name, Type type, Access access) {
  return {name, type, Scope::kGlobal, access, 2, {16, 64 / type_bytes(type)}};
}
// The operand B as a k x n matrix.
constexpr OperandSpec plain(std::string_view name, Type type, Scope scope, Access access) {
  return {name, type, scope, access, 2, {64 / type_bytes(type), 16}};
}
constexpr Instruction row(std::string_view name, std::string_view feature, std::span<const OperandSpec> operands,
                          std::string_view semantics, int64_t flops, int64_t bytes, std::string_view llvm) {
  return cpu_compute(Family::kAmx, name, feature, operands, 0, semantics, flops, bytes, llvm);
}

template <Type T>
constexpr OperandSpec kZero[] = {tile("D", T, Access::kWrite)};
template <Type T>
constexpr OperandSpec kLoad[] = {tile("D", T, Access::kWrite), memory("S", T, Access::kRead)};
template <Type T>
constexpr OperandSpec kStore[] = {memory("D", T, Access::kWrite), tile("S", T, Access::kRead)};
template <Type Sum, Type TA, Type TB = TA>
constexpr OperandSpec kProduct[] = {tile("D", Sum, Access::kReadWrite), tile("A", TA, Access::kRead),
                                    tile("B", TB, Access::kRead)};
template <Type T>
constexpr OperandSpec kLoadPlain[] = {plain("D", T, Scope::kAmxTile, Access::kWrite),
                                      plain("S", T, Scope::kGlobal, Access::kRead)};
template <Type Sum, Type TA, Type TB = TA>
constexpr OperandSpec kProductPlain[] = {tile("D", Sum, Access::kReadWrite), tile("A", TA, Access::kRead),
                                         plain("B", TB, Scope::kAmxTile, Access::kRead)};

constexpr std::string_view kCopy16 = "for i in 16 { for j in 16 { D[i, j] = S[i, j] } }";
constexpr std::string_view kCopy32 = "for i in 16 { for j in 32 { D[i, j] = S[i, j] } }";
constexpr std::string_view kCopy64 = "for i in 16 { for j in 64 { D[i, j] = S[i, j] } }";
constexpr std::string_view kQuads = "for k in 64 { for j in 16 { D[k, j] = S[k, j] } }";
constexpr std::string_view kBytes =
    "for i in 16 { for j in 16 { for k in 64 { D[i, j] = D[i, j] + i32(A[i, k]) * i32(B[k // 4, j*4 + k % 4]) } } }";
constexpr std::string_view kBytesPlain =
    "for i in 16 { for j in 16 { for k in 64 { D[i, j] = D[i, j] + i32(A[i, k]) * i32(B[k, j]) } } }";

// Bytes with and without sign multiply each other in four instructions.
template <Type TA, Type TB>
constexpr Instruction byte_product(std::string_view name, std::string_view llvm) {
  return row(name, "amx_int8", kProduct<Type::kI32, TA, TB>, kBytes, 32768, 0, llvm);
}
template <Type TA, Type TB>
constexpr Instruction plain_byte_product(std::string_view name, std::string_view llvm) {
  return row(name, "amx_int8", kProductPlain<Type::kI32, TA, TB>, kBytesPlain, 32768, 0, llvm);
}

constexpr Instruction kRows[] = {
    {.name = "amx.config",
     .family = Family::kAmx,
     .feature = "amx_tile",
     .num_args = 2,
     .behaviour = Behaviour::kTileConfig,
     .bytes = 64,
     .llvm = "llvm.x86.ldtilecfg"},
    row("amx.zero.f32", "amx_tile", kZero<Type::kF32>, "for i in 16 { for j in 16 { D[i, j] = 0.0 } }", 0, 0,
        "llvm.x86.tilezero"),
    row("amx.zero.i32", "amx_tile", kZero<Type::kI32>, "for i in 16 { for j in 16 { D[i, j] = 0i32 } }", 0, 0,
        "llvm.x86.tilezero"),
    row("amx.load.bf16", "amx_tile", kLoad<Type::kBF16>, kCopy32, 0, 1024, "llvm.x86.tileloadd64"),
    row("amx.load.i8", "amx_tile", kLoad<Type::kI8>, kCopy64, 0, 1024, "llvm.x86.tileloadd64"),
    row("amx.load.f32", "amx_tile", kLoad<Type::kF32>, kCopy16, 0, 1024, "llvm.x86.tileloadd64"),
    row("amx.load.i32", "amx_tile", kLoad<Type::kI32>, kCopy16, 0, 1024, "llvm.x86.tileloadd64"),
    row("amx.store.f32", "amx_tile", kStore<Type::kF32>, kCopy16, 0, 1024, "llvm.x86.tilestored64"),
    row("amx.store.i32", "amx_tile", kStore<Type::kI32>, kCopy16, 0, 1024, "llvm.x86.tilestored64"),
    row("amx.tdpbf16ps", "amx_bf16", kProduct<Type::kF32, Type::kBF16>,
        "for i in 16 { for j in 16 { for k in 32 { D[i, j] = D[i, j] + f32(A[i, k]) * f32(B[k // 2, j*2 + k % 2]) } } "
        "}",
        16384, 0, "llvm.x86.tdpbf16ps"),
    byte_product<Type::kI8, Type::kI8>("amx.tdpbssd", "llvm.x86.tdpbssd"),
    row("amx.load.bf16.pairs", "amx_tile", kLoadPlain<Type::kBF16>, "for k in 32 { for j in 16 { D[k, j] = S[k, j] } }",
        0, 1024, "llvm.x86.tileloadd64"),
    row("amx.load.i8.quads", "amx_tile", kLoadPlain<Type::kI8>, kQuads, 0, 1024, "llvm.x86.tileloadd64"),
    row("amx.tdpbf16ps.kn", "amx_bf16", kProductPlain<Type::kF32, Type::kBF16>,
        "for i in 16 { for j in 16 { for k in 32 { D[i, j] = D[i, j] + f32(A[i, k]) * f32(B[k, j]) } } }", 16384, 0,
        "llvm.x86.tdpbf16ps"),
    plain_byte_product<Type::kI8, Type::kI8>("amx.tdpbssd.kn", "llvm.x86.tdpbssd"),
    row("amx.load.u8", "amx_tile", kLoad<Type::kU8>, kCopy64, 0, 1024, "llvm.x86.tileloadd64"),
    row("amx.load.u8.quads", "amx_tile", kLoadPlain<Type::kU8>, kQuads, 0, 1024, "llvm.x86.tileloadd64"),
    byte_product<Type::kU8, Type::kI8>("amx.tdpbusd", "llvm.x86.tdpbusd"),
    byte_product<Type::kU8, Type::kU8>("amx.tdpbuud", "llvm.x86.tdpbuud"),
    byte_product<Type::kI8, Type::kU8>("amx.tdpbsud", "llvm.x86.tdpbsud"),
    plain_byte_product<Type::kU8, Type::kI8>("amx.tdpbusd.kn", "llvm.x86.tdpbusd"),
    plain_byte_product<Type::kU8, Type::kU8>("amx.tdpbuud.kn", "llvm.x86.tdpbuud"),
    plain_byte_product<Type::kI8, Type::kU8>("amx.tdpbsud.kn", "llvm.x86.tdpbsud"),
};

}  // namespace

std::span<const Instruction> amx_rows() {
  return kRows;
}

}  // namespace tcc::ir
