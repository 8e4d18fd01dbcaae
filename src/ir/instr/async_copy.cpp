// cp.async of 16 bytes. The argument is the number of source bytes that are read; the rest is filled with zeros.
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

template <Type T>
constexpr OperandSpec kOperands[] = {{"D", T, Scope::kShared, Access::kWrite, 1, {16 / type_bytes(T)}, {}, 16},
                                     {"S", T, Scope::kGlobal, Access::kRead, 1, {16 / type_bytes(T)}, {}, 16}};

constexpr Instruction copy(std::string_view name, std::span<const OperandSpec> operands, std::string_view semantics) {
  return {.name = name,
          .feature = "cp_async",
          .participants = Participants::kThread,
          .operands = operands,
          .num_args = 1,
          .completion = Completion::kCopyGroup,
          .proxy = Proxy::kGeneric,
          .behaviour = Behaviour::kCompute,
          .semantics = semantics,
          .flops = 0,
          .bytes = 16,
          .ptx = "cp.async.cg.shared.global [%D], [%S], 16, $0;"};
}
constexpr Instruction group(std::string_view name, int32_t args, Behaviour behaviour, std::string_view ptx) {
  return {.name = name,
          .feature = "cp_async",
          .participants = Participants::kThread,
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
    copy("cp.async.16.f32", kOperands<Type::kF32>, "for i in 4 { D[i] = (S[i] where i*4 < $0 else 0.0) }"),
    copy("cp.async.16.f16", kOperands<Type::kF16>, "for i in 8 { D[i] = (S[i] where i*2 < $0 else 0.0f16) }"),
    copy("cp.async.16.bf16", kOperands<Type::kBF16>, "for i in 8 { D[i] = (S[i] where i*2 < $0 else 0.0bf16) }"),
    copy("cp.async.16.i8", kOperands<Type::kI8>, "for i in 16 { D[i] = (S[i] where i < $0 else 0i8) }"),
    group("cp.async.commit", 0, Behaviour::kCopyCommit, "cp.async.commit_group;"),
    group("cp.async.wait", 1, Behaviour::kCopyWait, "cp.async.wait_group $0;"),
};

}  // namespace

std::span<const Instruction> async_copy_rows() {
  return kRows;
}

}  // namespace tcc::ir
