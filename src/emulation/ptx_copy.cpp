// cp.async: data moves when the program has waited for it, the last moment that the manual allows; until then the
// destination is poison and no thread may touch it.
#include <algorithm>

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

// a: destination, b: source, c: number of source bytes (or kNone); imm and `imm_b` (extra, two words): what is added.
int64_t added(const Warp& w, const Ins& i, int which) {
  return static_cast<int64_t>(static_cast<uint32_t>(w.extra[i.extra + 2 * which])) |
         static_cast<int64_t>(w.extra[i.extra + 2 * which + 1]) << 32;
}

void issue(Warp& w, const Ins& i, int l) {
  Machine& m = *w.machine;
  Region& shared = w.block->shared;
  const bool wide = (i.mode & 1) != 0;
  const uint64_t to =
      (wide ? w.source<uint64_t>(i.a)[l] : w.source<uint32_t>(i.a)[l]) + static_cast<uint64_t>(added(w, i, 0));
  const uint64_t from = w.source<uint64_t>(i.b)[l] + static_cast<uint64_t>(added(w, i, 1));
  const int64_t wanted = i.c == kNone ? i.bytes : static_cast<int64_t>(w.source<uint32_t>(i.c)[l]);
  if (wanted > i.bytes) {
    m.report(FindingKind::kOutOfBounds, w, l, i, fmt::format("{} source bytes of a copy of {}", wanted, i.bytes));
    return;
  }
  if (((to | (wanted > 0 ? from : 0)) & static_cast<uint64_t>(i.bytes - 1)) != 0) {
    m.report(FindingKind::kMisaligned, w, l, i,
             fmt::format("addresses {:#x} and {:#x} must be multiples of {}", to, from, i.bytes));
    return;
  }
  if (to > static_cast<uint64_t>(shared.size) || static_cast<int64_t>(to) > shared.size - i.bytes) {
    m.report(FindingKind::kOutOfBounds, w, l, i,
             fmt::format("{} has {} bytes", m.place_text(shared, static_cast<int64_t>(to)), shared.size));
    return;
  }
  Copy copy{static_cast<int64_t>(to),
            nullptr,
            i.bytes,
            static_cast<int32_t>(wanted),
            w.copies[static_cast<size_t>(l)].group,
            &i};
  if (wanted > 0) {
    // Only the bytes that are read need exist: they are looked at one power of two after the other.
    const std::byte* first = nullptr;
    for (int64_t at = 0; at < wanted;) {
      int part = i.bytes;
      while (part > wanted - at || (at & (part - 1)) != 0) part /= 2;
      const std::byte* p = read_place(w, i, l, Space::kGlobal, from + static_cast<uint64_t>(at), part);
      if (p == nullptr) return;
      if (first == nullptr) first = p;
      at += part;
    }
    copy.from = first;
  }
  uint8_t* contents = shared.contents + copy.to;
  if (*std::max_element(contents, contents + i.bytes) == kOutside) {
    m.report(FindingKind::kOutOfBounds, w, l, i, m.place_text(shared, copy.to) + " is between arrays");
    return;
  }
  if (shared.cells != nullptr) m.note_write(w, l, i, shared, copy.to, i.bytes, false);
  std::memset(contents, kPending, i.bytes);
  w.copies[static_cast<size_t>(l)].issued.push_back(copy);
}
void run_copy(Warp& w, const Ins& i, uint32_t lanes) {
  for (const int l : LanesOf(lanes)) issue(w, i, l);
}
void run_commit(Warp& w, const Ins&, uint32_t lanes) {
  for (const int l : LanesOf(lanes)) ++w.copies[static_cast<size_t>(l)].group;
}
// imm: groups that may stay; -1: everything arrives, committed or not.
void run_wait(Warp& w, const Ins& i, uint32_t lanes) {
  Region& shared = w.block->shared;
  for (const int l : LanesOf(lanes)) {
    LaneCopies& copies = w.copies[static_cast<size_t>(l)];
    size_t done = 0;
    for (; done < copies.issued.size(); ++done) {
      const Copy& c = copies.issued[done];
      if (i.imm >= 0 && c.group >= copies.group - i.imm) break;
      if (c.source_bytes > 0) std::memcpy(shared.data + c.to, c.from, static_cast<size_t>(c.source_bytes));
      std::memset(shared.data + c.to + c.source_bytes, 0, static_cast<size_t>(c.bytes - c.source_bytes));
      std::memset(shared.contents + c.to, kDefined, static_cast<size_t>(c.bytes));
      if (shared.cells != nullptr) w.machine->note_write(w, l, *c.ins, shared, c.to, c.bytes, false);
    }
    copies.issued.erase(copies.issued.begin(), copies.issued.begin() + static_cast<std::ptrdiff_t>(done));
  }
}

void push_wide(Selector& x, int64_t v) {
  x.code.extra.push_back(static_cast<int32_t>(static_cast<uint64_t>(v)));
  x.code.extra.push_back(static_cast<int32_t>(v >> 32));
}

}  // namespace

// cp.async.{ca,cg}.shared.global [to], [from], bytes {, source bytes}; commit_group; wait_group n; wait_all.
void select_copy(Selector& x) {
  if (!x.op.take("async")) return;
  if (x.op.take("bulk")) return select_tensor(x);
  if (x.op.take("commit_group")) {
    x.need(0);
    if (x.op.done()) x.ins.run = &run_commit;
    return;
  }
  if (x.op.take("wait_all")) {
    x.need(0);
    x.ins.imm = -1;
    if (x.op.done()) x.ins.run = &run_wait;
    return;
  }
  if (x.op.take("wait_group")) {
    x.need(1);
    x.ins.imm = std::clamp<int64_t>(x.literal(0).value_or(0), 0, 1 << 20);
    if (x.op.done()) x.ins.run = &run_wait;
    return;
  }
  const int cache = x.op.take_one({"ca", "cg"});
  const bool shared = x.op.take_one({"shared", "shared::cta"}) >= 0;
  x.op.take_one({"L2::64B", "L2::128B", "L2::256B"});
  if (cache < 0 || !shared || !x.op.take("global") || !x.op.done()) return;
  x.ins.run = &run_copy;
  x.need(3, 4);
  const int64_t bytes = x.literal(2).value_or(0);
  if (bytes != 16 && (cache == 1 || (bytes != 4 && bytes != 8)))
    x.fail(fmt::format("{} does not copy {} bytes", x.s.opcode, bytes));
  x.address(1, &Ins::b);
  const int64_t from = x.ins.imm;
  if (!x.ins.wide) x.fail("a source in global memory has an address of 64 bits");
  x.address(0, &Ins::a);
  x.ins.mode = x.ins.wide;
  x.ins.bytes = static_cast<uint8_t>(bytes);
  if (x.operands() == 4) x.ins.c = x.value(3, 4);
  x.code.shared_granule = std::min(x.code.shared_granule, static_cast<int>(std::max<int64_t>(bytes, 1)));
  x.code.global_granule = std::min(x.code.global_granule, 4);
  x.begin_extra();
  push_wide(x, x.ins.imm);
  push_wide(x, from);
}

}  // namespace tcc::emulation
