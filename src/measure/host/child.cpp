#include "measure/host/child.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "measure/check.h"
#include "measure/host/host_timing.h"
#include "measure/host/sandbox.h"
#include "measure/runner.h"
#include "measure/task_buffers.h"
#include "tcc/interp/tensor.h"
#include "tcc/ir/permute.h"
#include "tcc/rt/rt.h"
#include "tcc/runtime/host_kernel.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"

namespace tcc::measure {
namespace {

// What the signal handler needs: plain data, filled before the first run.
struct FaultContext {
  WorkerResult* result = nullptr;
  struct Range {
    const runtime::GuardedBuffer* buffer;
    int32_t artifact, index;
  };
  std::array<Range, 256> ranges;
  size_t num_ranges = 0;
} fault_context;

void on_fault(int signal, siginfo_t* info, void*) {
  Fault& fault = fault_context.result->fault;
  fault.signal = signal;
  fault.code = info->si_code;
  fault.address = reinterpret_cast<uint64_t>(info->si_addr);
  for (size_t i = 0; i < fault_context.num_ranges; ++i) {
    const FaultContext::Range& range = fault_context.ranges[i];
    if (!range.buffer->owns(info->si_addr)) continue;
    fault.buffer = range.index;
    fault.artifact = range.artifact;
    fault.offset = static_cast<const std::byte*>(info->si_addr) - range.buffer->data();
  }
  // SA_RESETHAND: the instruction faults again and ends the process with the true signal.
}

void install_fault_handler(WorkerResult* result) {
  fault_context.result = result;
  // Large enough for AMX state in the signal frame; a stack overflow needs a stack of its own to be reported on.
  constexpr size_t kStack = 256 << 10;
  stack_t stack{};
  stack.ss_sp = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack.ss_size = kStack;
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigaction(signal, &action, nullptr);
}

// A program this many times slower than the best of its task, and a bit more for what only first runs do, is ended in
// its first run: nothing else about it is of interest.
constexpr double kHopelesslySlower = 10;
constexpr double kFirstRunSeconds = 0.1;

double hopeless_limit = 0;

void on_hopeless(int) {
  fault_context.result->given_up_seconds = hopeless_limit;
  _exit(0);
}

// Ends the process when a run takes longer than any program of interest. CPU time counts, so a machine that pauses for
// a moment makes no program hopeless.
class HopelessWatch {
 public:
  HopelessWatch(double best_seconds, int threads) {
    if (best_seconds <= 0) return;
    hopeless_limit = (kHopelesslySlower * best_seconds + kFirstRunSeconds) * threads;
    struct sigaction action = {};
    action.sa_handler = on_hopeless;
    sigaction(SIGPROF, &action, nullptr);
    armed_ = set(hopeless_limit);
  }
  ~HopelessWatch() {
    if (armed_) set(0);
  }
  HopelessWatch(const HopelessWatch&) = delete;
  HopelessWatch& operator=(const HopelessWatch&) = delete;

 private:
  static bool set(double seconds) {
    itimerval timer{};
    const double whole = std::floor(seconds);
    timer.it_value.tv_sec = static_cast<time_t>(whole);
    timer.it_value.tv_usec = static_cast<suseconds_t>(1e6 * (seconds - whole));
    return setitimer(ITIMER_PROF, &timer, nullptr) == 0;
  }
  bool armed_ = false;
};

void limit_resources(const JobHeader& job) {
  auto limit = [](auto resource, rlim_t value) {
    rlimit now{};
    if (getrlimit(resource, &now) != 0) return;
    now.rlim_cur = std::min(value, now.rlim_max);
    setrlimit(resource, &now);  // a refusal leaves the old limit: the watchdog remains
  };
  limit(RLIMIT_CORE, 0);
#ifndef __SANITIZE_ADDRESS__  // whose shadow is larger than any limit
  limit(RLIMIT_AS, static_cast<rlim_t>(job.memory_limit_bytes));
#endif
  limit(RLIMIT_CPU, static_cast<rlim_t>(std::ceil(job.cpu_limit_seconds)));
}

void bind_to_cpus(const JobHeader& job, int count) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < count; ++i) CPU_SET(job.cpus[static_cast<size_t>(i)], &set);
  sched_setaffinity(0, sizeof set, &set);  // refused: the coordinator has told the user
}

constexpr size_t kLineBytes = 64;

void make_absolute(const TaskParam& param, std::byte* data) {
  std::vector<double> values(static_cast<size_t>(param.elements()));
  interp::load_numbers(param.type, data, values);
  for (double& v : values) v = std::fabs(v);
  interp::store_numbers(param.type, data, values);
}

// To memory, out of all caches of the machine.
#if defined(__x86_64__)
[[gnu::target("clflushopt")]] void flush_lines(std::span<std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kLineBytes) _mm_clflushopt(bytes.data() + at);
  _mm_mfence();
}
bool has_flush() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kClflushopt = 1u << 23;  // leaf 7, EBX
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kClflushopt) != 0;
}
void drive_out(std::span<std::byte> bytes) {
  static const bool flushes = has_flush();
  if (flushes) return flush_lines(bytes);
  for (size_t at = 0; at < bytes.size(); at += kLineBytes) _mm_clflush(bytes.data() + at);
  _mm_mfence();
}
#else
void drive_out(std::span<std::byte>) {}
#endif

class HostProgram : public LoadedProgram {
 public:
  // `number`: of the program in the job.
  HostProgram(const codegen::Artifact& artifact, const TaskDescription& task, const std::byte* data,
              const JobHeader& job, int32_t number)
      : artifact_(artifact), task_(task), data_(data), job_(job), number_(number) {}

  // `shared`: another program whose buffers are used where they are the same.
  Result<void> load(std::shared_ptr<runtime::HostPool> pool, const HostProgram* shared) {
    TCC_TRY(kernel_, runtime::HostKernel::load(artifact_, std::move(pool)));
    TCC_TRY_VOID(buffers_.place(artifact_, task_.params.size(), shared != nullptr ? &shared->buffers_ : nullptr,
                                [](const codegen::BufferInfo& info) {
                                  return runtime::GuardedBuffer::allocate(info.bytes,
                                                                          std::max<int64_t>(info.alignment, 64));
                                }));
    for (size_t i = 0; i < buffers_.size(); ++i) {
      pointers_.push_back(buffers_[i].data());
      watch(buffers_[i], static_cast<int32_t>(i));
    }
    int32_t index = static_cast<int32_t>(task_.params.size());
    for (const runtime::GuardedBuffer& buffer : kernel_->workspace()) watch(buffer, index++);
    return {};
  }

  Result<void> prepare(int64_t set) override { return prepare(set, false); }
  // Inputs are read-only. `absolute`: they are the absolute values of the set's.
  Result<void> prepare(int64_t set, bool absolute) {
    uint8_t poison = poison_of(set);
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const TaskParam& param = task_.params[i];
      const runtime::GuardedBuffer& buffer = buffers_[i];
      if (param.is_output()) {
        buffer.fill(poison);
        continue;
      }
      if (!buffer.unprotect()) return environment_error("cannot make a buffer writable: {}", std::strerror(errno));
      const std::byte* from = data_ + param.sets[static_cast<size_t>(set)].data;
      auto bytes = static_cast<size_t>(param.elements() * ir::type_bytes(param.type));
      if (const ir::Layout* layout = buffers_.layout(i)) {
        ir::to_physical(*layout, {from, bytes}, buffer.span(), ir::type_bytes(param.type));
      } else {
        std::memcpy(buffer.data(), from, bytes);
      }
      if (absolute) make_absolute(param, buffer.data());
      if (!buffer.protect()) return environment_error("cannot make a buffer read-only: {}", std::strerror(errno));
    }
    kernel_->poison_workspace(poison);
    return {};
  }

  Result<void> run() override {
    HopelessWatch watch(job_.best_seconds, job_.threads);
    return kernel_->run(pointers_);
  }
  void run_unchecked() { (void)kernel_->run(pointers_); }

  // Weights that other kernels of a large model drive out of the caches between two runs.
  bool has_large_weights() const {
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (is_large_weight(i)) return true;
    return false;
  }
  void drive_out_weights() {
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (is_large_weight(i)) drive_out(buffers_[i].span());
  }

  Result<bool> check(int64_t set, WorkerResult& result) override {
    auto output = [this](size_t param, std::vector<std::byte>& scratch) { return logical_output(param, scratch); };
    return outputs_are_right(task_, data_, set, output, result) && margins_are_intact(damaged_margin(), result);
  }

  // The output's elements, row-major; `scratch` holds them where the layout is another.
  const std::byte* logical_output(size_t param, std::vector<std::byte>& scratch) const {
    return buffers_.logical(param, task_.params[param], buffers_[param].span(), scratch);
  }

  // The first buffer with something written beside it; -1: none.
  int64_t damaged_margin() const {
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (!buffers_[i].margins_intact()) return static_cast<int64_t>(i);
    for (size_t i = 0; i < kernel_->workspace().size(); ++i)
      if (!kernel_->workspace()[i].margins_intact()) return static_cast<int64_t>(buffers_.size() + i);
    return -1;
  }

 private:
  bool is_large_weight(size_t i) const {
    constexpr size_t kLarge = 32 << 10;  // smaller ones are not what a program waits for
    return task_.params[i].role == ir::BufferRole::kWeight && buffers_[i].span().size() >= kLarge;
  }
  void watch(const runtime::GuardedBuffer& buffer, int32_t index) {
    if (fault_context.num_ranges < fault_context.ranges.size())
      fault_context.ranges[fault_context.num_ranges++] = {&buffer, number_, index};
  }

  const codegen::Artifact& artifact_;
  const TaskDescription& task_;
  const std::byte* data_;
  const JobHeader& job_;
  int32_t number_;
  std::unique_ptr<runtime::HostKernel> kernel_;
  TaskBuffers<runtime::GuardedBuffer> buffers_;
  std::vector<void*> pointers_;
};

void run_everywhere(const runtime::HostPool& pool, void (*work)()) {
  void* const context[] = {reinterpret_cast<void*>(work)};
  auto each = [](void* const* buffers, int64_t, int64_t) { reinterpret_cast<void (*)()>(buffers[0])(); };
  (void)tcc_rt_pool_run_each(pool.handle(), each, context);
}

class HostRunner : public Runner {
 public:
  HostRunner(const JobHeader& job, std::shared_ptr<runtime::HostPool> pool) : job_(job), pool_(std::move(pool)) {}

  Result<LoadedProgram*> load(const codegen::Artifact& artifact, const TaskDescription& task, const std::byte* data,
                              WorkerResult&) override {
    const HostProgram* first = programs_.empty() ? nullptr : programs_[0].get();
    programs_.push_back(
        std::make_unique<HostProgram>(artifact, task, data, job_, static_cast<int32_t>(programs_.size())));
    TCC_TRY_VOID(programs_.back()->load(pool_, first));
    return programs_.back().get();
  }

  Result<void> run_reference(const TaskDescription& task, JobHeader& job) override {
    auto* out = reinterpret_cast<std::byte*>(&job) + job.outputs_offset;
    std::vector<std::byte> scratch;
    for (size_t number = 0; number < programs_.size(); ++number) {
      HostProgram& program = *programs_[number];
      for (int64_t set = 0; set < task.num_sets; ++set) {
        TCC_TRY_VOID(program.prepare(set, number > 0));
        const Stopwatch watch;
        TCC_TRY_VOID(program.run());
        if (number == 0) job.result.last_run_seconds = watch.seconds();
        for (size_t i = 0; i < task.params.size(); ++i) {
          const TaskParam& param = task.params[i];
          if (!param.is_output()) continue;
          auto bytes = static_cast<size_t>(param.elements() * ir::type_bytes(param.type));
          std::memcpy(out, program.logical_output(i, scratch), bytes);
          out += bytes;
        }
        if (program.damaged_margin() >= 0) return environment_error("the reference writes outside its buffers");
      }
    }
    return {};
  }

  Result<void> time(const JobHeader& job, WorkerResult& result) override {
    time_on_host(run_of(job, 0), timing_of(job), result);
    return {};
  }
  Result<void> time_pair(const JobHeader& job, WorkerResult& result) override {
    time_pair_on_host(run_of(job, 0), run_of(job, 1), timing_of(job), result);
    return {};
  }

 private:
  HostRun run_of(const JobHeader& job, size_t number) {
    HostProgram& program = *programs_[number];
    HostRun out{[&program] { program.run_unchecked(); }};
    if (job.cold_weights != 0 && program.has_large_weights()) out.before = [&program] { program.drive_out_weights(); };
    return out;
  }
  HostTiming timing_of(const JobHeader& job) {
    HostTiming timing;
    timing.plan = plan_of(job);
    timing.quiet = job.quiet;
    timing.cpus = {job.cpus.data(), static_cast<size_t>(job.num_cpus)};
    if (job.threads > 1) timing.everywhere = [this](void (*work)()) { run_everywhere(*pool_, work); };
    return timing;
  }

  const JobHeader& job_;
  std::shared_ptr<runtime::HostPool> pool_;
  std::vector<std::unique_ptr<HostProgram>> programs_;
};

Result<void> run_on_host(JobHeader& job, const std::byte* data) {
  const int threads = job.threads;
  bind_to_cpus(job, job.num_cpus);
  TCC_TRY(std::shared_ptr<runtime::HostPool> pool, runtime::HostPool::create(threads, /*pin=*/threads > 1));
  // The pool leaves the first CPU to its caller. Left free, this thread may come to sit on a worker's, where the two
  // wait for each other in turns.
  if (threads > 1) {
    std::sort(job.cpus.begin(), job.cpus.begin() + job.num_cpus);
    bind_to_cpus(job, 1);
  }
  HostRunner runner(job, std::move(pool));
  return run_job(job, data, runner);
}

}  // namespace

void run_child(JobHeader* job, const std::byte* task) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  job->result.phase = Phase::kLoading;
  install_fault_handler(&job->result);
  limit_resources(*job);
  if (job->sandbox != 0) enter_sandbox();  // where the system refuses, the limits remain
  if (Result<void> done = run_on_host(*job, task); !done) {
    job->result.status = ChildStatus::kFailed;
    set_text(job->result.text, done.error().message);
  }
  job->result.phase = Phase::kDone;
}

}  // namespace tcc::measure
