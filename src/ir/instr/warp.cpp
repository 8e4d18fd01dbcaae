// Exchange inside a warp, atomics and fences.
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

template <Type T>
constexpr OperandSpec kShuffle[] = {{"D", T, Scope::kLocal, Access::kWrite, 0, {}},
                                    {"S", T, Scope::kLocal, Access::kRead, 0, {}}};
template <Type T>
constexpr OperandSpec kAtomic[] = {{"D", T, Scope::kGlobal, Access::kReadWrite, 0, {}},
                                   {"S", T, Scope::kLocal, Access::kRead, 0, {}}};

constexpr Instruction kRows[] = {
    act(Family::kWarp, "shfl.f32", "", Participants::kWarp, kShuffle<Type::kF32>, 3, Behaviour::kShuffle,
        "shfl.sync.$0.b32 %D, %S, $1, $2, -1;"),
    act(Family::kWarp, "shfl.i32", "", Participants::kWarp, kShuffle<Type::kI32>, 3, Behaviour::kShuffle,
        "shfl.sync.$0.b32 %D, %S, $1, $2, -1;"),
    act(Family::kSync, "warp.sync", "", Participants::kWarp, {}, 1, Behaviour::kWarpSync, "bar.warp.sync $0;"),
    act(Family::kSync, "fence.device", "", Participants::kThread, {}, 0, Behaviour::kThreadFence, "fence.acq_rel.gpu;"),
    act(Family::kWarp, "atomic.add.f32", "", Participants::kThread, kAtomic<Type::kF32>, 0, Behaviour::kAtomicAdd,
        "red.global.add.f32 [%D], %S;"),
    act(Family::kWarp, "atomic.add.i32", "", Participants::kThread, kAtomic<Type::kI32>, 0, Behaviour::kAtomicAdd,
        "red.global.add.s32 [%D], %S;"),
};

}  // namespace

std::span<const Instruction> warp_rows() {
  return kRows;
}

}  // namespace tcc::ir
