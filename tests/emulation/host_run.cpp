#include "emulation/host_run.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "emulation/host_block.h"
#include "tcc/support/check.h"

namespace tcc::testing {
namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kArenaBytes = 1 << 20;
constexpr long long kGap = 256;  // bytes between shared buffers
constexpr size_t kWarpgroup = 128;

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

HostBlock::HostBlock(const HostLaunch& launch, device::Host& host, HostReport& report)
    : launch_(launch), host_(host), report_(report) {
  const auto& size = launch.shape.block;
  const auto threads = static_cast<size_t>(size[0] * size[1] * size[2]);
  fibers_ = std::vector<Fiber>(threads);
  stack_bytes_ = threads * kStackBytes;
  stacks_ = map_memory(stack_bytes_);
  arena_ = map_memory(kArenaBytes);
  contents_.resize(kArenaBytes);
  reading_.resize(kArenaBytes);
  stamps_.resize(kArenaBytes);
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
  b.launch_.enter(b.launch_.parameters.data());
  b.finish_copies(0);
  b.leave(State::kDone);
}

void HostBlock::make_fiber(Fiber& f, size_t n) {
  f = Fiber{};
  const auto x = static_cast<size_t>(launch_.shape.block[0]), y = static_cast<size_t>(launch_.shape.block[1]);
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
  host_.stamp = stamp_of(f);
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

void HostBlock::start(const device::Index& at, std::span<const std::unique_ptr<HostBlock>> cluster) {
  at_ = at;
  cluster_ = cluster;
  shared_.clear();
  mbarriers_.clear();
  const auto used = static_cast<size_t>(arena_used_);
  std::memset(arena_, 0xff, used);  // NaN where it is read as a float
  std::fill_n(contents_.begin(), used, device::kUndefined);
  std::fill_n(reading_.begin(), used, 0);
  std::fill_n(stamps_.begin(), used, 0);
  arena_used_ = 0;
  fences_ = 0;
  free_registers_ = 0;
  warpgroups_.assign((fibers_.size() + kWarpgroup - 1) / kWarpgroup, {});
  for (Warpgroup& g : warpgroups_) g.registers = launch_.registers;
  for (size_t n = 0; n < fibers_.size(); ++n) make_fiber(fibers_[n], n);
}

bool HostBlock::step(Rng& rng) {
  current_ = this;
  host_.block = at_;
  const size_t warps = (fibers_.size() + 31) / 32;
  std::vector<size_t> order(warps);
  for (size_t w = 0; w < warps; ++w) order[w] = w;
  for (size_t i = warps; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  bool progress = false;
  for (size_t w : order)
    while (!failed_ && run_warp(w, rng)) progress = true;
  if (failed_) return false;
  return resolve_groups(0, fibers_.size()) || resolve_barriers() || resolve_mbarriers() || resolve_flags() || progress;
}

bool HostBlock::ended() const {
  return std::all_of(fibers_.begin(), fibers_.end(), [](const Fiber& f) { return f.state == State::kDone; });
}

bool HostBlock::at_cluster_barrier() const {
  return std::all_of(fibers_.begin(), fibers_.end(), [](const Fiber& f) {
    return f.state == State::kDone ||
           (f.state == State::kRow && ir::instruction(f.row).behaviour == ir::Behaviour::kClusterSync);
  });
}

void HostBlock::pass_cluster_barrier() {
  for (Fiber& f : fibers_)
    if (f.state == State::kRow) f.state = State::kReady;
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
  b.shared_.push_back({b.arena_ + at, b.contents_.data() + at, elements, bytes, defined, name, b.stamps_.data() + at,
                       b.reading_.data() + at});
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
    case device::Fault::kBusy:
      what += " is written while a copy to it or a product or copy of it has not been waited for";
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
  b.running_->copies.push_back({run, {from, from + bytes}, &r, first, elements});
}

void HostBlock::finish_copies(long long keep) {
  Fiber& f = *running_;
  while (static_cast<long long>(f.groups.size()) > keep) {
    for (const Deferred& d : f.groups.front()) {
      d.region->mark(d.first, d.elements, device::kUndefined);
      d.run(d.closure.data());
    }
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
  if (b.act_alone(row)) {
    if (b.failed_) b.leave(State::kFault);
    return;
  }
  b.leave(row.behaviour == ir::Behaviour::kBarSync ? State::kBarrier : State::kRow);
}

// Rows that need no other thread; false: this one does.
bool HostBlock::act_alone(const ir::Instruction& row) {
  using ir::Behaviour;
  Fiber& f = *running_;
  switch (row.behaviour) {
    case Behaviour::kCopyCommit:
      if (row.proxy == ir::Proxy::kAsync) {
        ++f.box_group;
        return true;
      }
      f.groups.push_back(std::move(f.copies));
      f.copies.clear();
      return true;
    case Behaviour::kCopyWait:
    case Behaviour::kCopyWaitRead:
      if (row.proxy == ir::Proxy::kAsync)
        finish_stores(f, f.arguments[0]);
      else
        finish_copies(f.arguments[0]);
      return true;
    case Behaviour::kMbarrierInit:
      if (row.operands[0].scope == ir::Scope::kGlobal)
        make_flag(f);
      else
        make_barrier(f);
      return true;
    case Behaviour::kMbarrierArrive:
    case Behaviour::kMbarrierExpectTx:
      if (row.operands[0].scope == ir::Scope::kGlobal)
        ++flag_of(f)[0];
      else
        arrive(f, row);
      return true;
    case Behaviour::kMbarrierWait:
      if (row.operands[0].scope == ir::Scope::kGlobal) {
        while (!flag_is_up(f)) leave(State::kFlag);
        return true;
      }
      if (barrier_at(f, *this, place_of(f.operands[0])) != nullptr) leave(State::kMbarrier);
      return true;
    case Behaviour::kAtomicAdd:
      atomic_add(row);
      return true;
    case Behaviour::kFenceProxyAsync:
      fence(f);
      publish(f);
      return true;
    case Behaviour::kFenceMbarrierInit:
      publish(f);
      return true;
    case Behaviour::kCompute:
      if (row.participants != ir::Participants::kThread) return false;
      if (row.completion == ir::Completion::kMbarrierBytes)
        start_load(f, row);
      else
        start_store(f);
      return true;
    case Behaviour::kThreadFence:
    case Behaviour::kTileConfig:
      return true;
    case Behaviour::kSetMaxRegisters:
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

void HostBlock::atomic_add(const ir::Instruction& row) {
  Fiber& f = *running_;
  const device::Operand& first = f.operands[0];
  checked_word(first);
  if (first.region->state(first.offset) != first.region->defined)
    fault(device::Fault::kUndefined, first.region, first.offset);
  void* to = first.region->data + first.offset * first.region->element_bytes;
  if (row.operands[0].type == ir::Type::kF32)
    *static_cast<float*>(to) += *static_cast<const float*>(f.operands[1].registers);
  else
    *static_cast<int32_t*>(to) += *static_cast<const int32_t*>(f.operands[1].registers);
}

unsigned HostBlock::stamp_of(const Fiber& f) const {
  return static_cast<unsigned>(&f - fibers_.data() + 1) << kFenceBits | fences_;
}

void HostBlock::finding(const Fiber& f, const std::string& what) {
  const std::string at =
      f.line > 0 && f.line <= static_cast<int>(launch_.lines.size())
          ? fmt::format(", last call line {}: {}", f.line, launch_.lines[static_cast<size_t>(f.line) - 1])
          : "";
  report_.findings.push_back(fmt::format("block ({}, {}, {}), thread ({}, {}, {}): {}{}", at_.x, at_.y, at_.z,
                                         f.index.x, f.index.y, f.index.z, what, at));
}

void HostBlock::fail(const Fiber& f, const std::string& what) {
  finding(f, what);
  failed_ = true;
}

namespace {

// The blocks of a cluster until all have ended; false: a finding ended them.
bool run_cluster(std::span<const std::unique_ptr<HostBlock>> blocks, Rng& rng) {
  const auto any_failed = [&] {
    return std::any_of(blocks.begin(), blocks.end(), [](const auto& b) { return b->failed(); });
  };
  for (;;) {
    bool progress = false;
    const size_t first = rng.below(blocks.size());
    for (size_t i = 0; i < blocks.size() && !any_failed(); ++i)
      progress = blocks[(first + i) % blocks.size()]->step(rng) || progress;
    if (any_failed()) return false;
    if (progress) continue;
    if (std::all_of(blocks.begin(), blocks.end(), [](const auto& b) { return b->ended(); })) break;
    if (std::all_of(blocks.begin(), blocks.end(), [](const auto& b) { return b->at_cluster_barrier(); })) {
      for (const auto& b : blocks) b->pass_cluster_barrier();
      continue;
    }
    for (const auto& b : blocks) progress = b->land_copies() || progress;
    if (any_failed()) return false;
    if (progress) continue;
    for (const auto& b : blocks) b->explain_deadlock();
    return false;
  }
  for (const auto& b : blocks) b->check_end();
  return !any_failed();
}

}  // namespace

void run_on_host(const HostLaunch& launch, uint64_t seed, HostReport& report) {
  device::Host host{};
  launch.bind(&host);
  Rng rng(seed);
  const auto& grid = launch.shape.grid;
  // Blocks that run together: those of a cluster, which are neighbors, or all.
  const std::array<int64_t, 3> size = launch.shape.cooperative ? grid : launch.shape.cluster;
  std::vector<std::unique_ptr<HostBlock>> blocks;
  for (int64_t i = 0; i < size[0] * size[1] * size[2]; ++i)
    blocks.push_back(std::make_unique<HostBlock>(launch, host, report));
  const std::array<int64_t, 3> groups = {grid[0] / size[0], grid[1] / size[1], grid[2] / size[2]};
  const int64_t count = groups[0] * groups[1] * groups[2];
  const bool backwards = rng.below(2) != 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t n = backwards ? count - 1 - i : i;
    for (int64_t rank = 0; rank < std::ssize(blocks); ++rank) {
      const device::Index at{static_cast<unsigned>(n % groups[0] * size[0] + rank % size[0]),
                             static_cast<unsigned>(n / groups[0] % groups[1] * size[1] + rank / size[0] % size[1]),
                             static_cast<unsigned>(n / groups[0] / groups[1] * size[2] + rank / size[0] / size[1])};
      blocks[static_cast<size_t>(rank)]->start(at, blocks);
    }
    if (!run_cluster(blocks, rng)) return;
  }
}

}  // namespace tcc::testing
