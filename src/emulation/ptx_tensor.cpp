// Bulk tensor copies (PTX manual, "cp.async.bulk.tensor"). A tensor map is one of the launch's: kernels see its address
// in a window of its own and never its bytes, which are the driver's secret on a device.
//
// A load is issued, and its destination is poison, until the barrier's phase completes (ptx_mbarrier.cpp); a store
// reads shared memory when its thread waits for it, the last moment allowed. Elements outside of the tensor read as
// zeros and are not written; a map of tf32 rounds what it loads. All bytes of the box count at the barrier. In shared
// memory the box is stored row after row, its 16-byte pieces permuted by the map's swizzle: bits of the address from 4
// on are xored with those from 7 on.
#include <algorithm>

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_select.h"
#include "emulation/shared_tile.h"

namespace tcc::emulation {
namespace {

uint64_t address_of(const Warp& w, const BoxCode::Address& a, int l) {
  if (a.wide) return w.source<uint64_t>(a.place)[l] + static_cast<uint64_t>(a.added);
  return static_cast<uint32_t>(w.source<uint32_t>(a.place)[l] + static_cast<uint32_t>(a.added));
}

// for_pieces() of a copy, with addresses in global memory.
template <class F>
void for_pieces(const BoxCopy& c, F f) {
  emulation::for_pieces(*c.map->map, c.at, c.shared, [&](int64_t to, int64_t from, int64_t begin, int64_t end) {
    f(to, static_cast<int64_t>(c.map->base) + from, begin, end);
  });
}

// Calls move(global place, offset in the piece, bytes) for what is inside of the tensor, in accesses of powers of two.
template <class F>
void for_inside(const BoxCopy& c, int64_t address, int64_t begin, int64_t end, F move) {
  const int64_t element = ir::type_bytes(c.map->map->type);
  if ((end - begin) * element == kSwizzleBytes && address % kSwizzleBytes == 0)
    return move(address, int64_t{0}, static_cast<int>(kSwizzleBytes));
  for (int64_t e = begin; e < end; ++e) move(address + e * element, e * element, static_cast<int>(element));
}

std::optional<BoxCopy> read_copy(Warp& w, const Ins& i, int l) {
  Machine& m = *w.machine;
  const BoxCode& code = m.kernel->boxes[static_cast<size_t>(i.imm)];
  const uint64_t map = address_of(w, code.map, l);
  const uint64_t number = (map - kMapWindow) / kMapBytes;
  if (map < kMapWindow || map % kMapBytes != 0 || number >= m.maps.size()) {
    m.report(FindingKind::kOutOfBounds, w, l, i, fmt::format("address {:#x}: expected a tensor map", map));
    return std::nullopt;
  }
  BoxCopy c;
  c.map = &m.maps[number];
  if (c.map->map->box.size() != code.coordinates.size()) {
    m.report(FindingKind::kOutOfBounds, w, l, i, fmt::format("the tensor has {} dimensions", c.map->map->box.size()));
    return std::nullopt;
  }
  for (size_t d = 0; d < code.coordinates.size(); ++d)
    c.at[d] = static_cast<int32_t>(w.source<uint32_t>(code.coordinates[d])[l]);
  c.bytes = box_bytes(*c.map->map);
  c.warp = &w;
  c.lane = l;
  c.ins = &i;
  const uint64_t shared = address_of(w, code.shared, l);
  if (shared % 128 != 0) {
    m.report(FindingKind::kMisaligned, w, l, i, fmt::format("address {:#x} must be a multiple of 128", shared));
    return std::nullopt;
  }
  if (shared_region(w, i, l, shared, static_cast<int>(c.bytes), c.shared, &c.block) == nullptr) return std::nullopt;
  return c;
}

// A load towards one block.
void start_load(Warp& w, const Ins& i, int l, BoxCopy c, Block& block, int64_t barrier) {
  Machine& m = *w.machine;
  c.block = &block;
  Region& shared = block.shared;
  const auto found = block.mbarriers.find(barrier);
  if (found == block.mbarriers.end()) {
    m.report(FindingKind::kUninitialised, w, l, i,
             m.place_text(shared, barrier) + ": the barrier has not been initialized");
    return;
  }
  if (!found->second.published)
    m.report(FindingKind::kRace, w, l, i,
             m.place_text(shared, barrier) + ": no fence.mbarrier_init behind the barrier's initialization");
  m.note_atomic_read(w, l, i, shared, barrier, 8);
  bool fine = true;
  for_pieces(c, [&](int64_t to, int64_t, int64_t, int64_t) {
    if (!fine) return;
    uint8_t* contents = shared.contents + to;
    if (*std::max_element(contents, contents + kSwizzleBytes) == kOutside) {
      m.report(FindingKind::kOutOfBounds, w, l, i, m.place_text(shared, to) + " is between arrays");
      fine = false;
      return;
    }
    if (*std::max_element(contents, contents + kSwizzleBytes) == kPending)
      m.report(FindingKind::kRace, w, l, i, m.place_text(shared, to) + ": another copy to it has not been waited for");
    if (shared.reading[static_cast<size_t>(to / kSwizzleBytes)] != 0)
      m.report(FindingKind::kRace, w, l, i,
               m.place_text(shared, to) + ": it is read by a product or bulk copy that has not been waited for");
    if (shared.cells != nullptr) {
      m.check_proxy(w, l, i, shared, to, kSwizzleBytes, false);
      m.note_write(w, l, i, shared, to, kSwizzleBytes, false);
    }
    std::memset(contents, kPending, kSwizzleBytes);
  });
  if (fine) found->second.copies.push_back(c);
}

void run_load(Warp& w, const Ins& i, uint32_t lanes) {
  Machine& m = *w.machine;
  const BoxCode& code = m.kernel->boxes[static_cast<size_t>(i.imm)];
  for (const int l : LanesOf(lanes)) {
    const auto c = read_copy(w, i, l);
    int64_t barrier = 0;
    Block* block = nullptr;
    if (!c || shared_region(w, i, l, address_of(w, code.barrier, l), 8, barrier, &block) == nullptr) continue;
    if (code.mask == kNone) {
      if (block != c->block) {
        m.report(FindingKind::kWrongParticipants, w, l, i, "destination and barrier are in different blocks");
        continue;
      }
      start_load(w, i, l, *c, *block, barrier);
      continue;
    }
    const uint32_t mask = w.source<uint16_t>(code.mask)[l];
    for (int64_t rank = 0; rank < 16; ++rank) {
      if (((mask >> rank) & 1) == 0) continue;
      Block* target = m.peer(*w.block, rank);
      if (target == nullptr)
        m.report(FindingKind::kWrongParticipants, w, l, i, fmt::format("the cluster has no block {}", rank));
      else
        start_load(w, i, l, *c, *target, barrier);
    }
  }
}

void run_store(Warp& w, const Ins& i, uint32_t lanes) {
  Machine& m = *w.machine;
  for (const int l : LanesOf(lanes)) {
    auto c = read_copy(w, i, l);
    if (!c) continue;
    if (c->block != w.block) {
      m.report(FindingKind::kOutOfBounds, w, l, i, "a bulk store reads the shared memory of its own block");
      continue;
    }
    Region& shared = w.block->shared;
    for_pieces(*c, [&](int64_t to, int64_t, int64_t, int64_t) {
      check_contents(w, i, l, shared, to, kSwizzleBytes);
      m.check_proxy(w, l, i, shared, to, kSwizzleBytes, true);
      ++shared.reading[static_cast<size_t>(to / kSwizzleBytes)];
    });
    LaneCopies& mine = w.copies[static_cast<size_t>(l)];
    c->group = mine.box_group;
    mine.boxes.push_back(*c);
  }
}

void finish_store(const BoxCopy& c) {
  Warp& w = *c.warp;
  Machine& m = *w.machine;
  Region& shared = c.block->shared;
  for_pieces(c, [&](int64_t from, int64_t address, int64_t begin, int64_t end) {
    --shared.reading[static_cast<size_t>(from / kSwizzleBytes)];
    if (m.races) m.note_agent_read(shared, from, kSwizzleBytes, *c.block, w);
    for_inside(c, address, begin, end, [&](int64_t to, int64_t at, int bytes) {
      std::byte* p = write_place(w, *c.ins, c.lane, Space::kGlobal, static_cast<uint64_t>(to), bytes);
      if (p != nullptr) std::memcpy(p, shared.data + from + at, static_cast<size_t>(bytes));
    });
  });
}

void run_commit(Warp& w, const Ins&, uint32_t lanes) {
  for (const int l : LanesOf(lanes)) ++w.copies[static_cast<size_t>(l)].box_group;
}
void run_wait(Warp& w, const Ins& i, uint32_t lanes) {
  for (const int l : LanesOf(lanes)) {
    LaneCopies& mine = w.copies[static_cast<size_t>(l)];
    size_t done = 0;
    while (done < mine.boxes.size() && mine.boxes[done].group < mine.box_group - i.imm)
      finish_store(mine.boxes[done++]);
    mine.boxes.erase(mine.boxes.begin(), mine.boxes.begin() + static_cast<std::ptrdiff_t>(done));
    if (done > 0) w.machine->know_agent(w, uint32_t{1} << l);
  }
}

BoxCode::Address take_address(Selector& x, size_t n) {
  x.address(n);
  return {x.ins.a, x.ins.wide, x.ins.imm};
}

}  // namespace

void land_copy(const BoxCopy& c) {
  Warp& w = *c.warp;
  Machine& m = *w.machine;
  Region& shared = c.block->shared;
  for_pieces(c, [&](int64_t to, int64_t address, int64_t begin, int64_t end) {
    std::memset(shared.data + to, 0, kSwizzleBytes);
    for_inside(c, address, begin, end, [&](int64_t from, int64_t at, int bytes) {
      const std::byte* p = read_place(w, *c.ins, c.lane, Space::kGlobal, static_cast<uint64_t>(from), bytes);
      if (p != nullptr) std::memcpy(shared.data + to + at, p, static_cast<size_t>(bytes));
    });
    round_piece(*c.map->map, shared.data + to);
    std::memset(shared.contents + to, kDefined, kSwizzleBytes);
    if (m.races) m.note_agent_write(shared, to, kSwizzleBytes, w.block->agent(w));
  });
}

// cp.async.bulk.tensor.Nd.{shared::cluster.global...,global.shared::cta...}; commit_group; wait_group{.read} n.
void select_tensor(Selector& x) {
  if (x.op.take("commit_group")) {
    x.need(0);
    if (x.op.done()) x.ins.run = &run_commit;
    return;
  }
  if (x.op.take("wait_group")) {
    x.op.take("read");
    x.need(1);
    x.ins.imm = std::clamp<int64_t>(x.literal(0).value_or(0), 0, 1 << 20);
    if (x.op.done()) x.ins.run = &run_wait;
    return;
  }
  const int rank = x.op.take_one({"1d", "2d", "3d", "4d", "5d"}) + 1;
  if (!x.op.take("tensor") || rank == 0) return;
  x.op.take("tile");
  const bool stores = x.op.take("bulk_group");
  const bool multicast = x.op.take("multicast::cluster");
  const int place = x.op.take_one({"shared::cta", "shared::cluster"});
  if (!stores && !x.op.take("mbarrier::complete_tx::bytes")) return;
  if (place < 0 || !x.op.take("global") || (stores && (place != 0 || multicast)) || !x.op.done()) return;
  x.ins.run = stores ? &run_store : &run_load;
  const size_t operands = stores ? 2 : multicast ? 4 : 3;
  x.need(operands, operands);
  BoxCode code;
  const size_t map_at = stores ? 0 : 1;
  code.map = take_address(x, map_at);
  const std::vector<Operand>& parts = x.at(map_at).parts;
  if (static_cast<int>(parts.size()) != rank) x.fail(fmt::format("{} takes {} coordinates", x.s.opcode, rank));
  for (const Operand& part : parts) code.coordinates.push_back(x.value(part, 4));
  code.shared = take_address(x, stores ? 1 : 0);
  if (!stores) code.barrier = take_address(x, 2);
  if (multicast) code.mask = x.value(3, 2);
  x.note_shared(16);
  x.code.global_granule = std::min(x.code.global_granule, 2);
  x.code.async_proxy = true;
  x.ins.space = Space::kShared;
  x.ins.imm = static_cast<int64_t>(x.code.boxes.size());
  x.code.boxes.push_back(std::move(code));
}

}  // namespace tcc::emulation
