// AVX-512 vectors of 16 floats. The argument is the number of active lanes; the backend makes the mask from it.
// The dot products (VNNI, BF16) add to each lane the products of a group of neighbors, which is the same for all lanes
// in A and is side by side for each lane in B, as in amx.cpp.
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

constexpr OperandSpec kLoad[] = {{"D", Type::kF32, Scope::kLocal, Access::kWrite, 1, {16}},
                                 {"S", Type::kF32, Scope::kGlobal, Access::kRead, 1, {16}}};
constexpr OperandSpec kStore[] = {{"D", Type::kF32, Scope::kGlobal, Access::kWrite, 1, {16}},
                                  {"S", Type::kF32, Scope::kLocal, Access::kRead, 1, {16}}};
constexpr OperandSpec kFma[] = {{"D", Type::kF32, Scope::kLocal, Access::kReadWrite, 1, {16}},
                                {"A", Type::kF32, Scope::kLocal, Access::kRead, 1, {16}},
                                {"B", Type::kF32, Scope::kLocal, Access::kRead, 1, {16}}};
constexpr OperandSpec kFmaScalar[] = {{"D", Type::kF32, Scope::kLocal, Access::kReadWrite, 1, {16}},
                                      {"A", Type::kF32, Scope::kGlobal, Access::kRead, 1, {1}},
                                      {"B", Type::kF32, Scope::kLocal, Access::kRead, 1, {16}}};

constexpr OperandSpec kDotPairs[] = {{"D", Type::kF32, Scope::kLocal, Access::kReadWrite, 1, {16}},
                                     {"A", Type::kBF16, Scope::kGlobal, Access::kRead, 1, {2}},
                                     {"B", Type::kBF16, Scope::kGlobal, Access::kRead, 2, {2, 16}}};
constexpr OperandSpec kDotQuads[] = {{"D", Type::kI32, Scope::kLocal, Access::kReadWrite, 1, {16}},
                                     {"A", Type::kU8, Scope::kGlobal, Access::kRead, 1, {4}},
                                     {"B", Type::kI8, Scope::kGlobal, Access::kRead, 2, {4, 16}}};
// The same for other vectors. Processors without VNNI multiply pairs, widened to 16 bits: pairs of such products fit 32
// bits, while instructions that multiply bytes saturate.
template <int64_t kGroup, int64_t kLanes>
constexpr OperandSpec kDotBytes[] = {{"D", Type::kI32, Scope::kLocal, Access::kReadWrite, 1, {kLanes}},
                                     {"A", Type::kU8, Scope::kGlobal, Access::kRead, 1, {kGroup}},
                                     {"B", Type::kI8, Scope::kGlobal, Access::kRead, 2, {kGroup, kLanes}}};

constexpr Instruction row(std::string_view name, std::string_view feature, std::span<const OperandSpec> operands,
                          int32_t args, std::string_view semantics, int64_t flops, int64_t bytes,
                          std::string_view llvm) {
  return cpu_compute(Family::kVector, name, feature, operands, args, semantics, flops, bytes, llvm);
}

constexpr Instruction kRows[] = {
    row("zmm.load.f32", "avx512f", kLoad, 1, "for i in 16 { D[i] = (S[i] where i < $0 else 0.0) }", 0, 64,
        "llvm.masked.load.v16f32.p0"),
    row("zmm.store.f32", "avx512f", kStore, 1, "for i in 16 { if i < $0 { D[i] = S[i] } }", 0, 64,
        "llvm.masked.store.v16f32.p0"),
    row("zmm.fma.f32", "avx512f", kFma, 1, "for i in 16 { if i < $0 { D[i] = fma(A[i], B[i], D[i]) } }", 32, 0,
        "llvm.fma.v16f32"),
    row("zmm.fma.broadcast.f32", "avx512f", kFmaScalar, 1, "for i in 16 { if i < $0 { D[i] = fma(A[0], B[i], D[i]) } }",
        32, 4, "llvm.fma.v16f32"),
    row("zmm.dpbf16ps", "avx512_bf16", kDotPairs, 0,
        "for j in 16 { for k in 2 { D[j] = D[j] + f32(A[k]) * f32(B[k, j]) } }", 64, 68,
        "llvm.x86.avx512bf16.dpbf16ps.512"),
    row("zmm.vpdpbusd", "avx512_vnni", kDotQuads, 0,
        "for j in 16 { for k in 4 { D[j] = D[j] + i32(A[k]) * i32(B[k, j]) } }", 128, 68,
        "llvm.x86.avx512.vpdpbusd.512"),
    row("ymm.vpdpbusd", "avx512_vnni", kDotBytes<4, 8>, 0,
        "for j in 8 { for k in 4 { D[j] = D[j] + i32(A[k]) * i32(B[k, j]) } }", 64, 36, "llvm.x86.avx512.vpdpbusd.256"),
    row("xmm.vpdpbusd", "avx512_vnni", kDotBytes<4, 4>, 0,
        "for j in 4 { for k in 4 { D[j] = D[j] + i32(A[k]) * i32(B[k, j]) } }", 32, 20, "llvm.x86.avx512.vpdpbusd.128"),
    row("ymm.vpdpbusd.avx", "avx_vnni", kDotBytes<4, 8>, 0,
        "for j in 8 { for k in 4 { D[j] = D[j] + i32(A[k]) * i32(B[k, j]) } }", 64, 36, "llvm.x86.avx512.vpdpbusd.256"),
    row("xmm.vpdpbusd.avx", "avx_vnni", kDotBytes<4, 4>, 0,
        "for j in 4 { for k in 4 { D[j] = D[j] + i32(A[k]) * i32(B[k, j]) } }", 32, 20, "llvm.x86.avx512.vpdpbusd.128"),
    row("zmm.vpmaddwd", "avx512bw", kDotBytes<2, 16>, 0,
        "for j in 16 { for k in 2 { D[j] = D[j] + i32(A[k]) * i32(B[k, j]) } }", 64, 34,
        "llvm.x86.avx512.pmaddw.d.512"),
    row("ymm.vpmaddwd", "avx2", kDotBytes<2, 8>, 0,
        "for j in 8 { for k in 2 { D[j] = D[j] + i32(A[k]) * i32(B[k, j]) } }", 32, 18, "llvm.x86.avx2.pmadd.wd"),
    row("xmm.pmaddwd", "sse4_1", kDotBytes<2, 4>, 0,
        "for j in 4 { for k in 2 { D[j] = D[j] + i32(A[k]) * i32(B[k, j]) } }", 16, 10, "llvm.x86.sse2.pmadd.wd"),
};

}  // namespace

std::span<const Instruction> x86_vector_rows() {
  return kRows;
}

}  // namespace tcc::ir
