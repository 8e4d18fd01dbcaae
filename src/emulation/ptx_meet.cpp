// Where threads wait for each other: barriers of the block, instructions of a warp; and what is said when some never
// come.

#include "emulation/ptx_machine.h"

namespace tcc::emulation {

uint32_t Machine::member_mask(const Warp& w, const Ins& ins, int lane) const {
  return ins.members == kNone ? kAllLanes : w.source<uint32_t>(ins.members)[lane];
}

void Machine::arrive_barrier(Warp& w, const Ins& ins, uint32_t lanes) {
  const int32_t pc = static_cast<int32_t>(&ins - kernel->code.data());
  for (const int l : LanesOf(lanes)) {
    const auto i = static_cast<size_t>(l);
    w.pc[i] = pc;
    w.barrier[i] = static_cast<int64_t>(w.source<uint32_t>(ins.a)[l]);
    const int64_t whole = (threads + kLanes - 1) / kLanes * kLanes;
    w.barrier_threads[i] = ins.b == kNone ? whole : static_cast<int64_t>(w.source<uint32_t>(ins.b)[l]);
    if (w.barrier[i] > 15)
      report(FindingKind::kWrongParticipants, w, l, ins,
             fmt::format("expected a barrier of 0 to 15, found {}", w.barrier[i]));
    if (w.barrier_threads[i] % kLanes != 0 || w.barrier_threads[i] == 0 || w.barrier_threads[i] > whole) {
      report(FindingKind::kWrongParticipants, w, l, ins,
             fmt::format("a barrier for {} threads in a block of {}", w.barrier_threads[i], threads));
      stopped = true;
    }
  }
  w.at_barrier |= lanes;
  w.ready &= ~lanes;
}

// bar.sync: all threads of a warp are at the same one.
void Machine::check_barrier(const Warp& w) {
  const int first = std::countr_zero(w.at_barrier);
  const auto f = static_cast<size_t>(first);
  const Ins& ins = kernel->code[static_cast<size_t>(w.pc[f])];
  if (!ins.aligned) return;
  for (const int lane : LanesOf(w.exists)) {
    const auto l = static_cast<size_t>(lane);
    if (((w.at_barrier >> l) & 1) != 0 && w.pc[l] == w.pc[f]) continue;
    report(FindingKind::kDivergentBarrier, w, first, ins, fmt::format("lane {} of the warp is not at this barrier", l));
    return;
  }
}

// A warp counts as a whole, when all of its threads that have not ended are there.
bool Machine::resolve_barriers(Block& block) {
  bool progress = false;
  for (int64_t number = 0; number < 16; ++number) {
    std::vector<Warp*> here;
    int64_t wanted = -1;
    for (auto& w : block.warps) {
      if (w->at_barrier == 0 || (w->at_barrier | w->done) != w->exists) continue;
      const auto f = static_cast<size_t>(std::countr_zero(w->at_barrier));
      if (w->barrier[f] != number) continue;
      if (wanted >= 0 && w->barrier_threads[f] != wanted) {
        report(FindingKind::kWrongParticipants, *w, static_cast<int>(f), kernel->code[static_cast<size_t>(w->pc[f])],
               fmt::format("barrier {} is awaited for {} and for {} threads", number, wanted, w->barrier_threads[f]));
        stopped = true;
        return true;
      }
      wanted = w->barrier_threads[f];
      here.push_back(w.get());
    }
    if (here.empty() || static_cast<int64_t>(here.size()) * kLanes < wanted) continue;
    if (static_cast<int64_t>(here.size()) * kLanes > wanted) {
      const int first = std::countr_zero(here[0]->at_barrier);
      report(FindingKind::kWrongParticipants, *here[0], first,
             kernel->code[static_cast<size_t>(here[0]->pc[static_cast<size_t>(first)])],
             fmt::format("barrier {} is for {} threads and {} wait at it", number, wanted, here.size() * kLanes));
      stopped = true;
      return true;
    }
    std::vector<Lane> lanes;
    for (Warp* w : here) {
      check_barrier(*w);
      for (const int l : LanesOf(w->at_barrier)) lanes.push_back({w, l});
    }
    if (here.size() == block.warps.size()) {
      join_block(block);
    } else {
      join(lanes);
    }
    for (const Lane& l : lanes) ++l.warp->pc[static_cast<size_t>(l.lane)];
    for (Warp* w : here) {
      w->ready |= w->at_barrier;
      w->at_barrier = 0;
    }
    progress = true;
  }
  return progress;
}

// Collectives of one instruction whose named lanes are all there; warp barriers whose lanes are, at whatever place.
bool Machine::resolve_collectives(Warp& w) {
  bool progress = false;
  uint32_t waiting = w.at_collective;
  while (waiting != 0) {
    const int first = std::countr_zero(waiting);
    const auto f = static_cast<size_t>(first);
    const Ins& ins = kernel->code[static_cast<size_t>(w.pc[f])];
    const bool barrier = ins.kind == Kind::kWarpBarrier;
    uint32_t here = 0;
    for (const int lane : LanesOf(waiting)) {
      const auto l = static_cast<size_t>(lane);
      const bool together =
          barrier ? kernel->code[static_cast<size_t>(w.pc[l])].kind == Kind::kWarpBarrier : w.pc[l] == w.pc[f];
      if (together && w.members[l] == w.members[f]) here |= 1u << l;
    }
    waiting &= ~here;
    const uint32_t wanted = w.members[f] & w.exists;
    if ((here & ~wanted) != 0) {
      const int outside = std::countr_zero(here & ~wanted);
      report(FindingKind::kWrongParticipants, w, outside, ins, "the mask does not name the lane itself");
      here &= wanted;
      w.at_collective &= ~(1u << outside);
      w.ready |= 1u << outside;
      ++w.pc[static_cast<size_t>(outside)];
      progress = true;
    }
    if (here != wanted || here == 0) continue;
    if (barrier) {
      std::vector<Lane> lanes;
      for (const int l : LanesOf(here)) lanes.push_back({&w, l});
      join(lanes);
    } else if (ins.aligned && here != kAllLanes) {
      report(FindingKind::kWrongParticipants, w, first, ins,
             fmt::format("the instruction needs 32 threads and {} exist", std::popcount(here)));
    } else {
      ins.run(w, ins, here);
    }
    for (const int l : LanesOf(here)) ++w.pc[static_cast<size_t>(l)];
    w.at_collective &= ~here;
    w.ready |= here;
    progress = true;
  }
  return progress;
}

// Nobody can go on: says for each place where threads wait what is missing there.
void Machine::explain_deadlock() {
  for (auto& b : blocks) {
    for (auto& w : b->warps) {
      if (w->at_barrier != 0) {
        const int first = std::countr_zero(w->at_barrier);
        const auto f = static_cast<size_t>(first);
        int64_t here = 0;
        for (auto& o : b->warps)
          for (const int l : LanesOf(o->at_barrier)) here += o->barrier[static_cast<size_t>(l)] == w->barrier[f];
        report(w->at_barrier != w->exists ? FindingKind::kDivergentBarrier : FindingKind::kDeadlock, *w, first,
               kernel->code[static_cast<size_t>(w->pc[f])],
               fmt::format("{} of {} threads wait at barrier {} for ever", here, w->barrier_threads[f], w->barrier[f]));
      }
      if (w->at_wait != 0) explain_wait(*w);
      if (w->at_collective != 0) {
        const int first = std::countr_zero(w->at_collective);
        report(FindingKind::kWrongParticipants, *w, first,
               kernel->code[static_cast<size_t>(w->pc[static_cast<size_t>(first)])],
               fmt::format("of the lanes {:#010x} only {:#010x} come to it",
                           w->members[static_cast<size_t>(first)] & w->exists, w->at_collective));
      }
    }
  }
}

}  // namespace tcc::emulation
