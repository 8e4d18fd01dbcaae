// The asynchronous proxy's share of the order: bulk copies and products of warpgroups read and write shared memory
// beside the threads. What a thread wrote the ordinary way they see only behind fence.proxy.async: every thread
// carries, beside its own clock, a clock of the fenced writes, and both travel over barriers (as in the
// interpreter).
//
// A read under way is counted at its 16-byte pieces, and a store to such a piece is a race. When the program has
// waited, the access is noted as one by the asynchronous agent of the warp that issued it, and the lanes that waited
// know of it.

#include "emulation/ptx_machine.h"

namespace tcc::emulation {

Block* Machine::peer(const Block& b, int64_t rank) {
  for (auto& other : blocks)
    if (other->rank == rank && (clustered || other.get() == &b)) return other.get();
  return nullptr;
}

void Machine::learn(Warp& w, int lane, const SharedClock& known, const SharedClock& fenced) {
  if (!races) return;
  const auto l = static_cast<size_t>(lane);
  if (known != nullptr) w.known[l] = joined(*w.block, {w.known[l].get(), known.get()});
  if (fenced != nullptr) w.fenced[l] = joined(*w.block, {w.fenced[l].get(), fenced.get()});
}

// What a lane knows, its own past included, for those who wait for it.
void Machine::tell(Warp& w, int lane, interp::Clock& known, interp::Clock& fenced) {
  if (!races) return;
  const auto l = static_cast<size_t>(lane);
  const auto mine = joined(*w.block, {w.known[l].get()});
  mine->set(w.thread(lane), tick);
  known.join(*mine);
  if (w.fenced[l] != nullptr) fenced.join(*w.fenced[l]);
  ++tick;
}

// An arrival at another block's barrier. A release at the scope of the thread's own block orders none of its writes
// before a wait in another block (PTX manual, "Memory Consistency Model": both must name a scope that has the other).
// But reads that have given their values have ended, and so have the writes by copies that a thread waited for; the
// other block may write there again. This is what a consumer of a cluster tells the producers.
void Machine::tell_barrier(Warp& w, int lane, Mbarrier& b, const Block& owner, bool wide) {
  if (!races) return;
  const auto l = static_cast<size_t>(lane);
  if (w.finished[l] != nullptr) b.finished_gathering.join(*w.finished[l]);
  if (&owner == w.block) return tell(w, lane, b.gathering, b.fenced_gathering);
  const auto mine = joined(*w.block, {w.known[l].get()});
  mine->set(w.thread(lane), tick);
  b.finished_gathering.join(*mine);
  if (wide) b.cluster_gathering.join(*mine);
  ++tick;
}

void Machine::learn_barrier(Warp& w, int lane, const Mbarrier& b, bool wide) {
  learn(w, lane, b.released, b.fenced);
  if (wide) learn(w, lane, b.cluster_released, nullptr);
  if (!races || b.finished == nullptr) return;
  SharedClock& mine = w.finished[static_cast<size_t>(lane)];
  mine = joined(*w.block, {mine.get(), b.finished.get()});
}

bool Machine::has_ended(const Warp& w, int lane, uint32_t thread, uint32_t when) const {
  const SharedClock& finished = w.finished[static_cast<size_t>(lane)];
  return finished != nullptr && finished->at(thread) >= when;
}

void Machine::fence_proxy(Warp& w, uint32_t lanes) {
  if (!races) return;
  for (const int lane : LanesOf(lanes)) {
    const auto l = static_cast<size_t>(lane);
    const auto clock = joined(*w.block, {w.known[l].get(), w.fenced[l].get()});
    clock->set(w.thread(lane), tick);
    w.fenced[l] = clock;
  }
  ++tick;
}

// Before an asynchronous access: the threads' writes there are fenced, and the reads come after them.
void Machine::check_proxy(Warp& w, int lane, const Ins& ins, Region& region, int64_t offset, int bytes, bool reads) {
  for_cells(region, offset, bytes, [&](Cell& c) {
    if (c.write_tick == 0) return;
    const uint32_t slots = w.block->slots;
    if (c.writer % slots >= slots - kLanes) {
      if (reads && !ordered(w, lane, region, c.writer, c.write_tick))
        report(FindingKind::kRace, w, lane, ins,
               place_text(region, offset) + ": the copy that brings it is not ordered before this read");
      return;
    }
    if (reads && !ordered(w, lane, region, c.writer, c.write_tick)) {
      report(FindingKind::kRace, w, lane, ins,
             fmt::format("{}: the write by thread {} is not ordered before this read", place_text(region, offset),
                         c.writer % slots));
      return;
    }
    // What earlier blocks left is of no concern.
    if (c.write_tick <= start_tick) return;
    const SharedClock& fenced = w.fenced[static_cast<size_t>(lane)];
    if (fenced != nullptr && fenced->at(c.writer) >= c.write_tick) return;
    report(FindingKind::kRace, w, lane, ins,
           fmt::format("{}: no fence.proxy.async between the write by thread {} and this asynchronous {}",
                       place_text(region, offset), c.writer % slots, reads ? "read" : "write"));
  });
}

void Machine::note_agent_write(Region& region, int64_t offset, int bytes, uint32_t agent) {
  for_cells(region, offset, bytes, [&](Cell& c) {
    c.reader = {};
    c.writer = agent;
    c.write_tick = tick & 0x7fffffffu;
    c.atomic = 0;
  });
}

std::vector<Reader>& Machine::more_readers(Cell& c) {
  if (c.more_readers < 0) {
    if (free_reader_sets.empty()) {
      free_reader_sets.push_back(static_cast<int32_t>(reader_sets.size()));
      reader_sets.emplace_back();
    }
    c.more_readers = free_reader_sets.back();
    free_reader_sets.pop_back();
  }
  return reader_sets[static_cast<size_t>(c.more_readers)];
}

// The lanes that wait learn of it by know_agent().
void Machine::note_agent_read(Region& region, int64_t offset, int bytes, const Block& block, const Warp& w) {
  const uint32_t agent = block.agent(w);
  for_cells(region, offset, bytes, [&](Cell& c) {
    const Reader now{agent / kLanes, uint32_t{1} << (agent % kLanes), tick};
    if (c.reader.tick == 0) {
      c.reader = now;
      return;
    }
    std::vector<Reader>& more = more_readers(c);
    std::erase_if(more, [&](const Reader& r) { return r.warp == now.warp && r.lanes == now.lanes; });
    more.push_back(now);
  });
}

void Machine::know_agent(Warp& w, uint32_t lanes) {
  if (!races) return;
  for (const int lane : LanesOf(lanes)) {
    const auto l = static_cast<size_t>(lane);
    const auto clock = joined(*w.block, {w.known[l].get()});
    clock->set(w.block->agent(w), tick);
    w.known[l] = clock;
  }
  ++tick;
}

// A block has ended: what should not be left over.
void Machine::check_end(Block& b) {
  for (auto& w : b.warps) {
    for (int l = 0; l < kLanes; ++l) {
      const auto& boxes = w->copies[static_cast<size_t>(l)].boxes;
      if (!boxes.empty())
        report(FindingKind::kRace, *w, l, *boxes[0].ins,
               "the thread ends while its bulk copy reads the block's shared memory");
    }
    if (!w->products.empty())
      report(FindingKind::kRace, *w, 0, *w->products[0].ins, "the warp ends while its product is not waited for");
    const Warp& first = *b.warps[static_cast<size_t>(w->index / 4 * 4)];
    if (w->product_count != first.product_count)
      report(FindingKind::kWrongParticipants, *w, 0, kernel->code[0],
             fmt::format("of a warpgroup, warp {} takes part in {} products and warp {} in {}", w->index,
                         w->product_count, first.index, first.product_count));
  }
  for (auto& [offset, barrier] : b.mbarriers)
    if (!barrier.copies.empty())
      report(FindingKind::kRace, *barrier.copies[0].warp, barrier.copies[0].lane, *barrier.copies[0].ins,
             fmt::format("the block ends while {} bytes are under way to {}", barrier.copies[0].bytes,
                         place_text(b.shared, barrier.copies[0].shared)));
}

}  // namespace tcc::emulation
