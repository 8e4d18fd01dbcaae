#include "measure/child.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "measure/check.h"
#include "measure/task_buffers.h"
#include "measure/timing.h"
#include "tcc/ir/permute.h"
#include "tcc/rt/rt.h"
#include "tcc/runtime/host_kernel.h"
#include "tcc/support/check.h"

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

// Ends the process when what runs while this lives takes longer than any program of interest. CPU time counts: a
// machine that stands still for a moment makes no program hopeless.
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
    setrlimit(resource, &now);  // a refusal leaves the old limit: the watchdog still stands
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

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// One artifact with its parameters on guarded buffers.
class Program {
 public:
  Program(const codegen::Artifact& artifact, const TaskDescription& task, const std::byte* data, int32_t number)
      : artifact_(artifact), task_(task), data_(data), number_(number) {}

  // `shared`: another program whose buffers are used where they are the same, so that a pair differs in code only.
  Result<void> load(std::shared_ptr<runtime::HostPool> pool, const Program* shared) {
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

  // Inputs of the set in their physical place, read-only; everything else poisoned.
  Result<void> prepare(int64_t set) {
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
      if (!buffer.protect()) return environment_error("cannot make a buffer read-only: {}", std::strerror(errno));
    }
    kernel_->poison_workspace(poison);
    return {};
  }

  Result<void> run() { return kernel_->run(pointers_); }
  void run_unchecked() { (void)kernel_->run(pointers_); }

  // The output's elements, row-major; `scratch` holds them where the layout is another.
  const std::byte* logical_output(size_t param, std::vector<std::byte>& scratch) const {
    const runtime::GuardedBuffer& buffer = buffers_[param];
    const ir::Layout* layout = buffers_.layout(param);
    if (layout == nullptr) return buffer.data();
    int64_t elem = ir::type_bytes(task_.params[param].type);
    scratch.resize(static_cast<size_t>(task_.params[param].elements() * elem));
    ir::to_logical(*layout, buffer.span(), scratch, elem);
    return scratch.data();
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
  void watch(const runtime::GuardedBuffer& buffer, int32_t index) {
    if (fault_context.num_ranges < fault_context.ranges.size())
      fault_context.ranges[fault_context.num_ranges++] = {&buffer, number_, index};
  }

  const codegen::Artifact& artifact_;
  const TaskDescription& task_;
  const std::byte* data_;
  int32_t number_;
  std::unique_ptr<runtime::HostKernel> kernel_;
  TaskBuffers<runtime::GuardedBuffer> buffers_;
  std::vector<void*> pointers_;
};

// False: the result says what is wrong.
bool check_outputs(const Program& program, const TaskDescription& task, const std::byte* data, int64_t set,
                   WorkerResult& result) {
  auto output = [&](size_t param, std::vector<std::byte>& scratch) { return program.logical_output(param, scratch); };
  return outputs_are_right(task, data, set, output, result) && margins_are_intact(program.damaged_margin(), result);
}

void fail(WorkerResult& result, const Error& error) {
  result.status = ChildStatus::kFailed;
  set_text(result.text, error.message);
  result.phase = Phase::kDone;
}

Result<void> run_reference(Program& program, const TaskDescription& task, JobHeader* job) {
  auto* out = reinterpret_cast<std::byte*>(job) + job->outputs_offset;
  std::vector<std::byte> scratch;
  for (int64_t set = 0; set < task.num_sets; ++set) {
    TCC_TRY_VOID(program.prepare(set));
    double start = now();
    TCC_TRY_VOID(program.run());
    job->result.last_run_seconds = now() - start;
    for (size_t i = 0; i < task.params.size(); ++i) {
      const TaskParam& param = task.params[i];
      if (!param.is_output()) continue;
      auto bytes = static_cast<size_t>(param.elements() * ir::type_bytes(param.type));
      std::memcpy(out, program.logical_output(i, scratch), bytes);
      out += bytes;
    }
    if (program.damaged_margin() >= 0) return environment_error("the reference writes outside its buffers");
  }
  return {};
}

// True when the program passed on every data set.
Result<bool> check_program(Program& program, const TaskDescription& task, const std::byte* data, JobHeader& job) {
  WorkerResult& result = job.result;
  for (int64_t set = 0; set < task.num_sets; ++set) {
    result.set = static_cast<int32_t>(set);
    TCC_TRY_VOID(program.prepare(set));
    double start = now();
    {
      HopelessWatch watch(job.best_seconds, job.threads);
      TCC_TRY_VOID(program.run());
    }
    result.last_run_seconds = now() - start;
    if (!check_outputs(program, task, data, set, result)) return false;
    if (set == 0) result.exact_passed = task.exact;
  }
  return true;
}

// A range of as many indices as there are threads gives each of them one.
void run_everywhere(const runtime::HostPool& pool, void (*work)()) {
  void* const context[] = {reinterpret_cast<void*>(work)};
  auto each = [](void* const* buffers, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) reinterpret_cast<void (*)()>(buffers[0])();
  };
  (void)tcc_rt_pool_run(pool.handle(), each, context, pool.threads());
}

Result<void> run_job(JobHeader* job, const std::byte* data) {
  WorkerResult& result = job->result;
  int threads = job->threads;
  bind_to_cpus(*job, job->num_cpus);
  TCC_TRY(std::shared_ptr<runtime::HostPool> pool, runtime::HostPool::create(threads, /*pin=*/threads > 1));
  // The pool leaves the first CPU to its caller. Left free, this thread may come to sit on a worker's, where the two
  // wait for each other in turns.
  if (threads > 1) {
    std::sort(job->cpus.begin(), job->cpus.begin() + job->num_cpus);
    bind_to_cpus(*job, 1);
  }

  int64_t description_bytes = 0;
  std::memcpy(&description_bytes, data, sizeof description_bytes);
  Reader task_reader(
      {reinterpret_cast<const char*>(data) + sizeof description_bytes, static_cast<size_t>(description_bytes)});
  TaskDescription task = get_task(task_reader);
  Reader reader({reinterpret_cast<const char*>(job) + job->payload_offset, static_cast<size_t>(job->payload_bytes)});
  std::vector<codegen::Artifact> artifacts;
  for (int i = 0; i < job->num_artifacts; ++i) artifacts.push_back(get_artifact(reader));
  if (!task_reader.ok() || !reader.ok()) return environment_error("a damaged job reached the measuring process");

  std::vector<std::unique_ptr<Program>> programs;
  for (int i = 0; i < job->num_artifacts; ++i) {
    programs.push_back(std::make_unique<Program>(artifacts[static_cast<size_t>(i)], task, data, i));
    TCC_TRY_VOID(programs.back()->load(pool, i > 0 ? programs[0].get() : nullptr));
  }
  result.phase = Phase::kChecking;
  if (job->kind == JobKind::kReference) return run_reference(*programs[0], task, job);
  for (auto& program : programs) {
    TCC_TRY(bool passed, check_program(*program, task, data, *job));
    if (!passed) return {};
  }
  if (job->kind == JobKind::kCheck) return {};
  result.phase = Phase::kTiming;
  TimingPlan plan;
  plan.last_run_seconds = result.last_run_seconds;
  plan.budget_seconds = job->budget_seconds;
  plan.patience_seconds = job->patience_seconds;
  plan.best_seconds = job->best_seconds;
  plan.quiet = job->quiet;
  plan.cpus = {job->cpus.data(), static_cast<size_t>(job->num_cpus)};
  if (threads > 1) plan.everywhere = [&](void (*work)()) { run_everywhere(*pool, work); };
  if (job->kind == JobKind::kMeasure) {
    time_program([&] { programs[0]->run_unchecked(); }, plan, result);
  } else {
    time_pair([&] { programs[0]->run_unchecked(); }, [&] { programs[1]->run_unchecked(); }, plan, result);
  }
  return {};
}

}  // namespace

void run_child(JobHeader* job, const std::byte* task) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  job->result.phase = Phase::kLoading;
  install_fault_handler(&job->result);
  limit_resources(*job);
  Result<void> done = run_job(job, task);
  if (!done) return fail(job->result, done.error());
  job->result.phase = Phase::kDone;
}

}  // namespace tcc::measure
