// WMMA of one warp (PTX manual, "Warp-level Matrix Instructions: wmma"): D = A*B + D, 16 x 16 x 16. Which lane holds
// which element of a fragment is unspecified: fragments are filled by wmma.load from shared memory, or with one value,
// and leave by wmma.store. A lane has 16 halves of A and of B, twice the elements: some devices hold each in two lanes.
//
// The layouts here stand in for the real ones. They differ from each other, so that a fragment that is loaded as one
// operand and multiplied as another gives wrong results. ".col": the matrix has contiguous columns, so that
// the tile in memory is [k, i] of A and [j, k] of B; ".at", ".bt": products of such fragments.
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

constexpr std::string_view kD = "layout[16,16]{0/2%8@lane*1, 1/4%4@lane*8, 0/1%2@reg*4, 1/1%4@reg*1} size 256";
constexpr std::string_view kA = "layout[16,16]{0/1%16@lane*1, 1/8%2@lane*16, 1/1%8@reg*1} size 512";
constexpr std::string_view kAt = "layout[16,16]{1/1%16@lane*1, 0/1%2@lane*16, 0/2%8@reg*1} size 512";
constexpr std::string_view kB = "layout[16,16]{1/1%16@lane*2, 0/8%2@lane*1, 0/1%8@reg*1} size 512";
constexpr std::string_view kBt = "layout[16,16]{0/1%16@lane*2, 1/1%2@lane*1, 1/2%8@reg*1} size 512";

constexpr int32_t kRowBytes = 32;  // of a tile of halves and of eight floats, which addresses and pitches divide by

constexpr OperandSpec fragment(std::string_view name, Type type, Access access, std::string_view layout) {
  return {
      .name = name,
      .type = type,
      .scope = Scope::kLocal,
      .access = access,
      .rank = 2,
      .tile = {16, 16},
      .layout = layout,
      .opaque = true,
  };
}
constexpr OperandSpec memory(std::string_view name, Type type, Access access) {
  return {
      .name = name,
      .type = type,
      .scope = Scope::kShared,
      .access = access,
      .rank = 2,
      .tile = {16, 16},
      .alignment = kRowBytes,
  };
}
constexpr Instruction row(std::string_view name, std::span<const OperandSpec> operands, std::string_view semantics,
                          int64_t flops, int64_t bytes, std::string_view ptx) {
  return warp_compute(Family::kWmma, name, "mma_sync", operands, semantics, flops, bytes, ptx);
}

constexpr OperandSpec kSource = memory("S", Type::kF16, Access::kRead);
constexpr OperandSpec kLoadA[] = {fragment("D", Type::kF16, Access::kWrite, kA), kSource};
constexpr OperandSpec kLoadAt[] = {fragment("D", Type::kF16, Access::kWrite, kAt), kSource};
constexpr OperandSpec kLoadB[] = {fragment("D", Type::kF16, Access::kWrite, kB), kSource};
constexpr OperandSpec kLoadBt[] = {fragment("D", Type::kF16, Access::kWrite, kBt), kSource};
constexpr OperandSpec kStoreD[] = {memory("D", Type::kF32, Access::kWrite),
                                   fragment("S", Type::kF32, Access::kRead, kD)};

constexpr OperandSpec kSum = fragment("D", Type::kF32, Access::kReadWrite, kD);
constexpr OperandSpec kRowA = fragment("A", Type::kF16, Access::kRead, kA);
constexpr OperandSpec kColumnA = fragment("A", Type::kF16, Access::kRead, kAt);
constexpr OperandSpec kRowB = fragment("B", Type::kF16, Access::kRead, kB);
constexpr OperandSpec kColumnB = fragment("B", Type::kF16, Access::kRead, kBt);
constexpr OperandSpec kProduct[] = {kSum, kRowA, kRowB};
constexpr OperandSpec kProductBt[] = {kSum, kRowA, kColumnB};
constexpr OperandSpec kProductAt[] = {kSum, kColumnA, kRowB};
constexpr OperandSpec kProductAtBt[] = {kSum, kColumnA, kColumnB};

#define TCC_WMMA_SEMANTICS(a, b) \
  "for i in 16 { for j in 16 { for k in 16 { D[i, j] = D[i, j] + f32(A[" a "]) * f32(B[" b "]) } } }"
#define TCC_WMMA_PTX(a, b) "wmma.mma.sync.aligned." a "." b ".m16n16k16.f32.f32 %D, %A, %B, %D;"
constexpr std::string_view kCopy = "for i in 16 { for j in 16 { D[i, j] = S[i, j] } }";
constexpr int64_t kFlops = 2 * 16 * 16 * 16;

constexpr Instruction kRows[] = {
    row("wmma.load.a.f16", kLoadA, kCopy, 0, 512,
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 %D, [%S], %S_pitch;"),
    row("wmma.load.a.col.f16", kLoadAt, kCopy, 0, 512,
        "wmma.load.a.sync.aligned.col.m16n16k16.shared.f16 %D, [%S], %S_pitch;"),
    row("wmma.load.b.f16", kLoadB, kCopy, 0, 512,
        "wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 %D, [%S], %S_pitch;"),
    row("wmma.load.b.col.f16", kLoadBt, kCopy, 0, 512,
        "wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 %D, [%S], %S_pitch;"),
    row("wmma.m16n16k16.f32.f16", kProduct, TCC_WMMA_SEMANTICS("i, k", "k, j"), kFlops, 0, TCC_WMMA_PTX("row", "row")),
    row("wmma.m16n16k16.f32.f16.bt", kProductBt, TCC_WMMA_SEMANTICS("i, k", "j, k"), kFlops, 0,
        TCC_WMMA_PTX("row", "col")),
    row("wmma.m16n16k16.f32.f16.at", kProductAt, TCC_WMMA_SEMANTICS("k, i", "k, j"), kFlops, 0,
        TCC_WMMA_PTX("col", "row")),
    row("wmma.m16n16k16.f32.f16.at.bt", kProductAtBt, TCC_WMMA_SEMANTICS("k, i", "j, k"), kFlops, 0,
        TCC_WMMA_PTX("col", "col")),
    row("wmma.store.d.f32", kStoreD, kCopy, 0, 1024,
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%D], %S, %D_pitch;"),
};

}  // namespace

std::span<const Instruction> wmma_rows() {
  return kRows;
}

}  // namespace tcc::ir
