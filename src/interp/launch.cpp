// Making blocks and threads, and running them warp by warp in random order.
#include "interp/launch.h"

#include <algorithm>

#include "interp/rows.h"
#include "tcc/ir/evaluate.h"
#include "tcc/support/check.h"

namespace tcc::interp {
namespace {

using Kind = Finding::Kind;
using State = Thread::State;

constexpr int64_t kMaxThreadsAlive = int64_t{1} << 20;

bool is_private(ir::Scope scope) {
  return scope == ir::Scope::kLocal || scope == ir::Scope::kAmxTile;
}
bool is_per_block(ir::Scope scope) {
  return scope == ir::Scope::kShared || scope == ir::Scope::kClusterShared;
}

}  // namespace

// Extents of the axes: the largest of the loops bound to each.
bool Launch::measure() {
  std::fill(std::begin(extents_), std::end(extents_), 1);
  for (const BoundLoop& l : m_.region->bound) {
    const auto extent = ir::evaluate(l.extent, m_.options->scalars);
    if (!extent) {
      m_.findings->add(
          Kind::kBadArguments, nullptr, -1,
          fmt::format("the extent of a loop bound to {} depends on more than scalars", ir::axis_name(l.axis)));
      return false;
    }
    int64_t& largest = extents_[static_cast<size_t>(l.axis)];
    largest = std::max(largest, *extent);
  }
  for (int i = 0; i < 3; ++i) grid_[i] = extents_[static_cast<size_t>(ir::Axis::kGridX) + static_cast<size_t>(i)];
  for (int i = 0; i < 2; ++i) cluster_[i] = extents_[static_cast<size_t>(ir::Axis::kClusterX) + static_cast<size_t>(i)];
  bool by_warp = false, by_thread = false;
  for (const BoundLoop& l : m_.region->bound) {
    by_warp |= l.axis == ir::Axis::kWarpgroup || l.axis == ir::Axis::kWarp || l.axis == ir::Axis::kLane;
    by_thread |= l.axis == ir::Axis::kThreadX || l.axis == ir::Axis::kThreadY || l.axis == ir::Axis::kThreadZ;
  }
  int64_t threads = 1;
  if (by_thread) {
    threads = extents_[static_cast<size_t>(ir::Axis::kThreadX)] * extents_[static_cast<size_t>(ir::Axis::kThreadY)] *
              extents_[static_cast<size_t>(ir::Axis::kThreadZ)];
  }
  if (by_warp) {
    const int64_t groups = extents_[static_cast<size_t>(ir::Axis::kWarpgroup)];
    const int64_t warps = m_.region->grouped_warps ? groups * 4 : extents_[static_cast<size_t>(ir::Axis::kWarp)];
    threads = std::max(threads, warps * kWarpLanes);
  }
  threads = std::max(threads, m_.region->role_warps * kWarpLanes);
  const int64_t blocks = grid_[0] * grid_[1] * grid_[2] * cluster_[0] * cluster_[1];
  const int64_t alive = m_.region->concurrent_blocks ? blocks * threads : threads;
  if (alive > kMaxThreadsAlive || blocks * (threads + 1) > INT32_MAX) {
    m_.findings->add(Kind::kBadArguments, nullptr, -1,
                     fmt::format("{} blocks of {} threads are too many to interpret", blocks, threads));
    return false;
  }
  threads_ = static_cast<int32_t>(threads);
  return true;
}

std::unique_ptr<Memory> Launch::make_memory(int32_t slot, bool history) {
  auto memory = std::make_unique<Memory>();
  memory->make(slot, m_.info->slots[static_cast<size_t>(slot)]->type, m_.shapes[static_cast<size_t>(slot)].elements);
  if (m_.options->poison) memory->track_contents(false);
  if (history) {
    memory->history_storage.assign(static_cast<size_t>(memory->size), {});
    memory->history = memory->history_storage.data();
  }
  return memory;
}

std::unique_ptr<BlockState> Launch::make_block(int64_t index) {
  auto b = std::make_unique<BlockState>();
  int64_t rest = index;
  b->rank = rest % (cluster_[0] * cluster_[1]);
  b->cluster[0] = b->rank % cluster_[0];
  b->cluster[1] = b->rank / cluster_[0];
  rest /= cluster_[0] * cluster_[1];
  b->cluster_index = rest;
  b->grid[0] = rest % grid_[0];
  b->grid[1] = rest / grid_[0] % grid_[1];
  b->grid[2] = rest / grid_[0] / grid_[1];
  b->count = threads_;
  const uint32_t first = static_cast<uint32_t>(index) * static_cast<uint32_t>(threads_ + 1);
  b->agent = first + static_cast<uint32_t>(threads_);
  b->by_slot = memories_;
  for (size_t slot = 0; slot < memories_.size(); ++slot) {
    const ir::Buffer& buffer = *m_.info->slots[slot];
    if (buffer.role != ir::BufferRole::kTemp) continue;
    if (is_private(buffer.scope)) b->by_slot[slot] = nullptr;
    if (is_per_block(buffer.scope)) {
      b->memories.push_back(make_memory(static_cast<int32_t>(slot), m_.races));
      b->by_slot[slot] = b->memories.back().get();
    }
  }
  for (int32_t i = 0; i < threads_; ++i) make_thread(*b, i);
  return b;
}

void Launch::make_thread(BlockState& block, int32_t in_block) {
  auto t = std::make_unique<Thread>();
  const Region& region = *m_.region;
  t->id = block.agent - static_cast<uint32_t>(threads_) + static_cast<uint32_t>(in_block);
  t->in_block = in_block;
  t->block = &block;
  t->reg_storage = region.initial;
  t->regs = t->reg_storage.data();
  t->pc = region.code.ins.data();
  for (const auto& [reg, id] : region.scalars) {
    for (const auto& [scalar, value] : m_.options->scalars)
      if (scalar == id) t->regs[reg].i = value;
  }
  t->regs[region.thread_register].i = in_block;
  const auto set = [&](ir::Axis axis, int64_t value) {
    const int32_t reg = region.axis_registers[static_cast<size_t>(axis)];
    if (reg >= 0) t->regs[reg].i = value;
  };
  set(ir::Axis::kGridX, block.grid[0]);
  set(ir::Axis::kGridY, block.grid[1]);
  set(ir::Axis::kGridZ, block.grid[2]);
  set(ir::Axis::kClusterX, block.cluster[0]);
  set(ir::Axis::kClusterY, block.cluster[1]);
  const int64_t warp = in_block / kWarpLanes;
  set(ir::Axis::kWarpgroup, warp / 4);
  set(ir::Axis::kWarp, region.grouped_warps ? warp % 4 : warp);
  set(ir::Axis::kLane, in_block % kWarpLanes);
  const int64_t x = extents_[static_cast<size_t>(ir::Axis::kThreadX)],
                y = extents_[static_cast<size_t>(ir::Axis::kThreadY)];
  set(ir::Axis::kThreadX, in_block % x);
  set(ir::Axis::kThreadY, in_block / x % y);
  set(ir::Axis::kThreadZ, in_block / x / y);
  t->mem_storage = block.by_slot;
  for (size_t slot = 0; slot < t->mem_storage.size(); ++slot) {
    const ir::Buffer& buffer = *m_.info->slots[slot];
    if (buffer.role != ir::BufferRole::kTemp || !is_private(buffer.scope)) continue;
    t->own.push_back(make_memory(static_cast<int32_t>(slot), false));
    t->mem_storage[slot] = t->own.back().get();
  }
  t->mems = t->mem_storage.data();
  if (m_.races) {
    const uint32_t first = block.agent - static_cast<uint32_t>(threads_);
    for (Clock* c : {&t->clock, &t->fenced, &t->finished, &t->released, &t->acquired})
      c->start(first, static_cast<uint32_t>(threads_) + 1);
    t->clock.set(t->id, 1);
  }
  block.threads.push_back(std::move(t));
}

void Launch::run() {
  if (!measure()) {
    m_.stopped = true;
    return;
  }
  rng_ = Rng(m_.options->seed);
  for (const auto& [place, b] : *m_.global_barriers) {
    MbarrierState& mine = mbarriers_[place];
    mine.expected = b.expected;
    mine.pending = b.pending;
    mine.bytes = b.bytes;
    mine.phase = b.phase;
  }
  run_blocks();
  for (auto& [place, b] : mbarriers_) {
    if (std::find(memories_.begin(), memories_.end(), place.first) != memories_.end())
      (*m_.global_barriers)[place] = std::move(b);
  }
}

void Launch::run_blocks() {
  const int64_t blocks = grid_[0] * grid_[1] * grid_[2] * cluster_[0] * cluster_[1];
  if (m_.region->concurrent_blocks) {
    for (int64_t i = 0; i < blocks; ++i) blocks_.push_back(make_block(i));
    schedule();
    drain();
    return;
  }
  std::vector<int64_t> order(static_cast<size_t>(blocks));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(rng_.below(static_cast<int64_t>(i)))]);
  for (int64_t i : order) {
    mbarriers_.clear();
    blocks_.clear();
    blocks_.push_back(make_block(i));
    schedule();
    drain();
    if (m_.stopped) return;
  }
}

// Runs every ready lane of a warp for a slice. True when something happened.
bool Launch::run_warp(BlockState& block, int32_t warp) {
  const int32_t first = warp * static_cast<int32_t>(kWarpLanes);
  const int32_t end = std::min(block.count, first + static_cast<int32_t>(kWarpLanes));
  const bool checked = m_.options->poison || m_.options->check_races;
  bool progress = false;
  for (int32_t i = first; i < end; ++i) {
    Thread& t = *block.threads[static_cast<size_t>(i)];
    if (t.state == State::kMbarrier && try_wait(t)) {
      t.state = State::kReady;
      ++t.pc;
    }
    if (t.state != State::kReady) continue;
    progress = true;
    const int64_t slice = 64 + rng_.below(512);
    const Stop stop = checked ? execute<true>(m_, t, slice) : execute<false>(m_, t, slice);
    if (stop == Stop::kLimit) {
      m_.report(Kind::kStepLimit, t, t.pc, -1, -1, fmt::format("stopped after {} loop iterations", m_.steps));
      m_.stopped = true;
      return true;
    }
  }
  for (int32_t i = first; i < end; ++i) {
    Thread& t = *block.threads[static_cast<size_t>(i)];
    if (t.state == State::kCollective) progress |= resolve_group(block, t);
  }
  return progress;
}

void Launch::schedule() {
  std::vector<std::pair<BlockState*, int32_t>> warps;
  for (auto& b : blocks_) {
    for (int32_t w = 0; w * kWarpLanes < b->count; ++w) warps.emplace_back(b.get(), w);
  }
  while (!m_.stopped) {
    for (size_t i = warps.size(); i > 1; --i)
      std::swap(warps[i - 1], warps[static_cast<size_t>(rng_.below(static_cast<int64_t>(i)))]);
    bool progress = false;
    for (auto& [block, warp] : warps) {
      progress |= run_warp(*block, warp);
      if (m_.stopped) return;
    }
    for (auto& b : blocks_) progress |= resolve_barriers(*b);
    progress |= resolve_clusters();
    std::erase_if(warps, [](const auto& w) {
      const int64_t end = std::min<int64_t>(w.first->count, (w.second + 1) * kWarpLanes);
      for (int64_t i = w.second * kWarpLanes; i < end; ++i)
        if (w.first->threads[static_cast<size_t>(i)]->state != State::kDone) return false;
      return true;
    });
    if (warps.empty()) return;
    if (!progress) {
      explain_deadlock();
      m_.stopped = true;
    }
  }
}

// What nobody waited for still happens before the launch ends.
void Launch::drain() {
  if (m_.stopped) return;
  for (auto& b : blocks_) {
    for (auto& t : b->threads) {
      for (auto* groups : {&t->copy_groups, &t->multiply_groups}) {
        for (auto& group : *groups)
          for (const Deferred& d : group) finish_call(m_, d, d.writer);
        groups->clear();
      }
      for (auto* queue : {&t->copies, &t->multiplies}) {
        for (const Deferred& d : *queue) finish_call(m_, d, d.writer);
        queue->clear();
      }
    }
  }
  for (auto& [place, b] : mbarriers_) flush(b);
}

}  // namespace tcc::interp
