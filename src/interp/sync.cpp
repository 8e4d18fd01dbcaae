// What a single thread does at an instruction: act, or wait.
#include "interp/sync.h"

#include "interp/launch.h"
#include "interp/rows.h"
#include "tcc/support/check.h"

namespace tcc::interp {
namespace {

using ir::Behaviour;
using Kind = Finding::Kind;

void atomic_add(Machine& m, Thread& t, const CallSite& site) {
  const Place to = operand_place(m, t, site.operands[0]);
  const Place from = operand_place(m, t, site.operands[1]);
  if (to.at < 0 || from.at < 0) return;
  m.check_read(*from.memory, from.at, t, t.pc);
  Memory& mem = *to.memory;
  if (mem.contents != nullptr && mem.contents[to.at] != kDefined) {
    m.report(Kind::kUninitialised, t, t.pc, mem.slot, to.at, "nothing has written the element");
  }
  if (mem.history != nullptr) {
    AtomicState& state = m.launch->atomic(&mem, to.at);
    const Epoch now{t.id, t.clock.at(t.id), false, true};
    m.check_order_write(mem, to.at, t, t.pc, false, true, now);
    std::erase_if(state.writers, [&](const Epoch& e) { return e.thread == t.id; });
    state.writers.push_back(now);
    t.acquired.join(state.released);
    state.released.join(t.released);
  }
  const Reg a = load_element(mem.type, mem.data, to.at);
  const Reg b = load_element(from.memory->type, from.memory->data, from.at);
  Reg sum;
  if (ir::is_float(mem.type)) {
    sum.f = round_to(mem.type, a.f + b.f);
  } else {
    sum.i = wrap_to(mem.type, static_cast<int64_t>(static_cast<uint64_t>(a.i) + static_cast<uint64_t>(b.i)));
  }
  store_element(mem.type, mem.data, to.at, sum);
  ++m.operations;
}

// The barrier an operand names, or nullptr with a finding.
MbarrierState* find_barrier(Machine& m, Thread& t, const Place& place) {
  if (place.at < 0) return nullptr;
  if (!m.launch->has_mbarrier(place.memory, place.at)) {
    m.report(Kind::kUninitialised, t, t.pc, place.memory->slot, place.at, "the barrier has not been initialized");
    return nullptr;
  }
  if (place.memory->history != nullptr) m.check_order_read(*place.memory, place.at, t, t.pc, false);
  return &m.launch->mbarrier(place.memory, place.at);
}

void barrier_init(Machine& m, Thread& t, const CallSite& site) {
  const Place place = operand_place(m, t, site.operands[0]);
  if (place.at < 0) return;
  m.check_write(*place.memory, place.at, t, t.pc);
  MbarrierState& b = m.launch->mbarrier(place.memory, place.at);
  b = {};
  b.expected = b.pending = t.regs[site.args[0]].i;
  if (b.expected < 1)
    m.report(Kind::kWrongParticipants, t, t.pc, place.memory->slot, place.at, "a barrier expects no arrivals");
}

void barrier_arrive(Machine& m, Thread& t, const CallSite& site, bool expects) {
  Place place = operand_place(m, t, site.operands[0]);
  bool remote = false;
  if (!expects && !site.args.empty() && place.at >= 0) {
    BlockState* peer = m.launch->peer(*t.block, t.regs[site.args[0]].i);
    if (peer == nullptr) {
      m.report(Kind::kWrongParticipants, t, t.pc, -1, -1,
               fmt::format("the cluster has no block {}", t.regs[site.args[0]].i));
      return;
    }
    place.memory = peer->by_slot[static_cast<size_t>(site.operands[0].slot)];
    remote = peer != t.block;
  }
  MbarrierState* b = find_barrier(m, t, place);
  if (b != nullptr) m.launch->arrive(*b, t, expects ? t.regs[site.args[0]].i : 0, remote, t.pc);
}

bool barrier_wait(Machine& m, Thread& t, const CallSite& site) {
  const Place place = operand_place(m, t, site.operands[0]);
  if (find_barrier(m, t, place) == nullptr) return true;
  t.mbarrier = place.memory;
  t.mbarrier_at = place.at;
  t.parity = t.regs[site.args[0]].i;
  if (m.launch->try_wait(t)) return true;
  t.state = Thread::State::kMbarrier;
  return false;
}

// A tensor copy: one piece of work for each block that receives data, attached to that block's barrier.
void start_tensor_copy(Machine& m, Thread& t, const ir::Instruction& row, const CallSite& site) {
  const ir::OperandSpec* barrier_spec = nullptr;
  size_t barrier_operand = 0;
  for (size_t o = 0; o < row.operands.size(); ++o) {
    if (row.operands[o].type != ir::Type::kBarrier) continue;
    barrier_spec = &row.operands[o];
    barrier_operand = o;
  }
  TCC_CHECK(barrier_spec != nullptr, "{} completes on a barrier and has no barrier operand", row.name);
  const Place own = operand_place(m, t, site.operands[barrier_operand]);
  if (own.at < 0) return;
  std::vector<BlockState*> targets{t.block};
  if (row.multicast_arg >= 0) {
    const int64_t mask = t.regs[site.args[static_cast<size_t>(row.multicast_arg)]].i;
    targets.clear();
    for (int64_t rank = 0; rank < 16; ++rank) {
      if (((mask >> rank) & 1) == 0) continue;
      if (BlockState* peer = m.launch->peer(*t.block, rank); peer != nullptr) {
        targets.push_back(peer);
      } else {
        m.report(Kind::kWrongParticipants, t, t.pc, -1, -1, fmt::format("the cluster has no block {}", rank));
      }
    }
  }
  Thread* lane = &t;
  for (BlockState* target : targets) {
    Deferred d = gather_call(m, std::span(&lane, 1), t.pc);
    d.target = target;
    for (const ir::OperandSpec& spec : row.operands) {
      if (spec.access == ir::Access::kRead || spec.type == ir::Type::kBarrier) continue;
      int64_t bytes = ir::type_bytes(spec.type);
      for (int64_t extent : tile_shape(spec, d.args)) bytes *= extent;
      d.bytes += bytes;
    }
    d.writer = {t.block->agent, ++t.block->agent_tick, true, false};
    issue_call(m, d, d.writer);
    Memory* memory = target->by_slot[static_cast<size_t>(site.operands[barrier_operand].slot)];
    if (MbarrierState* b = find_barrier(m, t, {memory, own.at}); b != nullptr) b->copies.push_back(std::move(d));
  }
}

void compute(Machine& m, Thread& t, const ir::Instruction& row, const CallSite& site) {
  if (row.completion == ir::Completion::kMbarrierBytes && m.region->simt) return start_tensor_copy(m, t, row, site);
  Thread* lane = &t;
  start_call(m, std::span(&lane, 1), row);
}

void copy_wait(Machine& m, Thread& t, int64_t may_stay) {
  while (static_cast<int64_t>(t.copy_groups.size()) > may_stay) {
    for (const Deferred& d : t.copy_groups.front()) finish_call(m, d, d.writer);
    t.copy_groups.pop_front();
  }
}

// Before Stage::Lowered and in launches without threads everything happens in order: only data moves, and there is
// nobody to wait for.
void perform_alone(Machine& m, Thread& t, const ir::Instruction& row, const CallSite& site) {
  if (row.behaviour == Behaviour::kCompute) return compute(m, t, row, site);
  if (row.behaviour == Behaviour::kAtomicAdd) return atomic_add(m, t, site);
  if (row.behaviour == Behaviour::kShuffle)
    m.report(Kind::kWrongParticipants, t, t.pc, -1, -1, "a shuffle outside of a launch with threads");
}

bool perform_one(Machine& m, Thread& t, const ir::Instruction& row, const CallSite& site) {
  const auto arg = [&](size_t i) { return t.regs[site.args[i]].i; };
  switch (row.behaviour) {
    case Behaviour::kCompute:
      compute(m, t, row, site);
      return true;
    case Behaviour::kCopyCommit:
      t.copy_groups.push_back(std::move(t.copies));
      t.copies.clear();
      return true;
    case Behaviour::kCopyWait:
    case Behaviour::kCopyWaitRead:
      copy_wait(m, t, arg(0));
      return true;
    case Behaviour::kMbarrierInit:
      barrier_init(m, t, site);
      return true;
    case Behaviour::kMbarrierArrive:
      barrier_arrive(m, t, site, false);
      return true;
    case Behaviour::kMbarrierExpectTx:
      barrier_arrive(m, t, site, true);
      return true;
    case Behaviour::kMbarrierWait:
      return barrier_wait(m, t, site);
    case Behaviour::kFenceProxyAsync:
    case Behaviour::kFenceMbarrierInit:
    case Behaviour::kThreadFence:
      fence(m, t, row.behaviour);
      return true;
    case Behaviour::kSetMaxRegisters:
    case Behaviour::kTileConfig:
      return true;
    case Behaviour::kAtomicAdd:
      atomic_add(m, t, site);
      return true;
    case Behaviour::kBarSync:
      t.barrier = arg(0);
      t.barrier_count = arg(1);
      t.state = Thread::State::kBarrier;
      return false;
    case Behaviour::kWarpSync:
    case Behaviour::kShuffle:
    case Behaviour::kWgmmaFence:
    case Behaviour::kWgmmaCommit:
    case Behaviour::kWgmmaWait:
    case Behaviour::kClusterSync:
      t.state = Thread::State::kCollective;
      return false;
  }
  return true;
}

}  // namespace

Place operand_place(Machine& m, Thread& t, const CallOperand& o) {
  std::vector<int64_t> index;
  for (int32_t reg : o.indices) index.push_back(t.regs[reg].i);
  const BufferShape& shape = m.shapes[static_cast<size_t>(o.slot)];
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] >= 0 && index[i] < shape.shape[i]) continue;
    m.report(Kind::kOutOfBounds, t, t.pc, o.slot, -1,
             fmt::format("index {} of dimension {} is not in [0, {})", index[i], i, shape.shape[i]));
    return {t.mems[o.slot], -1};
  }
  return {t.mems[o.slot], shape.address(index)};
}

void start_call(Machine& m, std::span<Thread* const> lanes, const ir::Instruction& row) {
  Thread& leader = *lanes[0];
  Deferred d = gather_call(m, lanes, leader.pc);
  if (row.completion == ir::Completion::kImmediate || !m.region->simt) return run_call(m, d, {});
  issue_call(m, d, {});
  auto& queue = row.completion == ir::Completion::kCopyGroup ? leader.copies : leader.multiplies;
  queue.push_back(std::move(d));
}

void fence(Machine& m, Thread& t, Behaviour behaviour) {
  if (!m.races) return;
  if (behaviour == Behaviour::kThreadFence) {
    t.clock.join(t.acquired);
    t.released = t.clock;
    m.launch->tick(t);
  } else {
    t.fenced.join(t.clock);
  }
}

bool perform(Machine& m, Thread& t) {
  const CallSite& site = m.region->calls[static_cast<size_t>(t.pc->e)];
  const ir::Instruction& row = ir::instruction(site.stmt->instr);
  if (!m.region->simt) return perform_alone(m, t, row, site), true;
  const bool own_wait = row.behaviour == Behaviour::kBarSync || row.behaviour == Behaviour::kMbarrierWait;
  if (row.participants != ir::Participants::kThread && !own_wait) {
    t.state = Thread::State::kCollective;
    return false;
  }
  return perform_one(m, t, row, site);
}

// --- barriers in memory --------------------------------------------------------------------------------------------

void Launch::tick(Thread& t) {
  if (m_.races) t.clock.set(t.id, t.clock.at(t.id) + 1);
}

void Launch::arrive(MbarrierState& b, Thread& t, int64_t bytes, bool remote, const Ins* at) {
  b.bytes += bytes;
  if (b.pending == 0) {
    m_.report(Kind::kWrongParticipants, t, at, -1, -1,
              fmt::format("more than {} arrivals in one phase of the barrier", b.expected));
  }
  --b.pending;
  if (m_.races) {
    b.finished_gathering.join(t.finished);
    if (remote) {
      b.finished_gathering.join(t.clock);
    } else {
      b.gathering.join(t.clock);
      b.fenced_gathering.join(t.fenced);
    }
    tick(t);
  }
  complete(b);
}

void Launch::complete(MbarrierState& b) {
  if (b.pending > 0 || b.bytes != 0) return;
  const auto side = static_cast<size_t>(b.phase & 1);
  b.complete[side] = b.gathering;
  b.fenced_complete[side] = b.fenced_gathering;
  b.finished_complete[side] = b.finished_gathering;
  b.gathering.clear();
  b.fenced_gathering.clear();
  b.finished_gathering.clear();
  ++b.phase;
  b.pending = b.expected;
}

// Data that was still on its way to the barrier arrives now.
void Launch::flush(MbarrierState& b) {
  std::vector<Deferred> copies = std::move(b.copies);
  b.copies.clear();
  for (const Deferred& d : copies) {
    finish_call(m_, d, d.writer);
    b.bytes -= d.bytes;
    if (m_.races) b.gathering.set(d.writer.thread, std::max(b.gathering.at(d.writer.thread), d.writer.tick));
  }
  if (!copies.empty()) complete(b);
}

bool Launch::try_wait(Thread& t) {
  MbarrierState& b = mbarrier(t.mbarrier, t.mbarrier_at);
  if ((b.phase & 1) == t.parity) flush(b);
  if ((b.phase & 1) == t.parity) return false;
  if (m_.races) {
    t.clock.join(b.complete[static_cast<size_t>(t.parity & 1)]);
    t.fenced.join(b.fenced_complete[static_cast<size_t>(t.parity & 1)]);
    t.finished.join(b.finished_complete[static_cast<size_t>(t.parity & 1)]);
  }
  return true;
}

BlockState* Launch::peer(const BlockState& of, int64_t rank) const {
  for (const auto& b : blocks_)
    if (b->cluster_index == of.cluster_index && b->rank == rank) return b.get();
  return nullptr;
}

}  // namespace tcc::interp
