// One launch of a Lowered kernel: blocks of threads, their scheduling and what they wait for.
#pragma once

#include "interp/machine.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/instr.h"

namespace tcc::interp {

using ir::kGroupLanes;
using ir::kWarpLanes;

struct BlockState {
  int64_t grid[3] = {0, 0, 0};
  int64_t cluster[2] = {0, 0};
  int64_t cluster_index = 0;  // blocks of one cluster share it
  int64_t rank = 0;           // in the cluster
  int32_t count = 0;          // threads
  uint32_t agent = 0;         // thread number of the block's asynchronous agent
  uint32_t agent_tick = 0;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<Memory*> by_slot;  // global and shared ones; nullptr for private ones
};

struct AtomicState {
  Clock released;
  std::vector<Epoch> writers;
};

class Launch {
 public:
  // `memories` by slot: global, workspace and parameter buffers; nullptr for those that the launch makes itself.
  Launch(Machine& machine, std::vector<Memory*> memories) : m_(machine), memories_(std::move(memories)) {}
  void run();

  // sync.cpp
  MbarrierState& mbarrier(Memory* memory, int64_t at) { return mbarriers_[{memory, at}]; }
  bool has_mbarrier(Memory* memory, int64_t at) const { return mbarriers_.contains({memory, at}); }
  AtomicState& atomic(Memory* memory, int64_t at) { return atomics_[{memory, at}]; }
  // remote: the barrier is another block's. Such an arrival has the scope of its own block: it says that reads have
  // ended, and orders no write of a thread.
  void arrive(MbarrierState& b, Thread& t, int64_t bytes, bool remote, const Ins* at);
  bool try_wait(Thread& t);
  void complete(MbarrierState& b);
  void flush(MbarrierState& b);
  void tick(Thread& t);
  // The block of that rank in the cluster of `of`; nullptr: the cluster is smaller.
  BlockState* peer(const BlockState& of, int64_t rank) const;
  void collective(const CallSite& site, std::span<Thread* const> lanes, const Ins* at);

 private:
  bool measure();
  void run_blocks();
  std::unique_ptr<BlockState> make_block(int64_t index);
  void make_thread(BlockState& block, int32_t in_block);
  std::unique_ptr<Memory> make_memory(int32_t slot, bool history);
  void schedule();
  bool run_warp(BlockState& block, int32_t warp);
  bool resolve_group(BlockState& block, Thread& first);
  bool resolve_barriers(BlockState& block);
  bool resolve_clusters();
  void check_barrier(BlockState& block, std::span<Thread* const> arrived);
  void join_all(std::span<Thread* const> threads);
  void shuffle(const CallSite& site, std::span<Thread* const> lanes, const Ins* at);
  void explain_deadlock();
  void drain();
  std::vector<Thread*> group_of(BlockState& block, const Thread& t, const ir::Instruction& row) const;

  Machine& m_;
  std::vector<Memory*> memories_;
  std::vector<std::unique_ptr<BlockState>> blocks_;  // alive together
  int64_t grid_[3] = {1, 1, 1}, cluster_[2] = {1, 1};
  int64_t extents_[kAxes] = {};
  int32_t threads_ = 1;
  std::map<std::pair<Memory*, int64_t>, MbarrierState> mbarriers_;
  std::map<std::pair<Memory*, int64_t>, AtomicState> atomics_;
  Rng rng_{0};
};

}  // namespace tcc::interp
