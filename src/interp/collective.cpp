// Where threads meet: warps, warpgroups, blocks, clusters; and what is said when they do not.
#include <algorithm>

#include "interp/launch.h"
#include "interp/rows.h"
#include "interp/sync.h"
#include "tcc/support/check.h"

namespace tcc::interp {
namespace {

using ir::Behaviour;
using Kind = Finding::Kind;
using State = Thread::State;

const CallSite& site_of(const Machine& m, const Thread& t) {
  return m.region->calls[static_cast<size_t>(t.pc->e)];
}
const ir::Instruction& row_of(const Machine& m, const Thread& t) {
  return ir::instruction(site_of(m, t).stmt->instr);
}

int64_t span_of(ir::Participants p, int64_t block) {
  switch (p) {
    case ir::Participants::kThread:
    case ir::Participants::kWarp:
      return kWarpLanes;
    case ir::Participants::kWarpgroup:
      return kGroupLanes;
    case ir::Participants::kBlock:
      return block;
  }
  return block;
}

void go_on(std::span<Thread* const> threads) {
  for (Thread* t : threads) {
    t->state = State::kReady;
    ++t->pc;
  }
}

void mark_pending(Deferred& d) {
  for (size_t i = 0; i < d.pending.size(); ++i) {
    uint8_t& contents = d.pending[i].first->contents[d.pending[i].second];
    if (contents == kPending) continue;
    d.before[i] = contents;
    contents = kPending;
  }
}

}  // namespace

// The threads that take part in the collective that `t` is at.
std::vector<Thread*> Launch::group_of(BlockState& block, const Thread& t, const ir::Instruction& row) const {
  const int64_t span = span_of(row.participants, block.count);
  const int64_t first = t.in_block / span * span;
  const int64_t end = std::min<int64_t>(block.count, first + span);
  int64_t mask = -1;
  if (row.behaviour == Behaviour::kWarpSync) mask = t.regs[site_of(m_, t).args[0]].i;
  std::vector<Thread*> group;
  for (int64_t i = first; i < end; ++i) {
    if (row.behaviour == Behaviour::kWarpSync && ((mask >> (i - first)) & 1) == 0) continue;
    group.push_back(block.threads[static_cast<size_t>(i)].get());
  }
  return group;
}

bool Launch::resolve_group(BlockState& block, Thread& first) {
  const CallSite& site = site_of(m_, first);
  const ir::Instruction& row = row_of(m_, first);
  if (row.behaviour == Behaviour::kClusterSync) return false;
  const std::vector<Thread*> group = group_of(block, first, row);
  const Ins* at = first.pc;
  if (std::find(group.begin(), group.end(), &first) == group.end()) {
    m_.report(Kind::kWrongParticipants, first, at, -1, -1, "the mask does not name the lane itself");
    first.state = State::kReady;
    ++first.pc;
    return true;
  }
  for (const Thread* t : group)
    if (t->state != State::kCollective || t->pc != at) return false;
  const int64_t span = span_of(row.participants, block.count);
  if (row.behaviour == Behaviour::kCompute && static_cast<int64_t>(group.size()) < span) {
    m_.report(Kind::kWrongParticipants, first, at, -1, -1,
              fmt::format("{} needs {} threads and {} exist", row.name, span, group.size()));
  } else {
    collective(site, group, at);
  }
  go_on(group);
  return true;
}

void Launch::join_all(std::span<Thread* const> threads) {
  if (!m_.races || threads.empty()) return;
  Clock clock = threads[0]->clock, fenced = threads[0]->fenced, finished = threads[0]->finished;
  for (const Thread* t : threads.subspan(1)) {
    clock.join(t->clock);
    fenced.join(t->fenced);
    finished.join(t->finished);
  }
  for (Thread* t : threads) {
    t->clock = clock;
    t->fenced = fenced;
    t->finished = finished;
    tick(*t);
  }
}

void Launch::shuffle(const CallSite& site, std::span<Thread* const> lanes, const Ins* at) {
  std::vector<Reg> values;
  for (Thread* t : lanes) {
    const Place from = operand_place(m_, *t, site.operands[1]);
    Reg value{0};
    if (from.at >= 0) {
      m_.check_read(*from.memory, from.at, *t, at);
      value = load_element(from.memory->type, from.memory->data, from.at);
    }
    values.push_back(value);
  }
  const auto count = static_cast<int64_t>(lanes.size());
  for (int64_t lane = 0; lane < count; ++lane) {
    Thread& t = *lanes[static_cast<size_t>(lane)];
    const int64_t mode = t.regs[site.args[0]].i, by = t.regs[site.args[1]].i, width = t.regs[site.args[2]].i;
    if (width < 1 || width > kWarpLanes || (width & (width - 1)) != 0 || mode < 0 || mode > 3) {
      m_.report(Kind::kWrongParticipants, t, at, -1, -1, fmt::format("a shuffle of mode {} and width {}", mode, width));
      continue;
    }
    const int64_t base = lane / width * width;
    int64_t source = lane;
    if (mode == 0) source = base + (by & (width - 1));
    if (mode == 1) source = lane - by;
    if (mode == 2) source = lane + by;
    if (mode == 3) source = lane ^ by;
    if (source < base || source >= base + width || source >= count) source = lane;
    const Place to = operand_place(m_, t, site.operands[0]);
    if (to.at < 0) continue;
    m_.check_write(*to.memory, to.at, t, at);
    store_element(to.memory->type, to.memory->data, to.at, values[static_cast<size_t>(source)]);
  }
}

void Launch::collective(const CallSite& site, std::span<Thread* const> lanes, const Ins* at) {
  const ir::Instruction& row = ir::instruction(site.stmt->instr);
  Thread& leader = *lanes[0];
  switch (row.behaviour) {
    case Behaviour::kCompute:
      start_call(m_, lanes, row);
      return;
    case Behaviour::kShuffle:
      shuffle(site, lanes, at);
      return;
    case Behaviour::kWarpSync:
      join_all(lanes);
      return;
    case Behaviour::kWgmmaCommit:
      leader.multiply_groups.push_back(std::move(leader.multiplies));
      leader.multiplies.clear();
      return;
    case Behaviour::kWgmmaWait:
      while (static_cast<int64_t>(leader.multiply_groups.size()) > leader.regs[site.args[0]].i) {
        for (const Deferred& d : leader.multiply_groups.front()) finish_call(m_, d, d.writer);
        leader.multiply_groups.pop_front();
      }
      // Accumulators that a later product still works on stay poison.
      for (auto& group : leader.multiply_groups)
        for (Deferred& d : group) mark_pending(d);
      for (Deferred& d : leader.multiplies) mark_pending(d);
      return;
    case Behaviour::kFenceProxyAsync:
    case Behaviour::kFenceMbarrierInit:
    case Behaviour::kThreadFence:
      for (Thread* t : lanes) fence(m_, *t, row.behaviour);
      return;
    case Behaviour::kWgmmaFence:
    case Behaviour::kSetMaxRegisters:
    case Behaviour::kTileConfig:
      return;
    case Behaviour::kBarSync:
    case Behaviour::kCopyCommit:
    case Behaviour::kCopyWait:
    case Behaviour::kCopyWaitRead:
    case Behaviour::kMbarrierInit:
    case Behaviour::kMbarrierArrive:
    case Behaviour::kMbarrierExpectTx:
    case Behaviour::kMbarrierWait:
    case Behaviour::kAtomicAdd:
    case Behaviour::kClusterSync:
      TCC_UNREACHABLE("{} acts for single threads", row.name);
  }
}

// --- bar.sync ------------------------------------------------------------------------------------------------------

void Launch::check_barrier(BlockState& block, std::span<Thread* const> arrived) {
  for (const Thread* t : arrived) {
    const int64_t first = t->in_block / kWarpLanes * kWarpLanes;
    const int64_t end = std::min<int64_t>(block.count, first + kWarpLanes);
    for (int64_t i = first; i < end; ++i) {
      const Thread& other = *block.threads[static_cast<size_t>(i)];
      const bool together = other.state == State::kBarrier && other.barrier == t->barrier && other.pc == t->pc;
      if (together) continue;
      m_.report(Kind::kDivergentBarrier, *t, t->pc, -1, -1,
                fmt::format("lane {} of the warp is not at this barrier", other.in_block % kWarpLanes));
      return;
    }
  }
}

bool Launch::resolve_barriers(BlockState& block) {
  std::map<int64_t, std::vector<Thread*>> waiting;
  for (auto& t : block.threads)
    if (t->state == State::kBarrier) waiting[t->barrier].push_back(t.get());
  bool progress = false;
  for (auto& [number, threads] : waiting) {
    const int64_t count = threads[0]->barrier_count;
    for (const Thread* t : threads) {
      if (t->barrier_count == count) continue;
      m_.report(Kind::kWrongParticipants, *t, t->pc, -1, -1,
                fmt::format("barrier {} is awaited for {} and for {} threads", number, count, t->barrier_count));
      m_.stopped = true;
      return true;
    }
    if (static_cast<int64_t>(threads.size()) > count) {
      m_.report(Kind::kWrongParticipants, *threads[0], threads[0]->pc, -1, -1,
                fmt::format("barrier {} is for {} threads and {} wait at it", number, count, threads.size()));
      m_.stopped = true;
      return true;
    }
    if (static_cast<int64_t>(threads.size()) < count) continue;
    check_barrier(block, threads);
    join_all(threads);
    go_on(threads);
    progress = true;
  }
  return progress;
}

bool Launch::resolve_clusters() {
  const auto waits = [&](const Thread& t) {
    return t.state == State::kCollective && row_of(m_, t).behaviour == Behaviour::kClusterSync;
  };
  const bool any = std::any_of(blocks_.begin(), blocks_.end(), [&](const auto& b) { return waits(*b->threads[0]); });
  if (!any) return false;
  std::map<int64_t, std::vector<Thread*>> members;
  std::map<int64_t, bool> all;
  for (auto& b : blocks_) {
    bool& complete = all.try_emplace(b->cluster_index, true).first->second;
    for (auto& t : b->threads) {
      complete = complete && waits(*t);
      members[b->cluster_index].push_back(t.get());
    }
  }
  bool progress = false;
  for (auto& [cluster, threads] : members) {
    if (!all[cluster]) continue;
    join_all(threads);
    go_on(threads);
    progress = true;
  }
  return progress;
}

// Nobody can go on: says for each place where threads wait what is missing there.
void Launch::explain_deadlock() {
  for (auto& b : blocks_) {
    for (auto& owned : b->threads) {
      Thread& t = *owned;
      if (t.state == State::kDone) continue;
      if (t.state == State::kBarrier) {
        int64_t here = 0;
        for (auto& o : b->threads) here += o->state == State::kBarrier && o->barrier == t.barrier;
        const int64_t first = t.in_block / kWarpLanes * kWarpLanes;
        bool divergent = false;
        for (int64_t i = first; i < std::min<int64_t>(b->count, first + kWarpLanes); ++i) {
          const Thread& o = *b->threads[static_cast<size_t>(i)];
          divergent |= o.state != State::kBarrier || o.barrier != t.barrier;
        }
        m_.report(divergent ? Kind::kDivergentBarrier : Kind::kDeadlock, t, t.pc, -1, -1,
                  fmt::format("{} of {} threads wait at barrier {} for ever", here, t.barrier_count, t.barrier));
      } else if (t.state == State::kMbarrier) {
        const MbarrierState& s = mbarrier(t.mbarrier, t.mbarrier_at);
        m_.report(Kind::kDeadlock, t, t.pc, t.mbarrier->slot, t.mbarrier_at,
                  fmt::format("the barrier lacks {} arrivals and {} bytes in phase {}", s.pending, s.bytes, s.phase));
      } else {
        m_.report(Kind::kWrongParticipants, t, t.pc, -1, -1,
                  fmt::format("not all participants of {} come to it", row_of(m_, t).name));
      }
    }
  }
}

}  // namespace tcc::interp
