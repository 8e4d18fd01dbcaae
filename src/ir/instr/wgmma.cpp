// wgmma of one warpgroup: D[64, n] += A[64, k] * B[n, k]^T, both operands K-major in shared memory, read by the async
// proxy. k is 32 bytes: 16 halves, or 8 floats, which are read as tf32. The rows ".trans_b" read B[16, n], whose
// columns are contiguous (PTX: imm-trans-b, which only halves have). The hardware ignores the low 13 bits of floats;
// the bulk copies that bring them round (codegen/tensor_map.h). Accumulator layout as in the PTX manual, "Register
// Fragments for wgmma.mma_async.m64nNk16, matrix D".
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

#define TCC_WGMMA_LAYOUT(n, eights, size)                                  \
  "layout[64," n "]{0/16%4@warp*1, 0/8%2@reg*2, 0/1%8@lane*4, 1/8%" eights \
  "@reg*4, 1/2%4@lane*1, 1/1%2@reg*1} size " size
#define TCC_WGMMA_SEMANTICS(n, b) \
  "for i in 64 { for j in " n " { for k in 16 { D[i, j] = D[i, j] + f32(A[i, k]) * f32(B[" b "]) } } }"
#define TCC_WGMMA_TF32_SEMANTICS(n) \
  "for i in 64 { for j in " n " { for k in 8 { D[i, j] = D[i, j] + A[i, k] * B[j, k] } } }"

template <Type T>
constexpr int64_t kTerms = T == Type::kF32 ? 8 : 16;

template <Type T, int64_t N, bool Trans = false>
constexpr OperandSpec kOperands[] = {
    {"D",
     Type::kF32,
     Scope::kLocal,
     Access::kReadWrite,
     2,
     {64, N},
     N == 8     ? TCC_WGMMA_LAYOUT("8", "1", "512")
     : N == 64  ? TCC_WGMMA_LAYOUT("64", "8", "4096")
     : N == 128 ? TCC_WGMMA_LAYOUT("128", "16", "8192")
                : TCC_WGMMA_LAYOUT("256", "32", "16384")},
    {"A", T, Scope::kShared, Access::kRead, 2, {64, kTerms<T>}, {}, 16},
    {"B", T, Scope::kShared, Access::kRead, 2, {Trans ? kTerms<T> : N, Trans ? N : kTerms<T>}, {}, 16}};

// Both matrices by descriptors, the product always added to D; b: B is read transposed.
#define TCC_WGMMA_PTX(n, t, b)                                                                  \
  "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." t "." t \
  " %D, %A, %B, p, "                                                                            \
  "1, 1, 0, " b "; }"
#define TCC_WGMMA_TF32_PTX(n)                                                \
  "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" n \
  "k8.f32.tf32.tf32 %D, %A, %B, "                                            \
  "p, 1, 1; }"
#define TCC_WGMMA_PTX_OF(n, b) \
  (T == Type::kF32 ? TCC_WGMMA_TF32_PTX(n) : T == Type::kF16 ? TCC_WGMMA_PTX(n, "f16", b) : TCC_WGMMA_PTX(n, "bf16", b))
template <Type T, int64_t N, bool Trans>
constexpr std::string_view ptx_of() {
  if (N == 8) return TCC_WGMMA_PTX_OF("8", "0");
  if (N == 64) return Trans ? TCC_WGMMA_PTX_OF("64", "1") : TCC_WGMMA_PTX_OF("64", "0");
  if (N == 128) return Trans ? TCC_WGMMA_PTX_OF("128", "1") : TCC_WGMMA_PTX_OF("128", "0");
  return Trans ? TCC_WGMMA_PTX_OF("256", "1") : TCC_WGMMA_PTX_OF("256", "0");
}

template <Type T, int64_t N, bool Trans>
constexpr std::string_view semantics_of() {
  if (T == Type::kF32)
    return N == 64    ? TCC_WGMMA_TF32_SEMANTICS("64")
           : N == 128 ? TCC_WGMMA_TF32_SEMANTICS("128")
                      : TCC_WGMMA_TF32_SEMANTICS("256");
  if (N == 8) return TCC_WGMMA_SEMANTICS("8", "j, k");
  if (N == 64) return Trans ? TCC_WGMMA_SEMANTICS("64", "k, j") : TCC_WGMMA_SEMANTICS("64", "j, k");
  if (N == 128) return Trans ? TCC_WGMMA_SEMANTICS("128", "k, j") : TCC_WGMMA_SEMANTICS("128", "j, k");
  return Trans ? TCC_WGMMA_SEMANTICS("256", "k, j") : TCC_WGMMA_SEMANTICS("256", "j, k");
}

template <Type T, int64_t N, bool Trans = false>
constexpr Instruction product(std::string_view name) {
  return {.name = name,
          .family = Family::kWgmma,
          .feature = "wgmma",
          .participants = Participants::kWarpgroup,
          .operands = kOperands<T, N, Trans>,
          .completion = Completion::kWgmmaGroup,
          .proxy = Proxy::kAsync,
          .semantics = semantics_of<T, N, Trans>(),
          .flops = 2 * 64 * N * kTerms<T>,
          .ptx = ptx_of<T, N, Trans>()};
}

constexpr Instruction kRows[] = {
    product<Type::kF16, 8>("wgmma.m64n8k16.f32.f16"),
    product<Type::kF16, 64>("wgmma.m64n64k16.f32.f16"),
    product<Type::kF16, 128>("wgmma.m64n128k16.f32.f16"),
    product<Type::kF16, 256>("wgmma.m64n256k16.f32.f16"),
    product<Type::kBF16, 8>("wgmma.m64n8k16.f32.bf16"),
    product<Type::kBF16, 64>("wgmma.m64n64k16.f32.bf16"),
    product<Type::kBF16, 128>("wgmma.m64n128k16.f32.bf16"),
    product<Type::kBF16, 256>("wgmma.m64n256k16.f32.bf16"),
    product<Type::kF16, 64, true>("wgmma.m64n64k16.f32.f16.trans_b"),
    product<Type::kF16, 128, true>("wgmma.m64n128k16.f32.f16.trans_b"),
    product<Type::kF16, 256, true>("wgmma.m64n256k16.f32.f16.trans_b"),
    product<Type::kBF16, 64, true>("wgmma.m64n64k16.f32.bf16.trans_b"),
    product<Type::kBF16, 128, true>("wgmma.m64n128k16.f32.bf16.trans_b"),
    product<Type::kBF16, 256, true>("wgmma.m64n256k16.f32.bf16.trans_b"),
    product<Type::kF32, 64>("wgmma.m64n64k8.f32.tf32"),
    product<Type::kF32, 128>("wgmma.m64n128k8.f32.tf32"),
    product<Type::kF32, 256>("wgmma.m64n256k8.f32.tf32"),
    act(Family::kWgmma, "wgmma.fence", "wgmma", Participants::kWarpgroup, {}, 0, Behaviour::kWgmmaFence,
        "wgmma.fence.sync.aligned;"),
    act(Family::kWgmma, "wgmma.commit", "wgmma", Participants::kWarpgroup, {}, 0, Behaviour::kWgmmaCommit,
        "wgmma.commit_group.sync.aligned;"),
    act(Family::kWgmma, "wgmma.wait", "wgmma", Participants::kWarpgroup, {}, 1, Behaviour::kWgmmaWait,
        "wgmma.wait_group.sync.aligned $0;"),
};

}  // namespace

std::span<const Instruction> wgmma_rows() {
  return kRows;
}

}  // namespace tcc::ir
