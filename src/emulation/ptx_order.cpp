// Data races by happens-before. Each access is remembered as (thread, tick), where the tick counts the launch's
// synchronizations; a thread's clock says up to which tick it knows of every other thread's actions. An access races
// with an earlier one to the same bytes that its thread's clock does not cover, unless both read or both are atomic.
//
// Flanagan and Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", PLDI 2009: the last write is one
// entry, readers are a set only while they are concurrent. Here a reader is the lanes of one warp at one tick, and a
// barrier of a whole block raises the block's floor: everything its threads did up to the floor is known to all of
// them, so most checks are one comparison. Threads of one warp are not ordered by running together.
#include <algorithm>

#include "emulation/ptx_machine.h"

namespace tcc::emulation {

void Region::track_contents(bool defined) {
  contents_storage.assign(static_cast<size_t>(size), defined ? kDefined : kUndefined);
  contents = contents_storage.data();
}
void Region::track_order(int granule) {
  granule_bits = std::countr_zero(static_cast<unsigned>(granule));
  cell_storage.assign(static_cast<size_t>((size + granule - 1) / granule), Cell{});
  cells = cell_storage.data();
}

// Whether the thread of a lane knows of what `thread` did at tick `when`.
bool Machine::ordered(const Warp& w, int lane, const Region& region, uint32_t thread, uint32_t when) const {
  const Block& b = *w.block;
  const bool same_block = thread - b.first_thread < b.slots;
  if ((same_block || (region.shared && !clustered)) && when <= b.floor) return true;
  if (thread == w.thread(lane)) return true;
  const SharedClock& known = w.known[static_cast<size_t>(lane)];
  return known != nullptr && known->at(thread) >= when;
}

namespace {

std::string thread_text(const Warp& w, uint32_t thread) {
  const uint32_t slots = w.block->slots, block = thread / slots;
  if (block == static_cast<uint32_t>(w.block->index)) return fmt::format("thread {}", thread % slots);
  return fmt::format("thread {} of block {}", thread % slots, block);
}

}  // namespace

void Machine::report_order(const Warp& w, int lane, const Ins& ins, const Region& region, int64_t offset,
                           uint32_t thread, const char* before, const char* now) {
  report(FindingKind::kRace, w, lane, ins,
         fmt::format("{}: the {} by {} is not ordered before this {}", place_text(region, offset), before,
                     thread_text(w, thread), now));
}

void Machine::drop_more_readers(Cell& c) {
  if (c.more_readers < 0) return;
  reader_sets[static_cast<size_t>(c.more_readers)].clear();
  free_reader_sets.push_back(c.more_readers);
  c.more_readers = -1;
}

void Machine::note_read(Warp& w, int lane, const Ins& ins, Region& region, int64_t offset, int bytes) {
  const uint32_t bit = 1u << lane;
  for_cells(region, offset, bytes, [&](Cell& c) {
    if (c.write_tick != 0 && !ordered(w, lane, region, c.writer, c.write_tick)) [[unlikely]]
      report_order(w, lane, ins, region, offset, c.writer, "write", "read");
    if (c.reader.tick == tick && c.reader.warp == w.number) {
      c.reader.lanes |= bit;
      return;
    }
    // Readers that the block's floor covers, or that are all this thread's past, need not be remembered.
    const bool covered =
        ((region.shared && !clustered) || c.reader.warp * kLanes - w.block->first_thread < w.block->slots) &&
        c.reader.tick <= w.block->floor;
    if (c.reader.tick != 0 && !covered) {
      std::vector<Reader>& more = more_readers(c);
      const auto again =
          std::find_if(more.begin(), more.end(), [&](const Reader& r) { return r.warp == w.number && r.tick == tick; });
      Reader now{w.number, bit, tick};
      if (again != more.end()) {
        now.lanes |= again->lanes;
        *again = c.reader;
      } else {
        more.push_back(c.reader);
      }
      c.reader = now;
      return;
    }
    drop_more_readers(c);
    c.reader = {w.number, bit, tick};
  });
}

void Machine::note_atomic_read(Warp& w, int lane, const Ins& ins, Region& region, int64_t offset, int bytes) {
  for_cells(region, offset, bytes, [&](Cell& c) {
    if (c.write_tick != 0 && c.atomic == 0 && !ordered(w, lane, region, c.writer, c.write_tick))
      report_order(w, lane, ins, region, offset, c.writer, "write", "read");
  });
}

void Machine::note_write(Warp& w, int lane, const Ins& ins, Region& region, int64_t offset, int bytes, bool atomic) {
  const uint32_t self = w.thread(lane);
  for_cells(region, offset, bytes, [&](Cell& c) {
    const uint32_t slots = w.block->slots;
    const bool by_copy = region.shared && kernel->async_proxy && c.writer % slots >= slots - kLanes;
    if (c.write_tick != 0 && !(atomic && c.atomic != 0) && !ordered(w, lane, region, c.writer, c.write_tick) &&
        !(by_copy && has_ended(w, lane, c.writer, c.write_tick))) [[unlikely]]
      report_order(w, lane, ins, region, offset, c.writer, "write", "write");
    const auto check_reader = [&](const Reader& r) {
      for (const int l : LanesOf(r.lanes)) {
        const uint32_t thread = r.warp * kLanes + static_cast<uint32_t>(l);
        if (thread == self || ordered(w, lane, region, thread, r.tick) || has_ended(w, lane, thread, r.tick)) continue;
        return report_order(w, lane, ins, region, offset, thread, "read", "write");
      }
    };
    if (c.reader.tick != 0) check_reader(c.reader);
    if (c.more_readers >= 0)
      for (const Reader& r : more_readers(c)) check_reader(r);
    drop_more_readers(c);
    c.reader = {};
    c.writer = self;
    c.write_tick = tick & 0x7fffffffu;
    c.atomic = atomic;
  });
}

// Everybody knows what everybody did.
void Machine::join(std::span<const Lane> lanes) {
  if (!races || lanes.empty()) return;
  const auto share = [&](std::array<SharedClock, kLanes> Warp::* clocks, bool own) {
    auto clock = joined(*lanes[0].warp->block, {});
    const interp::Clock* last = nullptr;
    for (const Lane& l : lanes) {
      const interp::Clock* known = (l.warp->*clocks)[static_cast<size_t>(l.lane)].get();
      if (known != nullptr && known != last) clock->join(*known);
      last = known;
    }
    for (const Lane& l : lanes)
      if (own) clock->set(l.warp->thread(l.lane), tick);
    for (const Lane& l : lanes) (l.warp->*clocks)[static_cast<size_t>(l.lane)] = clock;
  };
  share(&Warp::known, true);
  if (kernel->async_proxy) share(&Warp::fenced, false);
  if (clustered) share(&Warp::finished, false);
  ++tick;
}

void Machine::join_block(Block& block) {
  std::vector<Lane> lanes;
  for (auto& w : block.warps)
    for (const int l : LanesOf(w->exists)) lanes.push_back({w.get(), l});
  block.floor = tick;
  join(lanes);
}

// A fence orders the thread after the writes that its atomics have read since the last fence. Later atomics pass the
// thread's own writes on.
void Machine::fence(Warp& w, uint32_t lanes) {
  if (!races) return;
  for (const int lane : LanesOf(lanes)) {
    const auto l = static_cast<size_t>(lane);
    w.known[l] = joined(*w.block, {w.known[l].get(), w.acquired[l].get()});
    auto released = std::make_shared<interp::Clock>(*w.known[l]);
    released->set(w.thread(lane), tick);
    w.released[l] = released;
  }
  ++tick;
}

void Machine::pass_on(Warp& w, int lane, const Region& region, int64_t offset) {
  if (!races) return;
  const auto l = static_cast<size_t>(lane);
  const auto found = released.find({&region, offset});
  if (found != released.end()) w.acquired[l] = joined(*w.block, {&found->second, w.acquired[l].get()});
  if (w.released[l] != nullptr) released[{&region, offset}].join(*w.released[l]);
}

void Machine::acquire(Warp& w, int lane, const Region& region, int64_t offset) {
  if (!races) return;
  const auto found = released.find({&region, offset});
  SharedClock& known = w.known[static_cast<size_t>(lane)];
  if (found != released.end()) known = joined(*w.block, {&found->second, known.get()});
}

void Machine::release(Warp& w, int lane, const Region& region, int64_t offset) {
  if (!races) return;
  const auto clock = joined(*w.block, {w.known[static_cast<size_t>(lane)].get()});
  clock->set(w.thread(lane), tick);
  released[{&region, offset}].join(*clock);
  ++tick;
}

}  // namespace tcc::emulation
