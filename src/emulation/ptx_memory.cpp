// Loads, stores, atomics and fences, and the checks of every access.
#include <algorithm>

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_numbers.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

constexpr std::string_view kUnwritten = ": nothing has written it";

struct Place {
  Region* region = nullptr;
  int64_t offset = 0;
};

// The region and offset of an address; local memory has none and is found by `local`.
Place find_place(Warp& w, Space space, uint64_t address, bool& local) {
  local = space == Space::kLocal;
  if (space == Space::kShared) {
    const uint64_t rank = address >> kRankShift;
    Block* block = rank == 0 ? w.block : w.machine->peer(*w.block, static_cast<int64_t>(rank) - 1);
    if (block == nullptr) return {};
    return {&block->shared, static_cast<int64_t>(address & ((uint64_t{1} << kRankShift) - 1))};
  }
  if (local) return {nullptr, static_cast<int64_t>(address)};
  if (space == Space::kGeneric) {
    if (address >= kLocalWindow && address < 2 * kLocalWindow) {
      local = true;
      return {nullptr, static_cast<int64_t>(address - kLocalWindow)};
    }
    if (address >= kSharedWindow && address < kLocalWindow)
      return {&w.block->shared, static_cast<int64_t>(address - kSharedWindow)};
  }
  const uint64_t stretch = address >> kStretchBits;
  if (stretch < kFirstStretch || stretch - kFirstStretch >= w.machine->regions.size()) return {};
  const size_t index = static_cast<size_t>(stretch - kFirstStretch);
  return {w.machine->regions[index].get(), static_cast<int64_t>(address - buffer_address(index))};
}

bool is_inside(int64_t offset, int bytes, int64_t size) {
  return offset >= 0 && offset <= size - bytes;
}

// Alignment and bounds; the region, or nullptr after a finding. Local memory: `local` is its place.
Region* check_place(Warp& w, const Ins& ins, int lane, Space space, uint64_t address, int bytes, int64_t& offset,
                    std::byte*& local) {
  bool is_local = false;
  const Place place = find_place(w, space, address, is_local);
  offset = place.offset;
  Machine& m = *w.machine;
  if ((address & static_cast<uint64_t>(bytes - 1)) != 0) [[unlikely]] {
    m.report(FindingKind::kMisaligned, w, lane, ins,
             fmt::format("address {:#x} must be a multiple of {}", address, bytes));
    return nullptr;
  }
  if (is_local) {
    const int64_t size = m.kernel->local_bytes;
    if (is_inside(offset, bytes, size)) {
      local = w.local + lane * size + offset;
    } else {
      m.report(FindingKind::kOutOfBounds, w, lane, ins, fmt::format("local byte {} of {}", offset, size));
    }
    return nullptr;
  }
  if (place.region == nullptr) [[unlikely]] {
    m.report(FindingKind::kOutOfBounds, w, lane, ins, fmt::format("address {:#x} belongs to no buffer", address));
    return nullptr;
  }
  if (!is_inside(offset, bytes, place.region->size)) [[unlikely]] {
    m.report(FindingKind::kOutOfBounds, w, lane, ins,
             fmt::format("{} has {} bytes", m.place_text(*place.region, offset), place.region->size));
    return nullptr;
  }
  return place.region;
}

bool all_defined(const uint8_t* contents, int bytes) {
  uint64_t v = kAllDefined;
  if (bytes == 16) {
    uint64_t u;
    std::memcpy(&v, contents, 8);
    std::memcpy(&u, contents + 8, 8);
    return v == kAllDefined && u == kAllDefined;
  }
  std::memcpy(&v, contents, static_cast<size_t>(bytes));
  return v == kAllDefined;
}

// The compiler widens vector loads over what aligns an array's end, and looks at the bytes that are the array's.
bool is_widened(const Ins& load, const uint8_t* contents, int bytes) {
  const uint8_t* end = std::find(contents, contents + bytes, kOutside);
  return load.count > 1 && end != contents && end != contents + bytes &&
         std::all_of(contents, end, [](uint8_t state) { return state == kDefined; });
}

// What is wrong with the bytes of a load.
void report_contents(Warp& w, const Ins& ins, int lane, const Region& region, int64_t offset, int bytes) {
  const std::span<const uint8_t> c(region.contents + offset, static_cast<size_t>(bytes));
  const auto has = [&](Contents state) { return std::find(c.begin(), c.end(), state) != c.end(); };
  const std::string place = w.machine->place_text(region, offset);
  if (has(kOutside)) {
    w.machine->report(FindingKind::kOutOfBounds, w, lane, ins, place + " is between arrays");
  } else if (has(kPending)) {
    w.machine->report(FindingKind::kUninitialised, w, lane, ins,
                      place + ": an asynchronous copy to it has not been waited for");
  } else {
    w.machine->report(FindingKind::kUninitialised, w, lane, ins, place + std::string(kUnwritten));
  }
}
// A bit for each byte that nothing has written; 0 where other bytes are wrong, too.
uint32_t unwritten_bytes(const uint8_t* contents, int bytes) {
  uint32_t mask = 0;
  for (int i = 0; i < bytes; ++i) {
    if (contents[i] != kDefined && contents[i] != kUndefined) return 0;
    if (contents[i] == kUndefined) mask |= uint32_t{1} << i;
  }
  return mask;
}

// Marks bytes written; false after a finding that forbids the store.
bool define(Warp& w, const Ins& ins, int lane, Region& region, int64_t offset, int bytes) {
  if (!region.writable) {
    w.machine->report(FindingKind::kOutOfBounds, w, lane, ins, w.machine->place_text(region, offset) + " is read-only");
    return false;
  }
  if (region.written != nullptr)
    for (int i = 0; i < bytes; ++i) (*region.written)[static_cast<size_t>(offset + i)] = true;
  if (region.contents == nullptr) return true;
  uint8_t* c = region.contents + offset;
  const uint8_t worst = *std::max_element(c, c + bytes);
  if (worst == kOutside) {
    w.machine->report(FindingKind::kOutOfBounds, w, lane, ins,
                      w.machine->place_text(region, offset) + " is between arrays");
    return false;
  }
  if (!region.reading.empty()) {
    for (int64_t at = offset / 16; at <= (offset + bytes - 1) / 16; ++at) {
      if (region.reading[static_cast<size_t>(at)] == 0) continue;
      w.machine->report(FindingKind::kRace, w, lane, ins,
                        w.machine->place_text(region, offset) +
                            ": it is read by a product or bulk copy that has not been waited for");
      break;
    }
  }
  if (worst == kPending) {
    w.machine->report(FindingKind::kRace, w, lane, ins,
                      w.machine->place_text(region, offset) + ": an asynchronous copy to it has not been waited for");
  }
  std::memset(c, kDefined, static_cast<size_t>(bytes));
  return true;
}

// --- loads and stores ------------------------------------------------------------------------------------------------

// The loaded registers, of the elements from `first` on, that get bytes which nothing has written.
void note_unwritten(Warp& w, const Ins& i, int lane, uint32_t unwritten, int element_bytes, int first = 0) {
  const uint32_t whole = (uint32_t{1} << element_bytes) - 1;
  for (int n = first; unwritten != 0; ++n, unwritten >>= element_bytes) {
    if ((unwritten & whole) == 0) continue;
    UndefinedValue& value = w.undefined[w.extra[i.extra + n]];
    value.lanes |= uint32_t{1} << lane;
    if (value.load != nullptr && value.load->ins == &i) continue;
    bool local = false;
    const Place place = find_place(w, i.space, lane_address(w, i, lane), local);
    const std::string text = w.machine->place_text(*place.region, place.offset + n * element_bytes);
    value.load = std::make_shared<UndefinedLoad>(UndefinedLoad{&i, text + std::string(kUnwritten)});
  }
}
// Element type in memory, element type of the register, vector length and space.
template <class M, class R, Space S>
void run_load(Warp& w, const Ins& i, uint32_t lanes) {
  const int32_t* places = w.extra + i.extra;
  for (const int l : LanesOf(lanes)) {
    uint32_t unwritten = 0;
    const std::byte* p =
        read_place(w, i, l, S == Space::kGeneric ? i.space : S, lane_address(w, i, l), i.bytes, &unwritten);
    if (unwritten != 0) [[unlikely]]
      note_unwritten(w, i, l, unwritten, sizeof(M));
    for (int n = 0; n < i.count; ++n) {
      M v{};
      if (p != nullptr) std::memcpy(&v, p + n * static_cast<int>(sizeof(M)), sizeof(M));
      w.row<R>(places[n])[l] = static_cast<R>(v);
    }
  }
}
// The compiler widens loads over elements that nobody uses (mode: which). Those must exist, and that is all.
template <class M, class R>
void run_load_some(Warp& w, const Ins& i, uint32_t lanes) {
  const int32_t* places = w.extra + i.extra;
  for (const int l : LanesOf(lanes)) {
    const uint64_t address = lane_address(w, i, l);
    int64_t offset = 0;
    std::byte* local = nullptr;
    const bool exists = check_place(w, i, l, i.space, address, i.bytes, offset, local) != nullptr || local != nullptr;
    for (int n = 0; n < i.count; ++n) {
      if (((i.mode >> n) & 1) != 0) continue;
      uint32_t unwritten = 0;
      const uint64_t at = address + static_cast<uint64_t>(n) * sizeof(M);
      const std::byte* p = exists ? read_place(w, i, l, i.space, at, sizeof(M), &unwritten) : nullptr;
      if (unwritten != 0) [[unlikely]]
        note_unwritten(w, i, l, unwritten, sizeof(M), n);
      M v{};
      if (p != nullptr) std::memcpy(&v, p, sizeof(M));
      w.row<R>(places[n])[l] = static_cast<R>(v);
    }
  }
}
template <class M, class R, Space S>
void run_store(Warp& w, const Ins& i, uint32_t lanes) {
  const int32_t* places = w.extra + i.extra;
  for (const int l : LanesOf(lanes)) {
    std::byte* p = write_place(w, i, l, S == Space::kGeneric ? i.space : S, lane_address(w, i, l), i.bytes);
    if (p == nullptr) continue;
    for (int n = 0; n < i.count; ++n) {
      const M v = static_cast<M>(w.source<R>(places[n])[l]);
      std::memcpy(p + n * static_cast<int>(sizeof(M)), &v, sizeof(M));
    }
  }
}
void run_load_param(Warp& w, const Ins& i, uint32_t lanes) {
  uint64_t* d = w.row<uint64_t>(i.d);
  const uint64_t v = w.machine->params[static_cast<size_t>(i.imm)];
  for_lanes(lanes, [&](int l) { d[l] = v; });
}

// mode 1: strong (volatile, relaxed), 2: acquire or release.
void run_load_strong(Warp& w, const Ins& i, uint32_t lanes) {
  for (const int l : LanesOf(lanes)) {
    int64_t offset = 0;
    std::byte* local = nullptr;
    Region* region = check_place(w, i, l, i.space, lane_address(w, i, l), i.bytes, offset, local);
    uint64_t v = 0;
    if (region != nullptr) {
      if (region->contents != nullptr && !all_defined(region->contents + offset, i.bytes))
        report_contents(w, i, l, *region, offset, i.bytes);
      w.machine->note_atomic_read(w, l, i, *region, offset, i.bytes);
      w.machine->pass_on(w, l, *region, offset);
      if (i.mode == 2) w.machine->acquire(w, l, *region, offset);
      std::memcpy(&v, region->data + offset, i.bytes);
    } else if (local != nullptr) {
      std::memcpy(&v, local, i.bytes);
    }
    std::memcpy(w.row<std::byte>(i.d) + l * i.bytes, &v, i.bytes);
  }
}
void run_store_strong(Warp& w, const Ins& i, uint32_t lanes) {
  for (const int l : LanesOf(lanes)) {
    int64_t offset = 0;
    std::byte* local = nullptr;
    Region* region = check_place(w, i, l, i.space, lane_address(w, i, l), i.bytes, offset, local);
    const std::byte* v = w.source<std::byte>(i.d) + l * i.bytes;
    if (region != nullptr && define(w, i, l, *region, offset, i.bytes)) {
      w.machine->pass_on(w, l, *region, offset);
      if (i.mode == 2) w.machine->release(w, l, *region, offset);
      w.machine->note_write(w, l, i, *region, offset, i.bytes, true);
      std::memcpy(region->data + offset, v, i.bytes);
    } else if (local != nullptr) {
      std::memcpy(local, v, i.bytes);
    }
  }
}

enum class Transfer { kLoad, kLoadSome, kStore };

template <Transfer kWhat, class M, class R, Space kSpace>
constexpr Handler transfer() {
  if constexpr (kWhat == Transfer::kLoad) {
    return &run_load<M, R, kSpace>;
  } else if constexpr (kWhat == Transfer::kLoadSome) {
    return &run_load_some<M, R>;
  } else {
    return &run_store<M, R, kSpace>;
  }
}
template <Transfer kWhat, class M, class R>
Handler in_space(Space space) {
  if (space == Space::kShared) return transfer<kWhat, M, R, Space::kShared>();
  if (space == Space::kGlobal) return transfer<kWhat, M, R, Space::kGlobal>();
  return transfer<kWhat, M, R, Space::kGeneric>();
}
template <Transfer kWhat>
Handler transfer_handler(Type type, int register_bytes, Space space) {
  const auto into = [&]<class M>(M) -> Handler {
    if constexpr (sizeof(M) <= 2) {
      if (register_bytes == 2) return in_space<kWhat, M, uint16_t>(space);
    }
    if constexpr (sizeof(M) <= 4) {
      if (register_bytes == 4) return in_space<kWhat, M, uint32_t>(space);
    }
    return register_bytes == 8 ? in_space<kWhat, M, uint64_t>(space) : nullptr;
  };
  switch (type_bytes(type)) {
    case 1:
      return is_signed(type) ? into(int8_t{}) : into(uint8_t{});
    case 2:
      return is_signed(type) ? into(int16_t{}) : into(uint16_t{});
    case 4:
      return is_signed(type) ? into(int32_t{}) : into(uint32_t{});
    case 8:
      return into(uint64_t{});
    default:
      return nullptr;
  }
}

void note_granule(Selector& x, Space space, int bytes) {
  if (space != Space::kShared && space != Space::kLocal) x.code.global_granule = std::min(x.code.global_granule, bytes);
  if (space != Space::kGlobal && space != Space::kLocal) x.code.shared_granule = std::min(x.code.shared_granule, bytes);
}

Space take_space(Selector& x) {
  constexpr Space kSpaces[] = {Space::kGlobal, Space::kShared, Space::kShared, Space::kShared,
                               Space::kLocal,  Space::kParam,  Space::kGlobal};
  const int n = x.op.take_one({"global", "shared", "shared::cta", "shared::cluster", "local", "param", "const"});
  return n < 0 ? Space::kGeneric : kSpaces[n];
}

void select_transfer(Selector& x, bool load) {
  const Space space = take_space(x);
  const int strength = x.op.take_one({"weak", "volatile", "relaxed", load ? "acquire" : "release"});
  const int scope = x.op.take_one({"cta", "gpu", "sys", "cluster"});
  if (load) x.op.take("nc");
  x.op.take_one({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  x.op.take_one({"L1::no_allocate", "L1::evict_last", "L1::evict_first", "L1::evict_normal"});
  x.op.take_one({"L2::64B", "L2::128B", "L2::256B"});
  const int vector = x.op.take_one({"v2", "v4", "v8"});
  const auto type = x.op.take_type();
  if (!type || *type == Type::kPred || type_bytes(*type) > 8 || !x.op.done() || (scope >= 0) != (strength >= 2)) return;
  const size_t value_at = load ? 0 : 1, address_at = load ? 1 : 0;
  x.need(2);
  x.ins.space = space;
  if (space == Space::kParam) {
    const Operand& from = x.at(1);
    const auto param = std::find(x.code.params.begin(), x.code.params.end(), from.name);
    if (!load || type_bytes(*type) != 8 || vector >= 0) return;
    x.ins.run = &run_load_param;
    x.ins.d = x.result(0, 8);
    x.ins.imm = param - x.code.params.begin();
    if (param == x.code.params.end() || from.kind != Operand::Kind::kAddress || from.value != 0)
      x.fail("ld.param reads a parameter's beginning");
    return;
  }
  x.address(address_at);
  const int bytes = type_bytes(*type), count = vector < 0 ? 1 : 2 << vector;
  if (bytes * count > 16) return;
  x.ins.bytes = static_cast<uint8_t>(bytes * count);
  x.ins.count = static_cast<uint8_t>(count);
  note_granule(x, space, bytes * count);
  const Operand& data = x.at(value_at);
  std::vector<Operand> parts = vector >= 0 ? data.parts : std::vector<Operand>{data};
  if (static_cast<int>(parts.size()) != count)
    return x.fail(fmt::format("{} moves {} elements", x.s.opcode, count)), void(x.ins.run = &run_load_param);
  // Registers of one width, which the sinks follow.
  int width = std::max(bytes, 2);
  for (const Operand& p : parts)
    if (p.kind == Operand::Kind::kRegister) x.any_register(p, width);
  x.begin_extra();
  for (const Operand& p : parts) x.code.extra.push_back(load ? x.result_of(p, width) : x.value(p, width));
  if (strength >= 1) {
    if (count != 1 || width != bytes) return;
    x.ins.mode = strength == 3 ? 2 : 1;
    x.ins.run = load ? &run_load_strong : &run_store_strong;
    x.ins.d = x.code.extra.back();
    return;
  }
  for (int n = 0; load && count > 1 && n < count; ++n)
    if (x.is_unused(parts[static_cast<size_t>(n)])) x.ins.mode |= static_cast<uint8_t>(1 << n);
  if (x.ins.mode != 0) note_granule(x, space, bytes);
  x.ins.run = !load             ? transfer_handler<Transfer::kStore>(*type, width, space)
              : x.ins.mode != 0 ? transfer_handler<Transfer::kLoadSome>(*type, width, space)
                                : transfer_handler<Transfer::kLoad>(*type, width, space);
}

// --- atomics ---------------------------------------------------------------------------------------------------------

enum class Atomic : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange, kCompare, kIncrement, kDecrement };

template <class T>
T atomic_result(Atomic op, T old, T b, T c) {
  if constexpr (std::is_floating_point_v<T>) {
    return op == Atomic::kAdd ? old + b : op == Atomic::kCompare ? (old == b ? c : old) : b;
  } else {
    switch (op) {
      case Atomic::kAdd:
        return static_cast<T>(static_cast<UnsignedOf<T>>(old) + static_cast<UnsignedOf<T>>(b));
      case Atomic::kMin:
        return std::min(old, b);
      case Atomic::kMax:
        return std::max(old, b);
      case Atomic::kAnd:
        return old & b;
      case Atomic::kOr:
        return old | b;
      case Atomic::kXor:
        return old ^ b;
      case Atomic::kExchange:
        return b;
      case Atomic::kCompare:
        return old == b ? c : old;
      case Atomic::kIncrement:
        return old >= b ? T{0} : static_cast<T>(old + 1);
      case Atomic::kDecrement:
        return old == 0 || old > b ? b : static_cast<T>(old - 1);
    }
    return old;
  }
}

// mode: the operation; count bit 0: acquires, bit 1: releases; imm as for loads.
template <class T>
void run_atomic(Warp& w, const Ins& i, uint32_t lanes) {
  for (const int l : LanesOf(lanes)) {
    int64_t offset = 0;
    std::byte* local = nullptr;
    Region* region = check_place(w, i, l, i.space, lane_address(w, i, l), sizeof(T), offset, local);
    if (region == nullptr) continue;
    if (region->contents != nullptr && !all_defined(region->contents + offset, sizeof(T)))
      report_contents(w, i, l, *region, offset, sizeof(T));
    if (!define(w, i, l, *region, offset, sizeof(T))) continue;
    w.machine->pass_on(w, l, *region, offset);
    if ((i.count & 1) != 0) w.machine->acquire(w, l, *region, offset);
    if ((i.count & 2) != 0) w.machine->release(w, l, *region, offset);
    w.machine->note_write(w, l, i, *region, offset, sizeof(T), true);
    T old;
    std::memcpy(&old, region->data + offset, sizeof(T));
    const T b = w.source<T>(i.b)[l];
    T next = atomic_result(static_cast<Atomic>(i.mode), old, b, i.c == kNone ? b : w.source<T>(i.c)[l]);
    if constexpr (std::is_same_v<T, float>) next = flush(next);  // atomics on f32 in global memory flush subnormals
    std::memcpy(region->data + offset, &next, sizeof(T));
    if (i.d != kNone) w.row<T>(i.d)[l] = old;
  }
}

void select_atomic(Selector& x, bool with_result) {
  const Space space = take_space(x);
  const int order = x.op.take_one({"relaxed", "acquire", "release", "acq_rel"});
  x.op.take_one({"cta", "gpu", "sys", "cluster"});
  const int op = x.op.take_one({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  const auto type = x.op.take_type();
  if (op < 0 || !type || !x.op.done() || space == Space::kLocal || space == Space::kParam) return;
  const auto atomic = static_cast<Atomic>(op);
  if (*type == Type::kF32) x.ins.run = &run_atomic<float>;
  if (*type == Type::kF64) x.ins.run = &run_atomic<double>;
  if (is_real(*type) && atomic != Atomic::kAdd) x.ins.run = nullptr;
  const int bytes = type_bytes(*type);
  if (!is_real(*type) && bytes == 4) x.ins.run = is_signed(*type) ? &run_atomic<int32_t> : &run_atomic<uint32_t>;
  if (!is_real(*type) && bytes == 8) x.ins.run = is_signed(*type) ? &run_atomic<int64_t> : &run_atomic<uint64_t>;
  if (*type == Type::kF16x2 || *type == Type::kBF16x2 || *type == Type::kTF32 || *type == Type::kPred)
    x.ins.run = nullptr;
  if (x.ins.run == nullptr) return;
  const size_t first = with_result ? 1 : 0;
  const size_t count = first + (atomic == Atomic::kCompare ? 3 : 2);
  x.need(count, count);
  x.ins.space = space;
  x.ins.bytes = static_cast<uint8_t>(bytes);
  x.ins.mode = static_cast<uint8_t>(op);
  x.ins.count = static_cast<uint8_t>(order == 1 ? 1 : order == 2 ? 2 : order == 3 ? 3 : 0);
  note_granule(x, space, bytes);
  if (with_result) x.ins.d = x.result(0, bytes);
  x.address(first);
  x.ins.b = x.value(first + 1, bytes);
  if (atomic == Atomic::kCompare) x.ins.c = x.value(first + 2, bytes);
}

void run_fence(Warp& w, const Ins&, uint32_t lanes) {
  w.machine->fence(w, lanes);
}
void run_nothing(Warp&, const Ins&, uint32_t) {}

}  // namespace

uint64_t lane_address(const Warp& w, const Ins& ins, int lane) {
  if (ins.wide) return w.source<uint64_t>(ins.a)[lane] + static_cast<uint64_t>(ins.imm);
  return static_cast<uint32_t>(w.source<uint32_t>(ins.a)[lane] + static_cast<uint32_t>(ins.imm));
}

std::byte* read_place(Warp& w, const Ins& ins, int lane, Space space, uint64_t address, int bytes,
                      uint32_t* unwritten) {
  int64_t offset = 0;
  std::byte* local = nullptr;
  Region* region = check_place(w, ins, lane, space, address, bytes, offset, local);
  if (region == nullptr) return local;
  if (region->contents != nullptr && !all_defined(region->contents + offset, bytes)) [[unlikely]] {
    const uint8_t* contents = region->contents + offset;
    if (unwritten != nullptr) *unwritten = unwritten_bytes(contents, bytes);
    if ((unwritten == nullptr || *unwritten == 0) && !is_widened(ins, contents, bytes))
      report_contents(w, ins, lane, *region, offset, bytes);
  }
  if (region->cells != nullptr) w.machine->note_read(w, lane, ins, *region, offset, bytes);
  return region->data + offset;
}
std::byte* write_place(Warp& w, const Ins& ins, int lane, Space space, uint64_t address, int bytes) {
  int64_t offset = 0;
  std::byte* local = nullptr;
  Region* region = check_place(w, ins, lane, space, address, bytes, offset, local);
  if (region == nullptr) return local;
  if (!define(w, ins, lane, *region, offset, bytes)) return nullptr;
  if (region->cells != nullptr) w.machine->note_write(w, lane, ins, *region, offset, bytes, false);
  return region->data + offset;
}

Region* shared_region(Warp& w, const Ins& ins, int lane, uint64_t address, int bytes, int64_t& offset, Block** owner) {
  Machine& m = *w.machine;
  Block* block = w.block;
  if (const uint64_t rank = address >> kRankShift; rank != 0) {
    block = m.peer(*w.block, static_cast<int64_t>(rank) - 1);
    if (block == nullptr) {
      m.report(FindingKind::kOutOfBounds, w, lane, ins,
               fmt::format("address {:#x} is in no block of the cluster", address));
      return nullptr;
    }
  }
  offset = static_cast<int64_t>(address & ((uint64_t{1} << kRankShift) - 1));
  if (!is_inside(offset, bytes, block->shared.size)) {
    m.report(FindingKind::kOutOfBounds, w, lane, ins,
             fmt::format("{} has {} bytes", m.place_text(block->shared, offset), block->shared.size));
    return nullptr;
  }
  if (owner != nullptr) *owner = block;
  return &block->shared;
}
void check_contents(Warp& w, const Ins& ins, int lane, const Region& region, int64_t offset, int bytes) {
  if (region.contents != nullptr && !all_defined(region.contents + offset, bytes))
    report_contents(w, ins, lane, region, offset, bytes);
}

void select_memory(Selector& x) {
  const std::string_view base = x.op.base();
  if (base == "ld" || base == "st") return select_transfer(x, base == "ld");
  if (base == "atom" || base == "red") return select_atomic(x, base == "atom");
  if (base == "prefetch") {
    x.op.take_one({"global"});
    x.op.take_one({"L1", "L2"});
    x.need(1);
    if (x.op.done()) x.ins.run = &run_nothing;
    return;
  }
  // fence.acq_rel.gpu, membar.gl
  if (x.op.take("proxy") || x.op.take("mbarrier_init")) return select_mbarrier(x);
  x.op.take_one({"acq_rel", "sc"});
  if (x.op.take_one({"cta", "gpu", "sys", "gl", "cluster"}) < 0 || !x.op.done()) return;
  x.need(0);
  x.ins.run = &run_fence;
}

}  // namespace tcc::emulation
