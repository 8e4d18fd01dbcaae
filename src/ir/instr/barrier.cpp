// Barriers of a block (bar.sync), barriers in shared memory (mbarrier), flags in global memory and the fences around
// them.
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

constexpr OperandSpec kShared[] = {{"bar", Type::kBarrier, Scope::kShared, Access::kReadWrite, 0, {}, {}, 8}};
constexpr OperandSpec kGlobal[] = {{"bar", Type::kBarrier, Scope::kGlobal, Access::kReadWrite, 0, {}, {}, 8}};

constexpr Instruction kRows[] = {
    act(Family::kSync, "bar.sync", "", Participants::kBlock, {}, 2, Behaviour::kBarSync, "bar.sync $0, $1;"),
    act(Family::kMbarrier, "mbarrier.init", "mbarrier", Participants::kThread, kShared, 1, Behaviour::kMbarrierInit,
        "mbarrier.init.shared.b64 [%bar], $0;"),
    act(Family::kMbarrier, "mbarrier.arrive", "mbarrier", Participants::kThread, kShared, 0, Behaviour::kMbarrierArrive,
        "mbarrier.arrive.shared.b64 _, [%bar];"),
    // Tells another block of the cluster that the warp has finished its reads. The scope is the thread's own block (the
    // default): a release at the scope of the cluster would first wait for the block's writes to memory, of which this
    // arrival has none to pass on. So it orders no write of a thread before the wait in the other block.
    act(Family::kMbarrier, "mbarrier.arrive.cluster", "clusters", Participants::kThread, kShared, 1,
        Behaviour::kMbarrierArrive,
        "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %bar, $0; "
        "mbarrier.arrive.shared::cluster.b64 _, [remote]; }"),
    act(Family::kMbarrier, "mbarrier.expect_tx", "tma", Participants::kThread, kShared, 1, Behaviour::kMbarrierExpectTx,
        "mbarrier.arrive.expect_tx.shared.b64 _, [%bar], $0;"),
    act(Family::kMbarrier, "mbarrier.wait", "mbarrier", Participants::kThread, kShared, 1, Behaviour::kMbarrierWait,
        "{ .reg .pred done; again: mbarrier.test_wait.parity.shared.b64 done, [%bar], $0; @!done bra again; }"),
    // Flags between blocks of a launch, initialized by an earlier launch. Of the barrier's eight bytes the upper four
    // are the arrivals of a phase and the lower four count arrivals: their quotient is the number of complete phases.
    // An arrival is a releasing increment, a wait an acquiring spin.
    act(Family::kFlag, "flag.init", "", Participants::kThread, kGlobal, 1, Behaviour::kMbarrierInit,
        "st.global.u32 [%bar], 0; st.global.u32 [%bar + 4], $0;"),
    act(Family::kFlag, "flag.arrive", "", Participants::kThread, kGlobal, 0, Behaviour::kMbarrierArrive,
        "red.release.gpu.global.add.u32 [%bar], 1;"),
    act(Family::kFlag, "flag.wait", "", Participants::kThread, kGlobal, 1, Behaviour::kMbarrierWait,
        "{ .reg .pred done; .reg .b32 count, phase; ld.global.u32 count, [%bar + 4]; "
        "again: ld.acquire.gpu.global.u32 phase, [%bar]; div.u32 phase, phase, count; and.b32 phase, phase, 1; "
        "setp.ne.u32 done, phase, $0; @!done bra again; }"),
    act(Family::kSync, "fence.mbarrier_init", "clusters", Participants::kThread, {}, 0, Behaviour::kFenceMbarrierInit,
        "fence.mbarrier_init.release.cluster;"),
    // Of the block's own shared memory only. A fence of all state spaces also waits for writes to global memory.
    act(Family::kSync, "fence.proxy.async", "tma", Participants::kThread, {}, 0, Behaviour::kFenceProxyAsync,
        "fence.proxy.async.shared::cta;"),
    act(Family::kSync, "cluster.sync", "clusters", Participants::kBlock, {}, 0, Behaviour::kClusterSync,
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"),
    act(Family::kSync, "setmaxnreg.inc", "setmaxnreg", Participants::kWarpgroup, {}, 1, Behaviour::kSetMaxRegisters,
        "setmaxnreg.inc.sync.aligned.u32 $0;"),
    act(Family::kSync, "setmaxnreg.dec", "setmaxnreg", Participants::kWarpgroup, {}, 1, Behaviour::kSetMaxRegisters,
        "setmaxnreg.dec.sync.aligned.u32 $0;"),
};

}  // namespace

std::span<const Instruction> barrier_rows() {
  return kRows;
}

}  // namespace tcc::ir
