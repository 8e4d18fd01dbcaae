// Barriers in shared memory, barriers of a cluster, and the registers that warpgroups give each other. A thread that
// waits is not run until the phase is complete, but for some early answers of "not yet". A phase that lacks nothing but
// bytes is completed, and its copies land, only when no thread can go on without them.

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

constexpr uint8_t kWide = 8;

// The barrier that a lane names, ordered behind its initialization; nullptr after a finding.
Mbarrier* find_barrier(Warp& w, const Ins& i, int l, Block** owner = nullptr) {
  Machine& m = *w.machine;
  int64_t offset = 0;
  Block* block = nullptr;
  const uint64_t address = lane_address(w, i, l);
  if (address % 8 != 0) {
    m.report(FindingKind::kMisaligned, w, l, i, fmt::format("address {:#x} must be a multiple of 8", address));
    return nullptr;
  }
  Region* region = shared_region(w, i, l, address, 8, offset, &block);
  if (region == nullptr) return nullptr;
  const auto found = block->mbarriers.find(offset);
  if (found == block->mbarriers.end()) {
    m.report(FindingKind::kUninitialised, w, l, i,
             m.place_text(*region, offset) + ": the barrier has not been initialized");
    return nullptr;
  }
  m.note_atomic_read(w, l, i, *region, offset, 8);
  if (block != w.block && !found->second.published)
    m.report(FindingKind::kRace, w, l, i,
             m.place_text(*region, offset) + ": no fence.mbarrier_init behind the barrier's initialization");
  if (owner != nullptr) *owner = block;
  return &found->second;
}

void complete_phase(Mbarrier& b) {
  ++b.phase;
  b.pending = b.expected;
  b.released = std::make_shared<interp::Clock>(b.gathering);
  b.fenced = std::make_shared<interp::Clock>(b.fenced_gathering);
  b.cluster_released = std::make_shared<interp::Clock>(b.cluster_gathering);
  b.finished = std::make_shared<interp::Clock>(b.finished_gathering);
}

void run_init(Warp& w, const Ins& i, uint32_t lanes) {
  for (const int l : LanesOf(lanes)) {
    if (write_place(w, i, l, Space::kShared, lane_address(w, i, l), 8) == nullptr) continue;
    const auto count = static_cast<int64_t>(w.source<uint32_t>(i.b)[l]);
    if (count < 1 || count >= 1 << 20) {
      w.machine->report(FindingKind::kWrongParticipants, w, l, i, fmt::format("a barrier for {} arrivals", count));
      continue;
    }
    Mbarrier b;
    b.expected = b.pending = count;
    b.owner = w.thread(l);
    for (interp::Clock* c : {&b.gathering, &b.fenced_gathering, &b.cluster_gathering, &b.finished_gathering})
      c->start(w.block->first_thread, w.block->slots);
    w.block->mbarriers[static_cast<int64_t>(lane_address(w, i, l))] = std::move(b);
  }
}

// mode bit 0: arrives, bit 1: expects b bytes, bit 2: b arrivals, bit 3: at the scope of the cluster.
void run_arrive(Warp& w, const Ins& i, uint32_t lanes) {
  for (const int l : LanesOf(lanes)) {
    Block* owner = nullptr;
    Mbarrier* b = find_barrier(w, i, l, &owner);
    if (b == nullptr) continue;
    const int64_t operand = i.b == kNone ? 1 : static_cast<int64_t>(w.source<uint32_t>(i.b)[l]);
    if ((i.mode & 2) != 0) b->bytes += operand;
    if ((i.mode & 1) == 0) continue;
    const int64_t count = (i.mode & 4) != 0 ? operand : 1;
    if (count > b->pending) {
      w.machine->report(FindingKind::kWrongParticipants, w, l, i,
                        fmt::format("more than {} arrivals in one phase of the barrier", b->expected));
      continue;
    }
    w.machine->tell_barrier(w, l, *b, *owner, (i.mode & kWide) != 0);
    b->pending -= count;
    if (b->pending == 0 && b->bytes == 0 && b->copies.empty()) complete_phase(*b);
  }
}

// d: predicate; b: parity; mode kWide: at the scope of the cluster. True when the lane need not stay.
bool poll_test(Warp& w, const Ins& i, int l) {
  Mbarrier* b = find_barrier(w, i, l);
  const uint32_t bit = uint32_t{1} << l;
  if (b == nullptr) {
    w.preds[i.d] |= bit;
    return true;
  }
  if ((b->phase & 1) != static_cast<int64_t>(w.source<uint32_t>(i.b)[l] & 1)) {
    w.machine->learn_barrier(w, l, *b, (i.mode & kWide) != 0);
    w.preds[i.d] |= bit;
    return true;
  }
  w.preds[i.d] &= ~bit;
  return ((w.at_wait >> l) & 1) == 0 && w.machine->rng.below(8) == 0;  // "not yet"
}

void run_map_rank(Warp& w, const Ins& i, uint32_t lanes) {
  for (const int l : LanesOf(lanes)) {
    const uint32_t rank = w.source<uint32_t>(i.b)[l];
    if (w.machine->peer(*w.block, rank) == nullptr)
      w.machine->report(FindingKind::kWrongParticipants, w, l, i, fmt::format("the cluster has no block {}", rank));
    w.row<uint32_t>(i.d)[l] = (w.source<uint32_t>(i.a)[l] & ((uint32_t{1} << kRankShift) - 1)) | (rank + 1)
                                                                                                     << kRankShift;
  }
}

void run_elect(Warp& w, const Ins& i, uint32_t lanes) {
  const int leader = std::countr_zero(lanes);
  uint32_t* d = w.row<uint32_t>(i.d);
  for_lanes(lanes, [&](int l) { d[l] = static_cast<uint32_t>(leader); });
  const int32_t p = w.extra[i.extra];
  w.preds[p] = (w.preds[p] & ~lanes) | uint32_t{1} << leader;
}

// mode 1: of global memory alone, of which no asynchronous access is checked.
void run_fence_proxy(Warp& w, const Ins& i, uint32_t lanes) {
  if (i.mode == 0) w.machine->fence_proxy(w, lanes);
  for (auto& [offset, b] : w.block->mbarriers)
    b.published |= b.owner / kLanes == w.number && ((lanes >> (b.owner % kLanes)) & 1) != 0;
}
void run_publish(Warp& w, const Ins&, uint32_t lanes) {
  for (auto& [offset, b] : w.block->mbarriers)
    b.published |= b.owner / kLanes == w.number && ((lanes >> (b.owner % kLanes)) & 1) != 0;
}

// --- clusters --------------------------------------------------------------------------------------------------------

void settle_cluster(Machine& m) {
  for (auto& b : m.blocks)
    for (auto& w : b->warps)
      if ((w->exists & ~w->done & ~w->cluster_arrived) != 0) return;
  auto& c = m.cluster_barrier;
  ++c.phase;
  c.released = std::make_shared<interp::Clock>(c.gathering);
  c.fenced = std::make_shared<interp::Clock>(c.fenced_gathering);
  for (auto& b : m.blocks)
    for (auto& w : b->warps) w->cluster_arrived = 0;
}
void run_cluster_arrive(Warp& w, const Ins& i, uint32_t lanes) {
  Machine& m = *w.machine;
  for (const int l : LanesOf(lanes)) {
    if (((w.cluster_arrived >> l) & 1) != 0)
      m.report(FindingKind::kWrongParticipants, w, l, i, "a second arrival at the cluster's barrier without a wait");
    w.cluster_arrived |= uint32_t{1} << l;
    w.cluster_phase[static_cast<size_t>(l)] = m.cluster_barrier.phase;
    m.tell(w, l, m.cluster_barrier.gathering, m.cluster_barrier.fenced_gathering);
  }
}
bool poll_cluster(Warp& w, const Ins& i, int l) {
  Machine& m = *w.machine;
  const int64_t arrived = w.cluster_phase[static_cast<size_t>(l)];
  if (arrived < 0) {
    m.report(FindingKind::kWrongParticipants, w, l, i, "a wait at the cluster's barrier without an arrival");
    return true;
  }
  if (arrived == m.cluster_barrier.phase) settle_cluster(m);
  if (arrived == m.cluster_barrier.phase) return false;
  m.learn(w, l, m.cluster_barrier.released, m.cluster_barrier.fenced);
  return true;
}

// --- registers -------------------------------------------------------------------------------------------------------

// imm: registers of a thread; mode 1: more than before. The whole warp changes with its first lane.
bool poll_registers(Warp& w, const Ins& i, int l) {
  if (w.registers == i.imm) return true;
  const bool more = i.imm > w.registers;
  if (more != (i.mode == 1)) {
    w.machine->report(FindingKind::kWrongParticipants, w, l, i,
                      fmt::format("the warp has {} registers a thread", w.registers));
    return true;
  }
  if (more && (i.imm - w.registers) * kLanes > w.block->free_registers) return false;
  w.block->free_registers -= (i.imm - w.registers) * kLanes;
  w.registers = i.imm;
  return true;
}

// --- selection -------------------------------------------------------------------------------------------------------

void select_barrier_object(Selector& x) {
  const bool remote = x.op.take("shared::cluster");
  if (!remote && x.op.take_one({"shared", "shared::cta"}) < 0) return;
  const bool relaxed = x.op.take_one({"release", "acquire", "relaxed"}) == 2;
  const bool wide = x.op.take_one({"cta", "cluster"}) == 1;
  if (relaxed) return;
  if (!x.op.take("b64")) return;
  x.note_shared(8);
  x.ins.space = Space::kShared;
  x.ins.bytes = 8;
  if (x.op.take("init") && x.op.done()) {
    x.need(2);
    x.ins.run = &run_init;
    x.address(0);
    x.ins.b = x.value(1, 4);
    return;
  }
  const int wait = x.op.take_one({"test_wait", "try_wait"});
  if (wait >= 0) {
    if (!x.op.take("parity") || !x.op.done() || remote) return;
    x.need(3, wait == 1 ? 4 : 3);
    x.ins.kind = Kind::kWait;
    x.ins.poll = &poll_test;
    x.ins.mode = wide ? kWide : 0;
    x.ins.d = x.predicate_result(0);
    x.address(1);
    x.ins.b = x.value(2, 4);
    return;
  }
  const bool arrives = x.op.take("arrive"), expects = x.op.take("expect_tx");
  if ((!arrives && !expects) || !x.op.done()) return;
  x.ins.run = &run_arrive;
  x.ins.mode = static_cast<uint8_t>((arrives ? 1 : 0) | (expects ? 2 : 0) | (wide ? kWide : 0));
  const size_t first = arrives ? 1 : 0;
  x.need(first + (expects ? 2 : 1), first + 2);
  if (arrives && x.at(0).kind != Operand::Kind::kSink) x.fail("the state of an arrival is not supported");
  x.address(first);
  if (x.operands() > first + 1) {
    x.ins.b = x.value(first + 1, 4);
    if (!expects) x.ins.mode |= 4;
  }
}

void select_cluster_barrier(Selector& x) {
  x.ins.aligned = x.op.take("aligned");
  const bool arrive = x.op.take("arrive");
  x.op.take_one({"release", "relaxed", "acquire"});
  if ((!arrive && !x.op.take("wait")) || !x.op.done()) return;
  x.need(0);
  if (arrive) {
    x.ins.run = &run_cluster_arrive;
    if (x.ins.aligned) x.ins.kind = Kind::kCollective;  // all lanes of the warp meet here
    return;
  }
  x.ins.kind = Kind::kWait;
  x.ins.poll = &poll_cluster;
}

void select_registers(Selector& x) {
  const int direction = x.op.take_one({"dec", "inc"});
  if (direction < 0 || !x.op.take("sync") || !x.op.take("aligned") || !x.op.take("u32") || !x.op.done()) return;
  x.need(1);
  x.ins.kind = Kind::kWait;
  x.ins.poll = &poll_registers;
  x.ins.aligned = true;
  x.ins.mode = static_cast<uint8_t>(direction);
  x.ins.imm = x.literal(0).value_or(0);
  if (x.ins.imm < 24 || x.ins.imm > 256 || x.ins.imm % 8 != 0)
    x.fail(fmt::format("{} takes a multiple of 8 from 24 to 256", x.s.opcode));
}

void select_proxy_fence(Selector& x) {
  if (x.op.take("async")) {
    x.ins.mode = x.op.take_one({"shared", "shared::cta", "shared::cluster", "global"}) == 3 ? 1 : 0;
    x.ins.run = x.op.done() ? &run_fence_proxy : nullptr;
  } else if (x.op.take("release") && x.op.take("cluster")) {
    x.ins.run = x.op.done() ? &run_publish : nullptr;
  }
  x.need(0);
}

}  // namespace

void Machine::poll_lanes(Warp& w, const Ins& ins, uint32_t lanes) {
  for (const int l : LanesOf(lanes)) {
    const uint32_t bit = uint32_t{1} << l;
    if (ins.poll(w, ins, l)) {
      ++w.pc[static_cast<size_t>(l)];
      w.at_wait &= ~bit;
      w.ready |= bit;
    } else {
      w.at_wait |= bit;
      w.ready &= ~bit;
    }
  }
}

bool Machine::resolve_waits(Warp& w) {
  const uint32_t before = w.at_wait;
  for (const int l : LanesOf(before)) {
    poll_lanes(w, kernel->code[static_cast<size_t>(w.pc[static_cast<size_t>(l)])], uint32_t{1} << l);
  }
  return w.at_wait != before;
}

// Copies land whose barrier has all arrivals of its phase, and waits for just their bytes.
void Machine::complete_mbarriers() {
  for (auto& block : blocks) {
    for (auto& [offset, b] : block->mbarriers) {
      if (b.pending != 0 || b.copies.empty()) continue;
      int64_t under_way = 0;
      for (const BoxCopy& c : b.copies) under_way += c.bytes;
      if (under_way > b.bytes) {
        const BoxCopy& last = b.copies.back();
        report(FindingKind::kWrongParticipants, *last.warp, last.lane, *last.ins,
               fmt::format("{}: the barrier expects {} bytes and {} are under way", place_text(block->shared, offset),
                           b.bytes, under_way));
        stopped = true;
        return;
      }
      if (under_way < b.bytes) continue;
      for (const BoxCopy& c : b.copies) {
        land_copy(c);
        const uint32_t agent = c.warp->block->agent(*c.warp);
        if (races) b.gathering.set(agent, tick);
      }
      ++tick;
      b.copies.clear();
      b.bytes = 0;
      complete_phase(b);
    }
  }
}

void Machine::explain_wait(const Warp& w) {
  const int l = std::countr_zero(w.at_wait);
  const Ins& ins = kernel->code[static_cast<size_t>(w.pc[static_cast<size_t>(l)])];
  if (ins.poll == &poll_cluster)
    return report(FindingKind::kDeadlock, w, l, ins,
                  "the cluster's barrier waits for ever for threads that do not come");
  if (ins.poll == &poll_registers)
    return report(FindingKind::kDeadlock, w, l, ins,
                  fmt::format("waits for ever for {} registers a thread; {} of the block are free", ins.imm,
                              w.block->free_registers));
  const auto offset = static_cast<int64_t>(lane_address(w, ins, l));
  const auto found = w.block->mbarriers.find(offset);
  if (found == w.block->mbarriers.end()) return;
  const Mbarrier& b = found->second;
  int64_t under_way = 0;
  for (const BoxCopy& c : b.copies) under_way += c.bytes;
  report(FindingKind::kDeadlock, w, l, ins,
         fmt::format("{}: waits for ever for phase {} of the barrier: {} of {} arrivals and {} bytes are missing",
                     place_text(w.block->shared, offset), b.phase, b.pending, b.expected, b.bytes - under_way));
}

void select_mbarrier(Selector& x) {
  const std::string_view base = x.op.base();
  if (base == "mbarrier") return select_barrier_object(x);
  if (base == "barrier") return select_cluster_barrier(x);
  if (base == "setmaxnreg") return select_registers(x);
  if (base == "fence") return select_proxy_fence(x);
  if (base == "mapa" && x.op.take("shared::cluster") && x.op.take("u32") && x.op.done()) {
    x.need(3);
    x.ins.run = &run_map_rank;
    x.ins.d = x.result(0, 4);
    x.ins.a = x.value(1, 4);
    x.ins.b = x.value(2, 4);
  }
  if (base == "elect" && x.op.take("sync") && x.op.done()) {
    x.need(2);
    x.ins.kind = Kind::kCollective;
    x.ins.run = &run_elect;
    x.ins.members = x.value(1, 4);
    x.ins.d = x.result(0, 4);
    x.begin_extra();
    x.code.extra.push_back(x.second_predicate(0));
    if (x.code.extra.back() < 0) return x.fail("elect.sync needs a predicate");
  }
}

}  // namespace tcc::emulation
