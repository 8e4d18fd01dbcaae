// cp.async of 16, 8 or 4 bytes. The argument is the number of source bytes that are read; the rest is filled with
// zeros. Only the widest form goes past the first-level cache (PTX manual, "cp.async": .cg takes 16 bytes).
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

template <Type T, int32_t Bytes>
constexpr OperandSpec kOperands[] = {{"D", T, Scope::kShared, Access::kWrite, 1, {Bytes / type_bytes(T)}, {}, Bytes},
                                     {"S", T, Scope::kGlobal, Access::kRead, 1, {Bytes / type_bytes(T)}, {}, Bytes}};

constexpr Instruction copy(std::string_view name, std::span<const OperandSpec> operands, std::string_view semantics,
                           int64_t bytes = 16, std::string_view ptx = "cp.async.cg.shared.global [%D], [%S], 16, $0;") {
  return {.name = name,
          .family = Family::kCopyAsync,
          .feature = "cp_async",
          .operands = operands,
          .num_args = 1,
          .completion = Completion::kCopyGroup,
          .semantics = semantics,
          .bytes = bytes,
          .ptx = ptx};
}

constexpr std::string_view kEight = "cp.async.ca.shared.global [%D], [%S], 8, $0;";
constexpr std::string_view kFour = "cp.async.ca.shared.global [%D], [%S], 4, $0;";

constexpr Instruction kRows[] = {
    copy("cp.async.16.f32", kOperands<Type::kF32, 16>, "for i in 4 { D[i] = (S[i] where i*4 < $0 else 0.0) }"),
    copy("cp.async.8.f32", kOperands<Type::kF32, 8>, "for i in 2 { D[i] = (S[i] where i*4 < $0 else 0.0) }", 8, kEight),
    copy("cp.async.4.f32", kOperands<Type::kF32, 4>, "D[0] = (S[0] where 0 < $0 else 0.0)", 4, kFour),
    copy("cp.async.16.f16", kOperands<Type::kF16, 16>, "for i in 8 { D[i] = (S[i] where i*2 < $0 else 0.0f16) }"),
    copy("cp.async.8.f16", kOperands<Type::kF16, 8>, "for i in 4 { D[i] = (S[i] where i*2 < $0 else 0.0f16) }", 8,
         kEight),
    copy("cp.async.4.f16", kOperands<Type::kF16, 4>, "for i in 2 { D[i] = (S[i] where i*2 < $0 else 0.0f16) }", 4,
         kFour),
    copy("cp.async.16.bf16", kOperands<Type::kBF16, 16>, "for i in 8 { D[i] = (S[i] where i*2 < $0 else 0.0bf16) }"),
    copy("cp.async.8.bf16", kOperands<Type::kBF16, 8>, "for i in 4 { D[i] = (S[i] where i*2 < $0 else 0.0bf16) }", 8,
         kEight),
    copy("cp.async.4.bf16", kOperands<Type::kBF16, 4>, "for i in 2 { D[i] = (S[i] where i*2 < $0 else 0.0bf16) }", 4,
         kFour),
    copy("cp.async.16.i8", kOperands<Type::kI8, 16>, "for i in 16 { D[i] = (S[i] where i < $0 else 0i8) }"),
    copy("cp.async.8.i8", kOperands<Type::kI8, 8>, "for i in 8 { D[i] = (S[i] where i < $0 else 0i8) }", 8, kEight),
    copy("cp.async.4.i8", kOperands<Type::kI8, 4>, "for i in 4 { D[i] = (S[i] where i < $0 else 0i8) }", 4, kFour),
    act(Family::kCopyAsync, "cp.async.commit", "cp_async", Participants::kThread, {}, 0, Behaviour::kCopyCommit,
        "cp.async.commit_group;"),
    act(Family::kCopyAsync, "cp.async.wait", "cp_async", Participants::kThread, {}, 1, Behaviour::kCopyWait,
        "cp.async.wait_group $0;"),
};

}  // namespace

std::span<const Instruction> async_copy_rows() {
  return kRows;
}

}  // namespace tcc::ir
