// State of a run: memories, blocks, warps, and who knows of which access.
#pragma once

#include <bit>
#include <cstring>
#include <map>
#include <memory>

#include "emulation/ptx_code.h"
#include "tcc/interp/clock.h"
#include "tcc/support/rng.h"

namespace tcc::emulation {

using FindingKind = interp::Finding::Kind;

// Generic addresses: windows for shared and local memory, then a stretch for each buffer with the buffer in the middle,
// so that an address a little off still names it.
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 33, kLocalWindow = uint64_t{1} << 34;
inline constexpr int kStretchBits = 36;
inline constexpr uint64_t kFirstStretch = 16;
// Tensor maps among the parameters.
inline constexpr uint64_t kMapWindow = uint64_t{1} << 35;
inline uint64_t map_address(size_t index) {
  return kMapWindow + index * kMapBytes;
}
// Addresses of shared memory of other blocks of a cluster: the block's rank and one, above the address in the block.
inline constexpr int kRankShift = 24;
inline uint64_t buffer_address(size_t index) {
  return ((index + kFirstStretch) << kStretchBits) + (uint64_t{1} << (kStretchBits - 1));
}

// State of a byte. kPending: an asynchronous copy was issued that the program has not waited for. kOutside: between the
// arrays of shared memory.
enum Contents : uint8_t { kUndefined = 0, kDefined = 1, kPending = 2, kOutside = 3 };
inline constexpr uint64_t kAllDefined = 0x0101010101010101ull;

// Accesses to one granule (FastTrack): the last write, and readers since, a warp at a time. A tick is a number that
// grows with every synchronization of the launch; 0: no access.
struct Reader {
  uint32_t warp = 0, lanes = 0, tick = 0;
};
struct Cell {
  uint32_t writer = 0;
  uint32_t write_tick : 31 = 0;
  uint32_t atomic : 1 = 0;
  Reader reader;              // the latest
  int32_t more_readers = -1;  // row of Machine::reader_sets
};

struct Region {
  std::string name;
  std::byte* data = nullptr;
  int64_t size = 0;
  bool writable = true, shared = false;
  uint8_t* contents = nullptr;  // by byte; nullptr: defined
  Cell* cells = nullptr;        // by granule; nullptr: not looked after
  int granule_bits = 2;
  std::vector<bool>* written = nullptr;
  std::vector<std::byte> data_storage;
  std::vector<uint8_t> contents_storage;
  std::vector<Cell> cell_storage;
  std::vector<uint16_t> reading;  // by 16 bytes: asynchronous reads under way; empty: nobody asks

  void track_contents(bool defined);
  void track_order(int granule);
};

using SharedClock = std::shared_ptr<const interp::Clock>;
struct Machine;
struct Block;
struct Warp;

struct TensorMap {
  const codegen::TensorMap* map = nullptr;
  Region* region = nullptr;
  uint64_t base = 0;
};

// A box under way between global memory and a block's shared memory.
struct BoxCopy {
  const TensorMap* map = nullptr;
  std::array<int64_t, 5> at{};
  Block* block = nullptr;  // whose shared memory
  int64_t shared = 0;
  int64_t bytes = 0;
  Warp* warp = nullptr;  // that issued it
  int lane = 0;
  int64_t group = 0;  // of stores
  const Ins* ins = nullptr;
};

// A barrier in shared memory (PTX manual, "mbarrier"): arrivals still missing in this phase, bytes that copies still
// have to bring, number of phases complete.
struct Mbarrier {
  int64_t expected = 0, pending = 0, bytes = 0, phase = 0;
  uint32_t owner = 0;      // thread that made it
  bool published = false;  // to the asynchronous proxy and the cluster
  interp::Clock gathering, fenced_gathering;
  // Told by threads of other blocks: with a release at the scope of the cluster, and what has ended (Warp::finished).
  interp::Clock cluster_gathering, finished_gathering;
  SharedClock released, fenced, cluster_released, finished;
  std::vector<BoxCopy> copies;
};

// A product of a warp's part of a warpgroup, from its issue until it is waited for.
struct PendingProduct {
  const ProductCode* code = nullptr;
  const Ins* ins = nullptr;
  uint64_t a = 0, b = 0;  // descriptors
  bool add = true;
  int64_t group = 0;
  std::vector<int64_t> pieces;  // of 16 bytes that it reads
};

struct Copy {
  int64_t to = 0;  // in shared memory
  const std::byte* from = nullptr;
  int32_t bytes = 0, source_bytes = 0;
  int64_t group = 0;
  const Ins* ins = nullptr;
};
struct LaneCopies {
  std::vector<Copy> issued;
  std::vector<BoxCopy> boxes;
  int64_t box_group = 0;
  int64_t group = 0;  // of what is issued next
};

// A load of bytes that nothing has written, and in which lanes a register or predicate holds what comes of it.
struct UndefinedLoad {
  const Ins* ins = nullptr;
  std::string what;
};
struct UndefinedValue {
  uint32_t lanes = 0;
  std::shared_ptr<const UndefinedLoad> load;  // of one of the lanes
};

struct Warp {
  std::byte* regs = nullptr;
  const std::byte* constants = nullptr;
  uint32_t* preds = nullptr;
  const int32_t* extra = nullptr;
  std::byte* local = nullptr;
  Machine* machine = nullptr;
  Block* block = nullptr;
  uint32_t number = 0;  // in the launch
  int32_t index = 0;    // in the block
  uint32_t exists = 0, ready = 0, done = 0;
  uint32_t at_barrier = 0, at_collective = 0, at_wait = 0;
  std::array<int32_t, kLanes> pc{};
  std::array<uint32_t, kLanes> members{};                     // at_collective: the lanes that meet
  std::array<int64_t, kLanes> barrier{}, barrier_threads{};   // at_barrier
  std::array<SharedClock, kLanes> known, released, acquired;  // released, acquired: by fences; null: nothing
  std::array<SharedClock, kLanes> fenced;                     // generic writes that the asynchronous proxy sees
  std::array<SharedClock, kLanes> finished;                   // reads, and writes by copies, in other blocks
  std::array<LaneCopies, kLanes> copies;
  std::map<int32_t, UndefinedValue> undefined;  // by the name that Flow gives values
  std::vector<PendingProduct> products;
  int64_t product_group = 0, product_count = 0, fences = 0;
  std::vector<int32_t> in_flight;   // by accumulator: products
  std::vector<int64_t> touched_at;  // by accumulator: `fences` when another instruction last named it
  int64_t registers = 0;            // of a thread
  uint32_t cluster_arrived = 0;
  std::array<int64_t, kLanes> cluster_phase{};
  std::vector<std::byte> reg_storage, local_storage;
  std::vector<uint32_t> pred_storage;

  template <class T>
  T* row(int32_t place) {
    return reinterpret_cast<T*>(regs + place);
  }
  template <class T>
  const T* source(int32_t place) const {
    return reinterpret_cast<const T*>(place >= 0 ? regs + place : constants + (-1 - place));
  }
  uint32_t thread(int lane) const { return number * kLanes + static_cast<uint32_t>(lane); }
};

struct Block {
  int64_t index = 0;
  std::array<int64_t, 3> at{};
  uint32_t first_thread = 0, slots = 0;  // thread numbers of the block: 32 for each warp
  uint32_t floor = 0;                    // what the block's threads did up to here is known to all of them
  Region shared;
  std::vector<std::unique_ptr<Warp>> warps;
  std::map<int64_t, Mbarrier> mbarriers;  // by offset
  int64_t free_registers = 0;
  int64_t rank = 0;  // in the cluster
  // The asynchronous proxy acts as a warp behind the others, with a lane for each of them.
  uint32_t agent(const Warp& w) const { return first_thread + slots - kLanes + static_cast<uint32_t>(w.index); }
};

struct Machine {
  const PtxModule::Impl* module = nullptr;
  const KernelCode* kernel = nullptr;
  const codegen::Launch* launch = nullptr;
  const PtxOptions* options = nullptr;
  PtxReport* report_to = nullptr;
  std::vector<std::unique_ptr<Region>> regions;  // buffers, then the module's own data
  std::vector<uint64_t> params;
  std::vector<TensorMap> maps;
  bool clustered = false;
  struct {
    int64_t phase = 0;
    interp::Clock gathering, fenced_gathering;
    SharedClock released, fenced;
  } cluster_barrier;
  std::vector<std::unique_ptr<Block>> blocks;  // alive
  std::vector<std::vector<Reader>> reader_sets;
  std::vector<int32_t> free_reader_sets;
  std::vector<Reader>& more_readers(Cell& c);  // the cell's row of reader_sets, which it is given where it has none
  void drop_more_readers(Cell& c);
  std::map<std::pair<const Region*, int64_t>, interp::Clock> released;  // by atomics, at their address
  std::map<std::pair<int, int32_t>, size_t> known_findings;
  uint32_t tick = 1;
  uint32_t start_tick = 0;  // when the blocks that are alive began
  bool races = false, stopped = false;
  int64_t limit = 0;
  int64_t instructions = 0;
  int threads = 0;
  Rng rng{0};

  void report(interp::Finding::Kind kind, const Warp& w, int lane, const Ins& ins, const std::string& what);
  std::string place_text(const Region& region, int64_t offset) const;

  // ptx_launch.cpp
  std::unique_ptr<Block> make_block();
  void start_block(Block& block, int64_t index);
  void run_alive();
  bool run_warp(Warp& w, int64_t budget);
  void run_lanes(Warp& w, uint32_t lanes, int32_t pc, int64_t& budget);

  // ptx_meet.cpp
  void arrive_barrier(Warp& w, const Ins& ins, uint32_t lanes);
  bool resolve_barriers(Block& block);
  bool resolve_collectives(Warp& w);
  uint32_t member_mask(const Warp& w, const Ins& ins, int lane) const;
  void check_barrier(const Warp& w);
  bool resolve_waits(Warp& w);
  void poll_lanes(Warp& w, const Ins& ins, uint32_t lanes);
  void note_uses(Warp& w, const Ins& ins);
  Block* peer(const Block& b, int64_t rank);
  void complete_mbarriers();
  void explain_wait(const Warp& w);
  void check_end(Block& b);
  void explain_deadlock();

  // ptx_undefined.cpp: before an instruction that `lanes` have reached, and that the guard lets `active` execute.
  void follow_undefined(Warp& w, const Ins& ins, uint32_t lanes, uint32_t active);

  // ptx_order.cpp: who did what before whom.
  bool ordered(const Warp& w, int lane, const Region& region, uint32_t thread, uint32_t when) const;
  // The `before` of a thread, "read" or "write", is not ordered before this `now`.
  void report_order(const Warp& w, int lane, const Ins& ins, const Region& region, int64_t offset, uint32_t thread,
                    const char* before, const char* now);
  void note_read(Warp& w, int lane, const Ins& ins, Region& region, int64_t offset, int bytes);
  void note_write(Warp& w, int lane, const Ins& ins, Region& region, int64_t offset, int bytes, bool atomic);
  void note_atomic_read(Warp& w, int lane, const Ins& ins, Region& region, int64_t offset, int bytes);
  struct Lane {
    Warp* warp;
    int lane;
  };
  void join(std::span<const Lane> lanes);
  void join_block(Block& block);
  void fence(Warp& w, uint32_t lanes);
  void pass_on(Warp& w, int lane, const Region& region, int64_t offset);  // at every atomic access
  void acquire(Warp& w, int lane, const Region& region, int64_t offset);
  void release(Warp& w, int lane, const Region& region, int64_t offset);
  // The asynchronous proxy.
  void learn(Warp& w, int lane, const SharedClock& known, const SharedClock& fenced);
  void tell(Warp& w, int lane, interp::Clock& known, interp::Clock& fenced);
  // Arrivals at barriers in shared memory, and waits for them. wide: at the scope of the cluster.
  void tell_barrier(Warp& w, int lane, Mbarrier& b, const Block& owner, bool wide);
  void learn_barrier(Warp& w, int lane, const Mbarrier& b, bool wide);
  bool has_ended(const Warp& w, int lane, uint32_t thread, uint32_t when) const;
  void fence_proxy(Warp& w, uint32_t lanes);
  void check_proxy(Warp& w, int lane, const Ins& ins, Region& region, int64_t offset, int bytes, bool reads);
  void note_agent_write(Region& region, int64_t offset, int bytes, uint32_t agent);
  void note_agent_read(Region& region, int64_t offset, int bytes, const Block& block, const Warp& w);
  void know_agent(Warp& w, uint32_t lanes);
};

// Bulk copies (ptx_tensor.cpp).
void land_copy(const BoxCopy& copy);

// The lanes of a mask, lowest first: for (const int l : LanesOf(mask)).
struct LanesOf {
  explicit LanesOf(uint32_t lanes) : mask(lanes) {}
  struct Iterator {
    uint32_t rest;
    int operator*() const { return std::countr_zero(rest); }
    void operator++() { rest &= rest - 1; }
    bool operator!=(const Iterator& other) const { return rest != other.rest; }
  };
  Iterator begin() const { return {mask}; }
  Iterator end() const { return {0}; }
  uint32_t mask;
};

// Calls f(cell) for the cells of some bytes; none where the region is not looked after.
template <class F>
inline void for_cells(Region& region, int64_t offset, int bytes, F f) {
  if (region.cells == nullptr) return;
  Cell* c = region.cells + (offset >> region.granule_bits);
  Cell* end = region.cells + ((offset + bytes - 1) >> region.granule_bits) + 1;
  for (; c != end; ++c) f(*c);
}

// A new clock of all that these know; each may be null.
inline std::shared_ptr<interp::Clock> joined(const Block& b, std::initializer_list<const interp::Clock*> clocks) {
  auto clock = std::make_shared<interp::Clock>();
  clock->start(b.first_thread, b.slots);
  for (const interp::Clock* c : clocks)
    if (c != nullptr) clock->join(*c);
  return clock;
}

// Calls f(lane) for the lanes of a mask; the loop over all lanes vectorizes.
template <class F>
inline void for_lanes(uint32_t lanes, F f) {
  if (lanes == kAllLanes) {
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) f(l);
    return;
  }
  for (const int l : LanesOf(lanes)) f(l);
}

// One launch whose counts and findings are added to a report. `written`, by buffer and byte: what earlier launches
// wrote, and then this one too; nullptr: nobody asks.
Result<void> launch_into(const PtxModule& module, const codegen::Launch& launch, std::span<const PtxBuffer> buffers,
                         const PtxOptions& options, PtxReport& report, std::vector<std::vector<bool>>* written);

// Memory (ptx_memory.cpp). The checked place of an access, nullptr after a finding.
// `unwritten` receives a bit for each byte that nothing has written; nullptr: that is a finding.
std::byte* read_place(Warp& w, const Ins& ins, int lane, Space space, uint64_t address, int bytes,
                      uint32_t* unwritten = nullptr);
std::byte* write_place(Warp& w, const Ins& ins, int lane, Space space, uint64_t address, int bytes);
// A place in shared memory of this block or another of the cluster; nullptr after a finding.
Region* shared_region(Warp& w, const Ins& ins, int lane, uint64_t address, int bytes, int64_t& offset, Block** owner);
// What is wrong with the contents, if anything.
void check_contents(Warp& w, const Ins& ins, int lane, const Region& region, int64_t offset, int bytes);
uint64_t lane_address(const Warp& w, const Ins& ins, int lane);

}  // namespace tcc::emulation
