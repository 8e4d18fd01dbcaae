#include "emulation/host_run.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>

#include "emulation/host_block.h"
#include "tcc/support/check.h"

namespace tcc::testing {
namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kArenaBytes = 1 << 20;
constexpr long long kGap = 256;  // bytes between shared buffers

unsigned char* map_memory(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TCC_CHECK(p != MAP_FAILED, "no memory for {} bytes of fibers", bytes);
  return static_cast<unsigned char*>(p);
}

}  // namespace

std::string HostReport::text() const {
  std::string all;
  for (const std::string& f : findings) all += f + "\n";
  return all;
}

HostBlock* HostBlock::current_ = nullptr;

HostBlock::HostBlock(void (*enter)(const device::Region*), device::Host& host,
                     const std::vector<device::Region>& parameters, const std::array<int64_t, 3>& block,
                     const std::vector<std::string>& lines, HostReport& report)
    : enter_(enter), host_(host), parameters_(parameters), lines_(lines), report_(report), size_(block) {
  const auto threads = static_cast<size_t>(size_[0] * size_[1] * size_[2]);
  fibers_ = std::vector<Fiber>(threads);
  stack_bytes_ = threads * kStackBytes;
  stacks_ = map_memory(stack_bytes_);
  arena_ = map_memory(kArenaBytes);
  contents_.resize(kArenaBytes);
  arena_used_ = kArenaBytes;
  host_.shared = shared;
  host_.fault = fault;
  host_.row = row;
  host_.defer = defer;
}

HostBlock::~HostBlock() {
  munmap(stacks_, stack_bytes_);
  munmap(arena_, kArenaBytes);
}

// --- fibers ----------------------------------------------------------------------------------------------------------

void HostBlock::begin() {
  HostBlock& b = *current_;
  b.enter_(b.parameters_.data());
  b.finish_copies(0);
  b.leave(State::kDone);
}

void HostBlock::start(Fiber& f, size_t n) {
  f = Fiber{};
  const auto x = static_cast<size_t>(size_[0]), y = static_cast<size_t>(size_[1]);
  f.index = {static_cast<unsigned>(n % x), static_cast<unsigned>(n / x % y), static_cast<unsigned>(n / x / y)};
  getcontext(&f.start);
  f.start.uc_stack.ss_sp = stacks_ + n * kStackBytes;
  f.start.uc_stack.ss_size = kStackBytes;
  f.start.uc_link = nullptr;
  makecontext(&f.start, begin, 0);
}

// Returns when the fiber leaves.
void HostBlock::enter(Fiber& f) {
  running_ = &f;
  host_.thread = f.index;
  if (_setjmp(scheduler_) != 0) return;
  if (f.started) _longjmp(f.place, 1);
  f.started = true;
  setcontext(&f.start);
  TCC_UNREACHABLE("setcontext returned");
}

void HostBlock::leave(State state) {
  running_->state = state;
  if (_setjmp(running_->place) == 0) _longjmp(scheduler_, 1);
}

bool HostBlock::run(const device::Index& at, Rng& rng) {
  current_ = this;
  host_.block = at;
  shared_.clear();
  mbarriers_.clear();
  std::memset(arena_, 0xff, static_cast<size_t>(arena_used_));  // NaN where it is read as a float
  std::memset(contents_.data(), device::kUndefined, static_cast<size_t>(arena_used_));
  arena_used_ = 0;
  for (size_t n = 0; n < fibers_.size(); ++n) start(fibers_[n], n);
  const size_t warps = (fibers_.size() + 31) / 32;
  std::vector<size_t> order(warps);
  for (size_t w = 0; w < warps; ++w) order[w] = w;
  for (;;) {
    for (size_t i = warps; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
    bool progress = false;
    for (size_t w : order)
      while (!failed_ && run_warp(w, rng)) progress = true;
    if (failed_) return false;
    if (resolve_groups(0, fibers_.size()) || resolve_barriers() || resolve_mbarriers()) continue;
    if (progress) continue;
    for (const Fiber& f : fibers_)
      if (f.state != State::kDone) {
        explain_deadlock();
        return false;
      }
    return true;
  }
}

// Runs what is ready of a warp, then its collective; false: nothing could be done.
bool HostBlock::run_warp(size_t warp, Rng& rng) {
  const size_t first = warp * 32, end = std::min(fibers_.size(), first + 32);
  const bool backwards = rng.below(2) != 0;
  bool any = false;
  for (size_t i = 0; i < end - first && !failed_; ++i) {
    Fiber& f = fibers_[backwards ? end - 1 - i : first + i];
    if (f.state != State::kReady) continue;
    enter(f);
    any = true;
    if (f.state == State::kFault) failed_ = true;
  }
  if (!failed_ && resolve_groups(first, end)) any = true;
  return any;
}

// --- what a running fiber calls -------------------------------------------------------------------------------------

const device::Region* HostBlock::shared(const char* name, long long elements, int bytes, int alignment,
                                        long long offset) {
  HostBlock& b = *current_;
  for (const device::Region& r : b.shared_)
    if (std::strcmp(r.name, name) == 0) return &r;
  const long long at = offset >= 0 ? offset : (b.arena_used_ + kGap + alignment - 1) / alignment * alignment;
  b.arena_used_ = std::max(b.arena_used_, at + elements * bytes);
  TCC_CHECK(b.arena_used_ <= static_cast<long long>(kArenaBytes), "{} bytes of shared memory", b.arena_used_);
  const auto defined = static_cast<unsigned char>(device::kDefined + b.shared_.size());
  b.shared_.push_back({b.arena_ + at, b.contents_.data() + at, elements, bytes, defined, name});
  return &b.shared_.back();
}

void HostBlock::fault(device::Fault fault, const device::Region* region, long long element) {
  HostBlock& b = *current_;
  std::string what = fmt::format("element {} of {} ({} elements)", element, region->name, region->elements);
  switch (fault) {
    case device::Fault::kOutside:
      what += " is outside";
      break;
    case device::Fault::kUndefined:
      what += " is read and nothing has written it";
      break;
    case device::Fault::kPending:
      what += " is read before the copy to it has been waited for";
      break;
    case device::Fault::kMisaligned:
      what += " is not aligned for its vector";
      break;
  }
  b.finding(*b.running_, what);
  b.leave(State::kFault);
}

void HostBlock::defer(int line, const device::Operand* destination, long long elements, void (*run)(const void*),
                      const void* closure, int bytes) {
  HostBlock& b = *current_;
  b.running_->line = line;
  const device::Region& r = *destination->region;
  const long long first = destination->offset;
  if (first < 0 || first + elements > r.elements) fault(device::Fault::kOutside, &r, first);
  if ((first * r.element_bytes) % (elements * r.element_bytes) != 0) fault(device::Fault::kMisaligned, &r, first);
  std::memset(r.data + first * r.element_bytes, 0xff, static_cast<size_t>(elements * r.element_bytes));
  r.mark(first, elements, device::kPending);
  const auto* from = static_cast<const unsigned char*>(closure);
  b.running_->copies.push_back({run, {from, from + bytes}});
}

void HostBlock::finish_copies(long long keep) {
  Fiber& f = *running_;
  while (static_cast<long long>(f.groups.size()) > keep) {
    for (const Deferred& d : f.groups.front()) d.run(d.closure.data());
    f.groups.pop_front();
  }
}

// The element of a barrier or of an atomic.
long long* HostBlock::checked_word(const device::Operand& o) {
  if (o.offset < 0 || o.offset >= o.region->elements) fault(device::Fault::kOutside, o.region, o.offset);
  return reinterpret_cast<long long*>(o.region->data + o.offset * o.region->element_bytes);
}

void HostBlock::row(int number, int line, const device::Operand* operands, const long long* arguments,
                    void (*compute)(void* const*, const long long*)) {
  HostBlock& b = *current_;
  Fiber& f = *b.running_;
  const ir::Instruction& row = ir::instruction(number);
  f.row = number;
  f.line = line;
  f.compute = compute;
  std::copy_n(operands, row.operands.size(), f.operands.begin());
  std::copy_n(arguments, row.num_args, f.arguments.begin());
  if (!b.act_alone(row)) b.leave(row.behaviour == ir::Behaviour::kBarSync ? State::kBarrier : State::kRow);
}

// Rows that need no other thread; false: this one does.
bool HostBlock::act_alone(const ir::Instruction& row) {
  using ir::Behaviour;
  Fiber& f = *running_;
  const device::Operand& first = f.operands[0];
  switch (row.behaviour) {
    case Behaviour::kCopyCommit:
      f.groups.push_back(std::move(f.copies));
      f.copies.clear();
      return true;
    case Behaviour::kCopyWait:
      finish_copies(f.arguments[0]);
      return true;
    case Behaviour::kMbarrierInit:
      mbarriers_[checked_word(first)] = {f.arguments[0], f.arguments[0], 0, 0};
      first.region->mark(first.offset, 1, first.region->defined);
      return true;
    case Behaviour::kMbarrierArrive:
    case Behaviour::kMbarrierExpectTx: {
      auto found = mbarriers_.find(checked_word(first));
      if (found == mbarriers_.end()) fault(device::Fault::kUndefined, first.region, first.offset);
      Mbarrier& m = found->second;
      if (row.behaviour == Behaviour::kMbarrierExpectTx) m.bytes += f.arguments[0];
      if (--m.pending == 0 && m.bytes == 0) m.pending = m.expected, ++m.phase;
      return true;
    }
    case Behaviour::kMbarrierWait:
      if (!mbarriers_.contains(checked_word(first))) fault(device::Fault::kUndefined, first.region, first.offset);
      leave(State::kMbarrier);
      return true;
    case Behaviour::kAtomicAdd: {
      checked_word(first);
      if (first.region->state(first.offset) != first.region->defined)
        fault(device::Fault::kUndefined, first.region, first.offset);
      void* to = first.region->data + first.offset * first.region->element_bytes;
      if (row.operands[0].type == ir::Type::kF32)
        *static_cast<float*>(to) += *static_cast<const float*>(f.operands[1].registers);
      else
        *static_cast<int32_t*>(to) += *static_cast<const int32_t*>(f.operands[1].registers);
      return true;
    }
    case Behaviour::kThreadFence:
    case Behaviour::kFenceProxyAsync:
    case Behaviour::kFenceMbarrierInit:
    case Behaviour::kSetMaxRegisters:
    case Behaviour::kTileConfig:
      return true;
    case Behaviour::kCompute:
    case Behaviour::kBarSync:
    case Behaviour::kWarpSync:
    case Behaviour::kShuffle:
    case Behaviour::kWgmmaFence:
    case Behaviour::kWgmmaCommit:
    case Behaviour::kWgmmaWait:
    case Behaviour::kClusterSync:
      return false;
  }
  return false;
}

void HostBlock::finding(const Fiber& f, const std::string& what) {
  const std::string at = f.line > 0 && f.line <= static_cast<int>(lines_.size())
                             ? fmt::format(", last call line {}: {}", f.line, lines_[static_cast<size_t>(f.line) - 1])
                             : "";
  report_.findings.push_back(fmt::format("block ({}, {}, {}), thread ({}, {}, {}): {}{}", host_.block.x, host_.block.y,
                                         host_.block.z, f.index.x, f.index.y, f.index.z, what, at));
}

void run_on_host(void (*enter)(const device::Region*), void (*bind)(device::Host*),
                 const std::vector<device::Region>& parameters, const std::array<int64_t, 3>& grid,
                 const std::array<int64_t, 3>& block, uint64_t seed, const std::vector<std::string>& lines,
                 HostReport& report) {
  device::Host host{};
  bind(&host);
  Rng rng(seed);
  HostBlock fibers(enter, host, parameters, block, lines, report);
  const int64_t blocks = grid[0] * grid[1] * grid[2];
  const bool backwards = rng.below(2) != 0;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t n = backwards ? blocks - 1 - i : i;
    const device::Index at{static_cast<unsigned>(n % grid[0]), static_cast<unsigned>(n / grid[0] % grid[1]),
                           static_cast<unsigned>(n / grid[0] / grid[1])};
    if (!fibers.run(at, rng)) return;
  }
}

}  // namespace tcc::testing
