// A block of threads as fibers, and the blocks of a cluster together. Private to the host run.
//
// A fiber gets its stack from makecontext once; after that it is left and entered by _setjmp and _longjmp, which make
// no system call, so that a switch costs some ten nanoseconds.
#pragma once

#include <csetjmp>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ucontext.h>

#include "emulation/host_run.h"
#include "emulation/shared_tile.h"
#include "tcc/ir/instr.h"
#include "tcc/support/rng.h"

namespace tcc::testing {

namespace device = tcc_host_device;

// Where the elements of an operand's tile are, in row-major order: the lane and the element after the lane's first. Of
// a matrix in memory that all lanes name, the first lane and the two rows that the operand's pitch separates.
struct Spot {
  size_t lane;
  long long element;
  long long row = 0;
};
const std::vector<Spot>& spots_of(const ir::OperandSpec& spec);
// A stamp of shared memory: the thread and one, above the number of fences in the block before it wrote.
inline constexpr int kFenceBits = 20;
// Threads that come together at a row.
size_t span_of(const ir::Instruction& row, size_t block);

class HostBlock {
 public:
  HostBlock(const HostLaunch& launch, device::Host& host, HostReport& report);
  ~HostBlock();
  HostBlock(const HostBlock&) = delete;

  // cluster: its blocks by rank, this one among them.
  void start(const device::Index& at, std::span<const std::unique_ptr<HostBlock>> cluster);
  // Lets every thread go on until it waits; false: nothing could be done.
  bool step(Rng& rng);
  // Bulk copies arrive whose barriers wait for nothing else; false: no copy arrived.
  bool land_copies();
  bool failed() const { return failed_; }
  bool ended() const;
  bool at_cluster_barrier() const;  // all threads that have not ended are
  void pass_cluster_barrier();
  // What is left over when all threads have ended.
  void check_end();
  void explain_deadlock();

 private:
  enum class State : uint8_t { kReady, kDone, kRow, kBarrier, kMbarrier, kFlag, kFault };
  // cp.async of one thread.
  struct Deferred {
    void (*run)(const void*);
    std::vector<unsigned char> closure;
    const device::Region* region;
    long long first, elements;
  };
  struct Fiber;
  // A box under way between a tensor and a block's shared memory.
  struct BoxCopy {
    const codegen::TensorMap* map = nullptr;
    const device::Region* tensor = nullptr;
    const device::Region* region = nullptr;  // in shared memory
    std::array<int64_t, 5> at{};
    long long shared = 0, bytes = 0, group = 0;
    const Fiber* issuer = nullptr;
  };
  // Of a product, in one thread: its later value, while the thread sees poison.
  struct Accumulator {
    std::vector<float> value, at_fence;
    int in_flight = 0;
  };
  struct Fiber {
    ucontext_t start;
    jmp_buf place;
    bool started = false;
    State state = State::kReady;
    device::Index index;
    // What it waits at.
    int row = -1, line = 0;
    std::array<device::Operand, 4> operands;
    std::array<long long, 4> arguments;
    void (*compute)(void* const*, const long long*) = nullptr;
    std::vector<Deferred> copies;
    std::deque<std::vector<Deferred>> groups;
    std::vector<BoxCopy> boxes;  // that it stores
    long long box_group = 0;
    unsigned fenced = 0;  // the block's count of fences at its last one
    std::map<float*, Accumulator> accumulators;
    int product_fences = 0;
  };
  struct Mbarrier {
    long long expected = 0, pending = 0, bytes = 0, phase = 0;
    const Fiber* owner = nullptr;
    bool published = false;
    std::vector<BoxCopy> copies;
  };
  struct Product {
    const ir::Instruction* row = nullptr;
    void (*compute)(void* const*, const long long*) = nullptr;
    std::array<emulation::MatrixTile, 2> tiles;
    std::vector<float*> accumulators;  // of each thread
    std::vector<long long> pieces;
    long long group = 0;
  };
  struct Warpgroup {
    std::deque<Product> products;
    long long group = 0, registers = 0;
  };

  // Called by the running fiber, through `Host`.
  static const device::Region* shared(const char* name, long long elements, int bytes, int alignment, long long offset);
  static void fault(device::Fault fault, const device::Region* region, long long element);
  static void row(int row, int line, const device::Operand* operands, const long long* arguments,
                  void (*compute)(void* const*, const long long*));
  static void defer(int line, const device::Operand* destination, long long elements, void (*run)(const void*),
                    const void* closure, int bytes);
  static void begin();

  void make_fiber(Fiber& f, size_t n);
  void enter(Fiber& f);
  void leave(State state);
  bool act_alone(const ir::Instruction& row);
  long long* checked_word(const device::Operand& o);
  void finish_copies(long long keep);
  void atomic_add(const ir::Instruction& row);

  bool run_warp(size_t warp, Rng& rng);
  bool resolve_groups(size_t begin, size_t end);
  bool resolve_group(std::span<Fiber> group, const Fiber& first);
  void collective(std::span<Fiber> group, const ir::Instruction& row);
  unsigned char* tile_element(Fiber& f, const ir::Instruction& row, size_t operand, const Spot& spot, bool reads);
  bool agree_on_matrices(std::span<Fiber> group, const ir::Instruction& row);
  void compute_tiles(std::span<Fiber> group, const ir::Instruction& row);
  void shuffle(std::span<Fiber> group);
  bool resolve_barriers();
  bool resolve_mbarriers();
  bool resolve_flags();

  // host_async.cpp: barriers in shared memory, bulk copies, the proxy that makes them.
  long long place_of(const device::Operand& o) const;
  HostBlock* peer(const Fiber& f, long long rank);
  Mbarrier* barrier_at(const Fiber& f, HostBlock& owner, long long place);
  void make_barrier(Fiber& f);
  void make_flag(Fiber& f);
  unsigned* flag_of(const Fiber& f);
  bool flag_is_up(const Fiber& f);
  void arrive(Fiber& f, const ir::Instruction& row);
  void publish(const Fiber& f);
  void fence(Fiber& f);
  void start_load(Fiber& f, const ir::Instruction& row);
  void receive(Fiber& f, HostBlock& target, BoxCopy copy, long long barrier);
  void start_store(Fiber& f);
  void finish_stores(Fiber& f, long long keep);
  std::optional<BoxCopy> read_box(Fiber& f, const device::Operand& shared, const device::Operand& box);
  void land(const BoxCopy& copy);
  bool may_touch(const Fiber& f, const device::Region& region, long long place, bool reads);

  // host_product.cpp: products of warpgroups, registers they give each other.
  Warpgroup& warpgroup(std::span<Fiber> group);
  bool take_registers(std::span<Fiber> group);
  void fence_products(std::span<Fiber> group);
  void issue_product(std::span<Fiber> group, const ir::Instruction& row);
  bool take_accumulator(Fiber& f, size_t elements);
  void finish_products(std::span<Fiber> group, long long keep);
  void finish_product(std::span<Fiber> group, const Product& p);

  unsigned stamp_of(const Fiber& f) const;
  void finding(const Fiber& f, const std::string& what);
  void fail(const Fiber& f, const std::string& what);  // a finding that ends the launch

  static HostBlock* current_;

  const HostLaunch& launch_;
  device::Host& host_;
  HostReport& report_;
  device::Index at_{};
  unsigned char* stacks_ = nullptr;
  size_t stack_bytes_ = 0;
  std::vector<Fiber> fibers_;
  Fiber* running_ = nullptr;
  jmp_buf scheduler_;
  unsigned char* arena_ = nullptr;  // shared memory of the block
  long long arena_used_ = 0;
  std::vector<unsigned char> contents_, reading_;  // of its bytes
  std::vector<unsigned> stamps_;
  unsigned fences_ = 0;
  std::deque<device::Region> shared_;
  std::map<long long, Mbarrier> mbarriers_;  // by place
  std::vector<Warpgroup> warpgroups_;
  long long free_registers_ = 0;
  std::span<const std::unique_ptr<HostBlock>> cluster_;
  bool failed_ = false;
};

}  // namespace tcc::testing
