// AVX-512 vectors of 16 floats. The argument is the number of active lanes; the backend makes the mask from it.
// The dot products (VNNI, BF16) add to each lane the products of a group of neighbours, which is the same for all lanes
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

constexpr Instruction kRows[] = {
    {.name = "zmm.load.f32",
     .family = Family::kVector,
     .feature = "avx512f",
     .operands = kLoad,
     .num_args = 1,
     .semantics = "for i in 16 { D[i] = (S[i] where i < $0 else 0.0) }",
     .bytes = 64,
     .llvm = "llvm.masked.load.v16f32.p0"},
    {.name = "zmm.store.f32",
     .family = Family::kVector,
     .feature = "avx512f",
     .operands = kStore,
     .num_args = 1,
     .semantics = "for i in 16 { if i < $0 { D[i] = S[i] } }",
     .bytes = 64,
     .llvm = "llvm.masked.store.v16f32.p0"},
    {.name = "zmm.fma.f32",
     .family = Family::kVector,
     .feature = "avx512f",
     .operands = kFma,
     .num_args = 1,
     .semantics = "for i in 16 { if i < $0 { D[i] = fma(A[i], B[i], D[i]) } }",
     .flops = 32,
     .llvm = "llvm.fma.v16f32"},
    {.name = "zmm.fma.broadcast.f32",
     .family = Family::kVector,
     .feature = "avx512f",
     .operands = kFmaScalar,
     .num_args = 1,
     .semantics = "for i in 16 { if i < $0 { D[i] = fma(A[0], B[i], D[i]) } }",
     .flops = 32,
     .bytes = 4,
     .llvm = "llvm.fma.v16f32"},
    {.name = "zmm.dpbf16ps",
     .family = Family::kVector,
     .feature = "avx512_bf16",
     .operands = kDotPairs,
     .semantics = "for j in 16 { for k in 2 { D[j] = D[j] + f32(A[k]) * f32(B[k, j]) } }",
     .flops = 64,
     .bytes = 68,
     .llvm = "llvm.x86.avx512bf16.dpbf16ps.512"},
    {.name = "zmm.vpdpbusd",
     .family = Family::kVector,
     .feature = "avx512_vnni",
     .operands = kDotQuads,
     .semantics = "for j in 16 { for k in 4 { D[j] = D[j] + i32(A[k]) * i32(B[k, j]) } }",
     .flops = 128,
     .bytes = 68,
     .llvm = "llvm.x86.avx512.vpdpbusd.512"},
};

}  // namespace

std::span<const Instruction> x86_vector_rows() {
  return kRows;
}

}  // namespace tcc::ir
