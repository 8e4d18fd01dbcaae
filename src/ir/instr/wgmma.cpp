// wgmma of one warpgroup: D[64, n] += A[64, 16] * B[n, 16]^T, both operands K-major in shared memory, read by the async
// proxy. Accumulator layout as in the PTX manual, "Register Fragments for wgmma.mma_async.m64nNk16, matrix D".
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

#define TCC_WGMMA_LAYOUT(n, size) \
  "layout[64," n "]{0/16%4@warp*1, 0/8%2@reg*2, 0/1%8@lane*4, 1/8%0@reg*4, 1/2%4@lane*1, 1/1%2@reg*1} size " size
#define TCC_WGMMA_SEMANTICS(n) \
  "for i in 64 { for j in " n " { for k in 16 { D[i, j] = D[i, j] + f32(A[i, k]) * f32(B[j, k]) } } }"

template <Type T, int64_t N>
constexpr OperandSpec kOperands[] = {{"D",
                                      Type::kF32,
                                      Scope::kLocal,
                                      Access::kReadWrite,
                                      2,
                                      {64, N},
                                      N == 8     ? TCC_WGMMA_LAYOUT("8", "512")
                                      : N == 64  ? TCC_WGMMA_LAYOUT("64", "4096")
                                      : N == 128 ? TCC_WGMMA_LAYOUT("128", "8192")
                                                 : TCC_WGMMA_LAYOUT("256", "16384")},
                                     {"A", T, Scope::kShared, Access::kRead, 2, {64, 16}, {}, 16},
                                     {"B", T, Scope::kShared, Access::kRead, 2, {N, 16}, {}, 16}};

template <Type T, int64_t N>
constexpr Instruction product(std::string_view name) {
  return {.name = name,
          .feature = "wgmma",
          .participants = Participants::kWarpgroup,
          .operands = kOperands<T, N>,
          .num_args = 0,
          .completion = Completion::kWgmmaGroup,
          .proxy = Proxy::kAsync,
          .behaviour = Behaviour::kCompute,
          .semantics = N == 8     ? TCC_WGMMA_SEMANTICS("8")
                       : N == 64  ? TCC_WGMMA_SEMANTICS("64")
                       : N == 128 ? TCC_WGMMA_SEMANTICS("128")
                                  : TCC_WGMMA_SEMANTICS("256"),
          .flops = 2 * 64 * N * 16,
          .bytes = 0};
}
constexpr Instruction order(std::string_view name, int32_t args, Behaviour behaviour, std::string_view ptx) {
  return {.name = name,
          .feature = "wgmma",
          .participants = Participants::kWarpgroup,
          .operands = {},
          .num_args = args,
          .completion = Completion::kImmediate,
          .proxy = Proxy::kGeneric,
          .behaviour = behaviour,
          .semantics = "",
          .flops = 0,
          .bytes = 0,
          .ptx = ptx};
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
    order("wgmma.fence", 0, Behaviour::kWgmmaFence, "wgmma.fence.sync.aligned;"),
    order("wgmma.commit", 0, Behaviour::kWgmmaCommit, "wgmma.commit_group.sync.aligned;"),
    order("wgmma.wait", 1, Behaviour::kWgmmaWait, "wgmma.wait_group.sync.aligned $0;"),
};

}  // namespace

std::span<const Instruction> wgmma_rows() {
  return kRows;
}

}  // namespace tcc::ir
