// A block of threads as fibers. Private to the host run.
//
// A fiber gets its stack from makecontext once; after that it is left and entered by _setjmp and _longjmp, which make
// no system call, so that a switch costs some ten nanoseconds.
#pragma once

#include <csetjmp>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <ucontext.h>

#include "emulation/host_run.h"
#include "tcc/ir/instr.h"
#include "tcc/support/rng.h"

namespace tcc::testing {

namespace device = tcc_host_device;

class HostBlock {
 public:
  HostBlock(void (*enter)(const device::Region*), device::Host& host, const std::vector<device::Region>& parameters,
            const std::array<int64_t, 3>& block, const std::vector<std::string>& lines, HostReport& report);
  ~HostBlock();
  HostBlock(const HostBlock&) = delete;

  // False: a finding ended it.
  bool run(const device::Index& at, Rng& rng);

 private:
  enum class State : uint8_t { kReady, kDone, kRow, kBarrier, kMbarrier, kFault };
  struct Deferred {
    void (*run)(const void*);
    std::vector<unsigned char> closure;
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
  };
  struct Mbarrier {
    long long expected = 0, pending = 0, bytes = 0, phase = 0;
  };

  // Called by the running fiber, through `Host`.
  static const device::Region* shared(const char* name, long long elements, int bytes, int alignment, long long offset);
  static void fault(device::Fault fault, const device::Region* region, long long element);
  static void row(int row, int line, const device::Operand* operands, const long long* arguments,
                  void (*compute)(void* const*, const long long*));
  static void defer(int line, const device::Operand* destination, long long elements, void (*run)(const void*),
                    const void* closure, int bytes);
  static void begin();

  void start(Fiber& f, size_t n);
  void enter(Fiber& f);
  void leave(State state);
  bool act_alone(const ir::Instruction& row);
  long long* checked_word(const device::Operand& o);
  void finish_copies(long long keep);

  bool run_warp(size_t warp, Rng& rng);
  bool resolve_groups(size_t begin, size_t end);
  bool resolve_group(std::span<Fiber> group, const Fiber& first);
  void collective(std::span<Fiber> group, const ir::Instruction& row);
  void compute_tiles(std::span<Fiber> group, const ir::Instruction& row);
  void shuffle(std::span<Fiber> group);
  bool resolve_barriers();
  bool resolve_mbarriers();
  void explain_deadlock();
  void finding(const Fiber& f, const std::string& what);

  static HostBlock* current_;

  void (*enter_)(const device::Region*);
  device::Host& host_;
  const std::vector<device::Region>& parameters_;
  const std::vector<std::string>& lines_;
  HostReport& report_;
  std::array<int64_t, 3> size_;
  unsigned char* stacks_ = nullptr;
  size_t stack_bytes_ = 0;
  std::vector<Fiber> fibers_;
  Fiber* running_ = nullptr;
  jmp_buf scheduler_;
  unsigned char* arena_ = nullptr;  // shared memory of the block
  long long arena_used_ = 0;
  std::vector<unsigned char> contents_;  // of its bytes
  std::deque<device::Region> shared_;
  std::map<const void*, Mbarrier> mbarriers_;
  bool failed_ = false;
};

}  // namespace tcc::testing
