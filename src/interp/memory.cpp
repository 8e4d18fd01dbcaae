// Memories and the checks on every access of a checked run.
#include <algorithm>

#include "interp/launch.h"
#include "interp/machine.h"
#include "tcc/support/check.h"

namespace tcc::interp {

void Memory::make(int32_t buffer_slot, ir::Type element, int64_t elements) {
  slot = buffer_slot;
  type = element;
  size = elements;
  storage.assign(static_cast<size_t>(elements * ir::type_bytes(element)), std::byte{0});
  data = storage.data();
}
void Memory::track_contents(bool defined) {
  contents_storage.assign(static_cast<size_t>(size), defined ? kDefined : kUndefined);
  contents = contents_storage.data();
}
void Memory::reset() {
  if (contents != nullptr) std::fill_n(contents, size, static_cast<uint8_t>(kUndefined));
  if (strands != nullptr) std::fill_n(strands, size, SeqShadow{});
  if (history != nullptr) std::fill_n(history, size, ElementHistory{});
}

int64_t BufferShape::address(std::span<const int64_t> index) const {
  if (layout != nullptr) return ir::apply(*layout, index).address;
  int64_t at = 0;
  for (size_t i = 0; i < index.size(); ++i) at = at * shape[i] + index[i];
  return at;
}
std::vector<int64_t> BufferShape::index_of(int64_t address) const {
  if (layout != nullptr) return ir::invert(*layout, {.address = address}).value_or(std::vector<int64_t>{});
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] <= 0) return {};
    index[i] = address % shape[i];
    address /= shape[i];
  }
  return index;
}

void Machine::check_read(Memory& mem, int64_t at, Thread& t, const Ins* ins) {
  if (mem.touched != nullptr) mem.touched[at] |= 1;
  if (mem.contents != nullptr && mem.contents[at] != kDefined) [[unlikely]] {
    const uint8_t state = mem.contents[at];
    if (state == kOutside) {
      report(Finding::Kind::kOutOfBounds, t, ins, mem.slot, at, "the operand's tile reaches outside the buffer");
    } else {
      report(Finding::Kind::kUninitialised, t, ins, mem.slot, at,
             state == kPending ? "an asynchronous copy to the element has not been waited for"
                               : "nothing has written the element");
    }
  }
  if (mem.strands != nullptr || mem.history != nullptr) note_read(mem, at, t, ins, false);
}

void Machine::note_read(Memory& mem, int64_t at, Thread& t, const Ins* ins, bool async) {
  if (mem.strands != nullptr) {
    SeqShadow& s = mem.strands[at];
    const uint32_t now = strands.current();
    if (s.writer != 0 && strands.is_parallel(s.writer)) [[unlikely]] {
      report(Finding::Kind::kRace, t, ins, mem.slot, at,
             "another iteration of a parallel loop writes what this one reads");
    }
    if (s.reader != now && !(s.reader != 0 && strands.is_parallel(s.reader))) s.reader = now;
  }
  if (mem.history != nullptr) check_order_read(mem, at, t, ins, async);
}

void Machine::check_write(Memory& mem, int64_t at, Thread& t, const Ins* ins) {
  if (mem.touched != nullptr) mem.touched[at] |= 2;
  if (mem.contents != nullptr) {
    if (mem.contents[at] == kOutside) [[unlikely]] {
      report(Finding::Kind::kOutOfBounds, t, ins, mem.slot, at, "the operand's tile reaches outside the buffer");
    } else {
      mem.contents[at] = kDefined;
    }
  }
  if (mem.strands != nullptr || mem.history != nullptr) note_write(mem, at, t, ins, false, {});
}

void Machine::note_write(Memory& mem, int64_t at, Thread& t, const Ins* ins, bool async, const Epoch& as) {
  if (mem.strands != nullptr) {
    SeqShadow& s = mem.strands[at];
    if ((s.writer != 0 && strands.is_parallel(s.writer)) || (s.reader != 0 && strands.is_parallel(s.reader)))
        [[unlikely]] {
      report(Finding::Kind::kRace, t, ins, mem.slot, at,
             "two iterations of a parallel loop touch the element and this one writes it");
    }
    s.writer = strands.current();
  }
  if (mem.history != nullptr) {
    check_order_write(mem, at, t, ins, async, false, as.tick != 0 ? as : Epoch{t.id, t.clock.at(t.id)});
  }
}

// --- order between threads ---------------------------------------------------------------------------------------

void Machine::check_order_read(Memory& mem, int64_t at, Thread& t, const Ins* ins, bool async) {
  ElementHistory& h = mem.history[at];
  if (h.writer.tick != 0) {
    const uint32_t known = t.clock.at(h.writer.thread);
    if (h.writer.tick > known) [[unlikely]] {
      report(Finding::Kind::kRace, t, ins, mem.slot, at,
             h.writer.async ? "an asynchronous write is not ordered before this read"
                            : fmt::format("the write by thread {} is not ordered before this read", h.writer.thread));
    } else if (async && !h.writer.async && h.writer.tick > t.fenced.at(h.writer.thread)) [[unlikely]] {
      report(Finding::Kind::kRace, t, ins, mem.slot, at,
             fmt::format("no proxy fence between the write by thread {} and this asynchronous read", h.writer.thread));
    }
  }
  if (h.writer.atomic && launch != nullptr) {
    for (const Epoch& e : launch->atomic(&mem, at).writers) {
      if (e.tick <= t.clock.at(e.thread)) continue;
      report(Finding::Kind::kRace, t, ins, mem.slot, at,
             fmt::format("the atomic update by thread {} is not ordered before this read", e.thread));
      break;
    }
  }
  const Epoch now{t.id, t.clock.at(t.id), async, false};
  if (h.reader.tick == 0 || (h.more_readers < 0 && t.clock.at(h.reader.thread) >= h.reader.tick)) {
    h.reader = now;
    return;
  }
  if (h.more_readers < 0) {
    if (free_reader_sets.empty()) {
      free_reader_sets.push_back(static_cast<int32_t>(reader_sets.size()));
      reader_sets.emplace_back();
    }
    h.more_readers = free_reader_sets.back();
    free_reader_sets.pop_back();
    reader_sets[static_cast<size_t>(h.more_readers)] = {h.reader};
  }
  auto& readers = reader_sets[static_cast<size_t>(h.more_readers)];
  std::erase_if(readers, [&](const Epoch& e) { return t.clock.at(e.thread) >= e.tick; });
  readers.push_back(now);
}

void Machine::check_order_write(Memory& mem, int64_t at, Thread& t, const Ins* ins, bool async, bool atomic,
                                const Epoch& as) {
  ElementHistory& h = mem.history[at];
  // ended: a read, or the write by a copy, ends by itself: word of it from another block is enough.
  const auto unordered = [&](const Epoch& e, bool ended) {
    if (e.tick == 0 || (e.thread == as.thread && e.tick == as.tick)) return false;
    if (ended && e.tick <= t.finished.at(e.thread)) return false;
    return e.tick > t.clock.at(e.thread) && !(atomic && e.atomic);
  };
  if (unordered(h.writer, h.writer.async)) [[unlikely]] {
    report(Finding::Kind::kRace, t, ins, mem.slot, at,
           fmt::format("the write by thread {} is not ordered before this write", h.writer.thread));
  } else if (async && h.writer.tick != 0 && !h.writer.async && h.writer.tick > t.fenced.at(h.writer.thread))
      [[unlikely]] {
    report(Finding::Kind::kRace, t, ins, mem.slot, at,
           fmt::format("no proxy fence between the write by thread {} and this asynchronous write", h.writer.thread));
  }
  const auto check_reader = [&](const Epoch& e) {
    if (!unordered(e, true)) return;
    report(Finding::Kind::kRace, t, ins, mem.slot, at,
           fmt::format("the read by thread {} is not ordered before this write", e.thread));
  };
  if (h.more_readers >= 0) {
    for (const Epoch& e : reader_sets[static_cast<size_t>(h.more_readers)]) check_reader(e);
    free_reader_sets.push_back(h.more_readers);
    h.more_readers = -1;
  } else {
    check_reader(h.reader);
  }
  h.reader = {};
  h.writer = as;
  h.writer.async = async;
  h.writer.atomic = atomic;
}

}  // namespace tcc::interp
