// Bulk tensor copies (TMA). The box is [$0, $1]; elements outside of the tensor read as zero and is not written. A
// load is complete when its bytes have arrived at the barrier; a store with its bulk group, as cp.async does. In the
// PTX text the operand in global memory is a tensor map with the coordinates of the box, and 2d stands for the tensor's
// rank.
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

template <Type T>
constexpr OperandSpec kLoad[] = {{"D", T, Scope::kShared, Access::kWrite, 2, {0, 0}, {}, 128},
                                 {"bar", Type::kBarrier, Scope::kShared, Access::kReadWrite, 0, {}, {}, 8},
                                 {"S", T, Scope::kGlobal, Access::kRead, 2, {0, 0}, {}, 1, true}};
template <Type T>
constexpr OperandSpec kStore[] = {{"D", T, Scope::kGlobal, Access::kWrite, 2, {0, 0}, {}, 1, true},
                                  {"S", T, Scope::kShared, Access::kRead, 2, {0, 0}, {}, 128}};

constexpr std::string_view kCopy = "for i in $0 { for j in $1 { D[i, j] = S[i, j] } }";

#define TCC_TMA_LOAD "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"

constexpr Instruction load(std::string_view name, std::span<const OperandSpec> operands, bool multicast) {
  return {
      .name = name,
      .family = Family::kTensorCopy,
      .feature = "tma",
      .operands = operands,
      .num_args = multicast ? 3 : 2,
      .completion = Completion::kMbarrierBytes,
      .proxy = Proxy::kAsync,
      .semantics = kCopy,
      .ptx = multicast ? TCC_TMA_LOAD ".multicast::cluster [%D], %S, [%bar], $2;" : TCC_TMA_LOAD " [%D], %S, [%bar];",
      .multicast_arg = multicast ? 2 : -1};
}
constexpr Instruction store(std::string_view name, std::span<const OperandSpec> operands) {
  return {.name = name,
          .family = Family::kTensorCopy,
          .feature = "tma",
          .operands = operands,
          .num_args = 2,
          .completion = Completion::kCopyGroup,
          .proxy = Proxy::kAsync,
          .semantics = kCopy,
          .ptx = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group %D, [%S];"};
}

// Closes a group of stores, or waits until no more than $0 groups are under way.
constexpr Instruction group(std::string_view name, int args, Behaviour behaviour, std::string_view ptx) {
  return {.name = name,
          .family = Family::kTensorCopy,
          .feature = "tma",
          .num_args = args,
          .proxy = Proxy::kAsync,
          .behaviour = behaviour,
          .ptx = ptx};
}

constexpr Instruction kRows[] = {
    load("tma.load.f16", kLoad<Type::kF16>, false),
    load("tma.load.bf16", kLoad<Type::kBF16>, false),
    load("tma.load.f32", kLoad<Type::kF32>, false),
    load("tma.load.multicast.f16", kLoad<Type::kF16>, true),
    load("tma.load.multicast.bf16", kLoad<Type::kBF16>, true),
    load("tma.load.multicast.f32", kLoad<Type::kF32>, true),
    store("tma.store.f16", kStore<Type::kF16>),
    store("tma.store.bf16", kStore<Type::kBF16>),
    store("tma.store.f32", kStore<Type::kF32>),
    group("tma.commit", 0, Behaviour::kCopyCommit, "cp.async.bulk.commit_group;"),
    group("tma.wait", 1, Behaviour::kCopyWait, "cp.async.bulk.wait_group $0;"),
    // Until the stores have read shared memory: what they write is visible when the kernel ends.
    group("tma.wait_read", 1, Behaviour::kCopyWaitRead, "cp.async.bulk.wait_group.read $0;"),
};

}  // namespace

std::span<const Instruction> tensor_copy_rows() {
  return kRows;
}

}  // namespace tcc::ir
