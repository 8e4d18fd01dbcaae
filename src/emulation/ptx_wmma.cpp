// wmma of halves, 16 x 16 x 16. The manual leaves open which lane holds what, so this machine has fragments that
// nothing else has: a permutation of the tile over the lanes' registers for each operand and for each order in memory,
// and every half twice, of which a product takes the one or the other.
#include <array>
#include <cstring>

#include "emulation/ptx_fragment.h"
#include "emulation/ptx_numbers.h"

namespace tcc::emulation {
namespace {

constexpr int kSide = 16, kElements = kSide * kSide;
constexpr int kRegisters = 8;   // 32 bits each, of every fragment
constexpr int kLaneBytes = 16;  // bytes that a lane moves at a time

enum Part : uint8_t { kRowA, kColumnA, kRowB, kColumnB, kSum };

// Element e is at place (factor * e + first) % 256, the factors being odd.
struct Order {
  int factor, first;
};
constexpr Order kOrders[] = {{77, 19}, {101, 7}, {45, 133}, {211, 90}, {147, 61}};
constexpr int place_of(Part part, int element) {
  return (kOrders[part].factor * element + kOrders[part].first) % kElements;
}

// Where both copies of a half are: the second is in the upper registers of the lane opposite.
Fragment::At at_copy(int place, int copy) {
  const int lane = place / 8, element = place % 8;
  return {static_cast<uint8_t>(copy == 0 ? lane : kLanes - 1 - lane), static_cast<uint8_t>(element / 2 + 4 * copy),
          static_cast<uint8_t>(element % 2)};
}

const Fragment& fragment_of(Part part) {
  static const std::array<Fragment, 5> all = [] {
    std::array<Fragment, 5> made;
    for (const Part p : {kRowA, kColumnA, kRowB, kColumnB, kSum}) {
      Fragment& f = made[p];
      f.rows = f.columns = kSide;
      f.type = p == kSum ? ir::Type::kF32 : ir::Type::kF16;
      f.registers = kRegisters;
      for (int e = 0; e < kElements; ++e) {
        const int place = place_of(p, e);
        f.at.push_back(p == kSum ? Fragment::At{static_cast<uint8_t>(place / 8), static_cast<uint8_t>(place % 8), 0}
                                 : at_copy(place, (e / 3) % 2));
      }
    }
    return made;
  }();
  return all[part];
}

// Bytes between the rows in memory, where all lanes agree on them and on the address; -1 after a finding. The manual
// wants every row at a multiple of the fragment's size, which is 32 bytes here.
int64_t row_bytes(Warp& w, const Ins& i, int element) {
  const uint32_t* pitch = w.source<uint32_t>(i.b);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (pitch[lane] == pitch[0] && lane_address(w, i, lane) == lane_address(w, i, 0)) continue;
    w.machine->report(FindingKind::kWrongParticipants, w, lane, i,
                      "passes another address or distance of rows than lane 0");
    return -1;
  }
  const int64_t bytes = int64_t{pitch[0]} * element;
  if (lane_address(w, i, 0) % 32 == 0 && bytes % 32 == 0) return bytes;
  w.machine->report(FindingKind::kMisaligned, w, 0, i,
                    fmt::format("rows at {:#x} and every {} bytes from there; both must be multiples of 32",
                                lane_address(w, i, 0), bytes));
  return -1;
}

// Lane l moves half of row l / 2. mode: the part; extra: registers.
void run_load(Warp& w, const Ins& i, uint32_t) {
  const int64_t pitch = row_bytes(w, i, 2);
  if (pitch < 0) return;
  std::array<uint16_t, kElements> tile{};
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto from = static_cast<uint64_t>(lane / 2 * pitch + lane % 2 * kLaneBytes);
    const std::byte* p = read_place(w, i, lane, Space::kShared, lane_address(w, i, lane) + from, kLaneBytes);
    if (p != nullptr) std::memcpy(&tile[static_cast<size_t>(8 * lane)], p, kLaneBytes);
  }
  const auto part = static_cast<Part>(i.mode);
  const bool columns = part == kColumnA || part == kColumnB;
  for (int e = 0; e < kElements; ++e) {
    // Element e of the operand in order of its rows, wherever memory has it.
    const uint32_t half = tile[static_cast<size_t>(columns ? e % kSide * kSide + e / kSide : e)];
    for (int copy = 0; copy < 2; ++copy) {
      const Fragment::At at = at_copy(place_of(part, e), copy);
      uint32_t& word = w.row<uint32_t>(w.extra[i.extra + at.reg])[at.lane];
      word = at.part == 0 ? (word & 0xffff0000u) | half : (word & 0xffffu) | half << 16;
    }
  }
}

void run_store(Warp& w, const Ins& i, uint32_t) {
  const int64_t pitch = row_bytes(w, i, 4);
  if (pitch < 0) return;
  std::array<uint32_t, kElements> tile{};
  const Fragment& f = fragment_of(kSum);
  for (size_t e = 0; e < tile.size(); ++e) tile[e] = w.source<uint32_t>(w.extra[i.extra + f.at[e].reg])[f.at[e].lane];
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int piece = 0; piece < 2; ++piece) {
      const auto to = static_cast<uint64_t>(lane / 2 * pitch + (lane % 2 * 2 + piece) * kLaneBytes);
      std::byte* p = write_place(w, i, lane, Space::kShared, lane_address(w, i, lane) + to, kLaneBytes);
      if (p != nullptr) std::memcpy(p, &tile[static_cast<size_t>(8 * lane + 4 * piece)], kLaneBytes);
    }
  }
}

// mode: bit 0: A by columns, bit 1: B; extra: registers of D, A, B, C.
void run_product(Warp& w, const Ins& i, uint32_t) {
  const int32_t* places = w.extra + i.extra;
  thread_local std::vector<double> a, b, c;
  gather(w, fragment_of((i.mode & 1) != 0 ? kColumnA : kRowA), places + kRegisters, false, a);
  gather(w, fragment_of((i.mode & 2) != 0 ? kColumnB : kRowB), places + 2 * kRegisters, false, b);
  gather(w, fragment_of(kSum), places + 3 * kRegisters, false, c);
  add_product(a, b, c, kSide, kSide, kSide);
  scatter(w, fragment_of(kSum), places, c);
}

void select_memory_part(Selector& x, bool load) {
  const int operand = load ? x.op.take_one({"a", "b"}) : (x.op.take("d") ? 2 : -1);
  const int order = x.op.take_one({"row", "col"});
  const bool known = x.op.take("load") == load && x.op.take("store") != load && x.op.take("sync") &&
                     x.op.take("aligned") && x.op.take("m16n16k16") && x.op.take(load ? "f16" : "f32");
  // The sum leaves by rows only.
  if (!known || operand < 0 || order < 0 || (operand == 2 && order == 1)) return;
  if (x.op.take_one({"shared", "shared::cta"}) < 0 || !x.op.done()) return;
  x.need(3);
  x.ins.run = load ? &run_load : &run_store;
  x.ins.mode = static_cast<uint8_t>(2 * operand + order);
  x.ins.bytes = kLaneBytes;
  x.note_shared(kLaneBytes);
  x.address(load ? 1 : 0);
  x.ins.b = x.value(2, 4);
  x.begin_extra();
  take_registers(x, load ? 0 : 1, kRegisters, load);
}

void select_product(Selector& x) {
  static constexpr const char* kOpcode = "wmma.mma.sync.aligned.{}.{}.m16n16k16.f32.f32";
  for (int mode = 0; mode < 4; ++mode) {
    const char *a = (mode & 1) != 0 ? "col" : "row", *b = (mode & 2) != 0 ? "col" : "row";
    if (fmt::format(fmt::runtime(kOpcode), a, b) != x.s.opcode) continue;
    x.need(4);
    x.ins.run = &run_product;
    x.ins.mode = static_cast<uint8_t>(mode);
    x.begin_extra();
    take_registers(x, 0, kRegisters, true);
    for (size_t n = 1; n < 4; ++n) take_registers(x, n, kRegisters, false);
  }
}

}  // namespace

void select_wmma(Selector& x) {
  if (x.s.opcode.starts_with("wmma.mma."))
    select_product(x);
  else
    select_memory_part(x, x.s.opcode.starts_with("wmma.load."));
  if (x.ins.run == nullptr) return;
  x.ins.kind = Kind::kCollective;
  x.ins.aligned = true;
}

}  // namespace tcc::emulation
