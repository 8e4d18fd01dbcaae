// Making blocks and running their warps: lanes that are at the same instruction go on together until they part, meet
// others at a label, wait, or have used up their slice.
#include <algorithm>

#include "emulation/ptx_machine.h"

namespace tcc::emulation {
namespace {

uint32_t special_value(const Machine& m, const Block& b, const Warp& w, Special which, int lane) {
  const auto& l = *m.launch;
  const int64_t thread = w.index * kLanes + lane;
  const auto bit = uint32_t{1} << lane;
  switch (which) {
    case Special::kTidX:
      return static_cast<uint32_t>(thread % l.block[0]);
    case Special::kTidY:
      return static_cast<uint32_t>(thread / l.block[0] % l.block[1]);
    case Special::kTidZ:
      return static_cast<uint32_t>(thread / l.block[0] / l.block[1]);
    case Special::kNtidX:
      return static_cast<uint32_t>(l.block[0]);
    case Special::kNtidY:
      return static_cast<uint32_t>(l.block[1]);
    case Special::kNtidZ:
      return static_cast<uint32_t>(l.block[2]);
    case Special::kCtaidX:
      return static_cast<uint32_t>(b.at[0]);
    case Special::kCtaidY:
      return static_cast<uint32_t>(b.at[1]);
    case Special::kCtaidZ:
      return static_cast<uint32_t>(b.at[2]);
    case Special::kNctaidX:
      return static_cast<uint32_t>(l.grid[0]);
    case Special::kNctaidY:
      return static_cast<uint32_t>(l.grid[1]);
    case Special::kNctaidZ:
      return static_cast<uint32_t>(l.grid[2]);
    case Special::kLaneid:
      return static_cast<uint32_t>(lane);
    case Special::kWarpid:
      return static_cast<uint32_t>(w.index);
    case Special::kLanemaskEq:
      return bit;
    case Special::kLanemaskLt:
      return bit - 1;
    case Special::kLanemaskLe:
      return bit | (bit - 1);
    case Special::kLanemaskGt:
      return ~(bit | (bit - 1));
    case Special::kLanemaskGe:
      return ~(bit - 1);
    case Special::kDynamicShared:
      return static_cast<uint32_t>(l.shared_bytes);
    case Special::kClusterRank:
      return static_cast<uint32_t>(b.rank);
    case Special::kClusterSize:
      return static_cast<uint32_t>(m.kernel->cluster[0] * m.kernel->cluster[1] * m.kernel->cluster[2]);
  }
  return 0;
}

}  // namespace

std::unique_ptr<Block> Machine::make_block() {
  auto b = std::make_unique<Block>();
  const int warps = (threads + kLanes - 1) / kLanes;
  b->slots = static_cast<uint32_t>((warps + (kernel->async_proxy ? 1 : 0)) * kLanes);
  b->shared.name = "shared memory";
  b->shared.shared = true;
  b->shared.size = kernel->dynamic_offset + launch->shared_bytes;
  b->shared.data_storage.resize(static_cast<size_t>(b->shared.size) + 16);
  b->shared.data = b->shared.data_storage.data();
  b->shared.track_contents(false);
  if (races) b->shared.track_order(kernel->shared_granule);
  if (kernel->async_proxy) b->shared.reading.resize(static_cast<size_t>(b->shared.size) / 16 + 1);
  for (int i = 0; i < warps; ++i) {
    auto w = std::make_unique<Warp>();
    w->machine = this;
    w->block = b.get();
    w->index = i;
    w->reg_storage.resize(static_cast<size_t>(kernel->register_bytes) + 64);
    w->regs = w->reg_storage.data();
    w->constants = kernel->constants.data();
    w->extra = kernel->extra.data();
    w->in_flight.resize(static_cast<size_t>(kernel->accumulators));
    w->touched_at.resize(static_cast<size_t>(kernel->accumulators));
    w->pred_storage.resize(static_cast<size_t>(kernel->predicates) + 1);
    w->preds = w->pred_storage.data();
    w->local_storage.resize(static_cast<size_t>(kernel->local_bytes) * kLanes);
    w->local = w->local_storage.data();
    const int here = std::min(kLanes, threads - i * kLanes);
    w->exists = here == kLanes ? kAllLanes : (uint32_t{1} << here) - 1;
    b->warps.push_back(std::move(w));
  }
  return b;
}

void Machine::start_block(Block& b, int64_t index) {
  b.index = index;
  b.at = {index % launch->grid[0], index / launch->grid[0] % launch->grid[1],
          index / launch->grid[0] / launch->grid[1]};
  const auto& c = kernel->cluster;
  b.rank = b.at[0] % c[0] + c[0] * (b.at[1] % c[1] + c[1] * (b.at[2] % c[2]));
  b.mbarriers.clear();
  std::fill(b.shared.reading.begin(), b.shared.reading.end(), uint16_t{0});
  if (clustered) std::fill(b.shared.cell_storage.begin(), b.shared.cell_storage.end(), Cell{});
  // What the compiler leaves each thread when it starts, of the 64 Ki registers of a multiprocessor.
  const int64_t entry = std::min<int64_t>(65536 / kernel->min_blocks / std::max(threads, 1) / 8 * 8, 256);
  b.free_registers = 0;
  b.first_thread = static_cast<uint32_t>(index) * b.slots;
  b.floor = tick++;
  start_tick = b.floor;
  std::memset(b.shared.contents, kOutside, static_cast<size_t>(b.shared.size));
  for (const Variable& v : kernel->shared)
    std::memset(b.shared.contents + v.offset, kUndefined,
                static_cast<size_t>(v.dynamic ? launch->shared_bytes : v.bytes));
  std::fill(b.shared.data_storage.begin(), b.shared.data_storage.end(), std::byte{0xff});
  for (auto& w : b.warps) {
    w->number = static_cast<uint32_t>(index) * (b.slots / kLanes) + static_cast<uint32_t>(w->index);
    w->ready = w->exists;
    w->done = w->at_barrier = w->at_collective = w->at_wait = 0;
    w->fenced.fill(nullptr);
    w->finished.fill(nullptr);
    w->undefined.clear();
    w->products.clear();
    w->product_group = w->product_count = 0;
    w->fences = 1;
    std::fill(w->in_flight.begin(), w->in_flight.end(), 0);
    std::fill(w->touched_at.begin(), w->touched_at.end(), int64_t{0});
    w->registers = entry;
    w->cluster_arrived = 0;
    w->cluster_phase.fill(-1);
    w->pc.fill(0);
    w->known.fill(nullptr);
    w->released.fill(nullptr);
    w->acquired.fill(nullptr);
    for (LaneCopies& c : w->copies) c = {};
    for (const auto& [special, place] : kernel->specials)
      for (int l = 0; l < kLanes; ++l) w->row<uint32_t>(place)[l] = special_value(*this, b, *w, special, l);
  }
}

// Lanes at `pc` go on until they part or stop.
void Machine::run_lanes(Warp& w, uint32_t lanes, int32_t pc, int64_t& budget) {
  const Ins* code = kernel->code.data();
  int64_t count = 0;
  const auto leave = [&](int32_t at) {
    for (const int l : LanesOf(lanes)) w.pc[static_cast<size_t>(l)] = at;
    report_to->steps += count;
    instructions += count * std::popcount(lanes);
  };
  for (;; ++pc) {
    const Ins& i = code[pc];
    uint32_t active = lanes;
    if (i.guard >= 0) active &= i.guard_negated ? ~w.preds[i.guard] : w.preds[i.guard];
    ++count;
    if (i.uses != 0 && active != 0) [[unlikely]]
      note_uses(w, i);
    if (!w.undefined.empty()) [[unlikely]]
      follow_undefined(w, i, lanes, active);
    switch (i.kind) {
      case Kind::kPlain:
        if (active != 0) i.run(w, i, active);
        continue;
      case Kind::kLabel:
        --count;
        if (lanes != w.ready || --budget <= 0) return leave(pc + 1);
        continue;
      case Kind::kBranch:
        if (active == lanes) {
          pc = i.target - 1;
        } else if (active != 0) {
          leave(pc + 1);
          for (const int l : LanesOf(active)) w.pc[static_cast<size_t>(l)] = i.target;
          return;
        }
        continue;
      case Kind::kExit:
        if (active == 0) continue;
        leave(pc + 1);
        w.done |= active;
        w.ready &= ~active;
        return;
      case Kind::kBarrier:
        if (active == 0) continue;
        leave(pc + 1);
        arrive_barrier(w, i, active);
        return;
      case Kind::kWait: {
        if (active == 0) continue;
        leave(pc + 1);
        for (const int l : LanesOf(active)) w.pc[static_cast<size_t>(l)] = pc;
        poll_lanes(w, i, active);
        return;
      }
      case Kind::kWarpBarrier:
      case Kind::kCollective: {
        if (active == 0) continue;
        const uint32_t wanted = member_mask(w, i, std::countr_zero(active)) & w.exists;
        if (i.kind == Kind::kCollective && active == wanted && (!i.aligned || wanted == kAllLanes) &&
            w.exists == kAllLanes) {
          i.run(w, i, active);
          continue;
        }
        leave(pc + 1);
        for (const int l : LanesOf(active)) {
          w.pc[static_cast<size_t>(l)] = pc;
          w.members[static_cast<size_t>(l)] = member_mask(w, i, l);
        }
        w.at_collective |= active;
        w.ready &= ~active;
        return;
      }
    }
  }
}

// True when something happened.
bool Machine::run_warp(Warp& w, int64_t budget) {
  bool progress = false;
  while (w.ready != 0 && budget > 0 && !stopped) {
    progress = true;
    // The lanes furthest behind go first, so that those that parted meet again; sometimes others do.
    uint32_t candidates = w.ready;
    int32_t pc = w.pc[static_cast<size_t>(std::countr_zero(candidates))];
    uint32_t lanes = 0;
    const bool any = rng.below(16) == 0;
    int pick = any ? static_cast<int>(rng.below(std::popcount(candidates))) : -1;
    for (uint32_t rest = candidates; rest != 0; rest &= rest - 1, --pick) {
      const int32_t at = w.pc[static_cast<size_t>(std::countr_zero(rest))];
      if (any ? pick == 0 : at < pc) pc = at;
    }
    for (const int l : LanesOf(candidates)) {
      if (w.pc[static_cast<size_t>(l)] == pc) lanes |= uint32_t{1} << l;
    }
    --budget;
    run_lanes(w, lanes, pc, budget);
    if (w.at_collective != 0) resolve_collectives(w);
  }
  if (w.at_collective != 0) progress |= resolve_collectives(w);
  return progress;
}

// The blocks that are alive, until their threads have ended.
void Machine::run_alive() {
  std::vector<Warp*> warps;
  for (auto& b : blocks)
    for (auto& w : b->warps) warps.push_back(w.get());
  while (!stopped) {
    for (size_t i = warps.size(); i > 1; --i)
      std::swap(warps[i - 1], warps[static_cast<size_t>(rng.below(static_cast<int64_t>(i)))]);
    bool progress = false;
    for (Warp* w : warps) {
      if (w->ready != 0 || w->at_collective != 0) progress |= run_warp(*w, 16 + rng.below(128));
      if (stopped) return;
      if (instructions > limit) {
        report(FindingKind::kStepLimit, *w, 0, kernel->code[0],
               fmt::format("stopped after {} instructions of threads", instructions));
        stopped = true;
        return;
      }
    }
    for (auto& b : blocks) progress |= resolve_barriers(*b);
    if (!progress) complete_mbarriers();
    for (Warp* w : warps)
      if (w->at_wait != 0) progress |= resolve_waits(*w);
    std::erase_if(warps, [](const Warp* w) { return w->done == w->exists; });
    if (warps.empty()) return;
    if (!progress && !stopped) {
      explain_deadlock();
      stopped = true;
    }
  }
}

}  // namespace tcc::emulation
