#include "tcc/measure/host.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "measure/channel.h"
#include "measure/task_segment.h"
#include "measure/verdict.h"
#include "tcc/codegen/llvm.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"

namespace tcc::measure {
namespace {

using record::Status;

// A candidate this many times slower than the unscheduled reference is of no interest.
constexpr double kSlowest = 20;
constexpr double kShortestTimeout = 2;
constexpr double kFinalistPatience = 2;  // times that of others

void describe_fault(const FinishedJob& job, const codegen::Artifact& artifact, Measurement& m) {
  const Fault& fault = job.result().fault;
  int signal = job.reply.wait_status;
  m.status = Status::kCrashed;
  m.failure = fmt::format("signal {} ({})", signal, sigabbrev_np(signal) ? sigabbrev_np(signal) : "unknown");
  if (fault.signal == 0) return;
  m.failure += fmt::format(" at address {:#x}", fault.address);
  if (fault.buffer < 0 || fault.buffer >= static_cast<int64_t>(artifact.buffers.size())) return;
  const codegen::BufferInfo& info = artifact.buffers[static_cast<size_t>(fault.buffer)];
  std::string buffer = buffer_text(fault.buffer, artifact);
  if (fault.offset < 0) {
    m.failure += fmt::format(", {} bytes before {}", -fault.offset, buffer);
  } else if (fault.offset >= info.bytes) {
    m.failure += fmt::format(", {} bytes beyond the end of {}", fault.offset - info.bytes, buffer);
  } else if (info.role == ir::BufferRole::kInput || info.role == ir::BufferRole::kWeight) {
    m.status = Status::kWrong;
    m.failure = fmt::format("writes to its input, {} at byte {}", buffer, fault.offset);
  }
}

// Everything of the measurement that the finished job decides.
void read_result(const FinishedJob& job, const codegen::Artifact& artifact, const MeasureTask& task, double timeout,
                 Measurement& m) {
  if (job.worker_died) {
    m.status = Status::kCrashed;
    m.failure = "ended the measuring process twice";
    return;
  }
  const WorkerResult& result = job.result();
  if (job.reply.timed_out) {
    bool first = result.phase != Phase::kTiming;
    m.status = first ? Status::kHung : Status::kTimedOut;
    m.failure = fmt::format("did not end {} within {:.1f} s", first ? "its first runs" : "its timed runs", timeout);
    return;
  }
  if (job.reply.wait_code != CLD_EXITED) return describe_fault(job, artifact, m);
  if (job.reply.wait_status != 0) {
    m.status = Status::kCrashed;
    m.failure = fmt::format("the measuring process ended with exit code {}", job.reply.wait_status);
    return;
  }
  if (result.given_up_seconds > 0) {
    m.status = Status::kTimedOut;
    m.failure = fmt::format("a run took more than {:.2f} s of CPU time, far more than the best of the task",
                            result.given_up_seconds);
    return;
  }
  m.max_error = result.max_error;
  m.where = result.where.data();
  switch (result.status) {
    case ChildStatus::kOk:
      m.status = Status::kOk;
      m.gate = result.exact_passed ? "exact" : "tolerance";
      if (task.facts().sampled) m.gate += " at samples";
      return;
    case ChildStatus::kWrong:
      m.status = Status::kWrong;
      m.failure = result.text.data();
      return;
    case ChildStatus::kFailed:
      m.status = Status::kCompileFailed;
      m.failure = result.text.data();
      return;
    case ChildStatus::kNoMemory:  // of devices only
    case ChildStatus::kCrashed:
      m.status = Status::kCrashed;
      m.failure = result.text.data();
      return;
  }
}

// `timing`: what the timed runs may take; the watchdog must not mistake them for a hang.
double timeout_for(const MeasureTask& task, const HostMeasureOptions& options, double timing) {
  double wanted = std::max(kShortestTimeout, kSlowest * task.facts().naive_seconds);
  return std::max(std::min(wanted, std::max(options.timeout_seconds, 2 * task.facts().naive_seconds)), 2 * timing);
}

struct Compiled {
  std::shared_ptr<const codegen::Artifact> artifact;
  Measurement measurement;
};

Compiled compile_candidate(const Candidate& candidate) {
  Compiled c;
  c.measurement.id = candidate.id;
  c.artifact = candidate.artifact;
  if (!c.artifact) {
    TCC_CHECK(candidate.kernel.stage == ir::Stage::kLowered, "candidates are measured at Stage::Lowered");
    Stopwatch watch;
    auto artifact = codegen::compile_host(candidate.kernel, candidate.task->target());
    c.measurement.compile_seconds = watch.seconds();
    if (!artifact) {
      c.measurement.status = Status::kCompileFailed;
      c.measurement.failure = artifact.error().message;
      return c;
    }
    c.artifact = std::make_shared<const codegen::Artifact>(std::move(*artifact));
  }
  c.measurement.code = hash_bytes(c.artifact->code);
  c.measurement.layouts = constant_layouts(*c.artifact);
  std::string mismatch = parameter_mismatch(*c.artifact, candidate.task->segment().description);
  if (!mismatch.empty()) {
    c.measurement.status = Status::kRejected;
    c.measurement.failure = mismatch;
  }
  return c;
}

// The gate on data of a second seed, which programs must pass before they are called the best or compared with it. The
// result is ok, or says what became of the program.
Result<Measurement> confirm(IsolatedHostMeasurer& measurer, const Candidate& candidate, const Compiled& compiled) {
  IsolatedHostMeasurer::Channel& channel = measurer.channel();
  Measurement m;
  m.id = candidate.id;
  const uint64_t task = candidate.task->id(), code = compiled.measurement.code;
  if (channel.is_confirmed(task, code)) return m;
  TCC_TRY(std::shared_ptr<const MeasureTask> second, candidate.task->second(measurer));
  IsolatedHostMeasurer::Channel::JobSpec spec;
  spec.kind = JobKind::kCheck;
  spec.artifacts = {compiled.artifact.get()};
  spec.task = &second->segment().memory;
  spec.task_id = second->id();
  spec.threads = channel.threads();
  spec.timeout_seconds = timeout_for(*second, channel.options(), 0);
  TCC_TRY(FinishedJob job, channel.run(spec));
  read_result(job, *compiled.artifact, *second, spec.timeout_seconds, m);
  if (m.status == Status::kOk) channel.note_confirmed(task, code);
  if (m.status != Status::kOk) m.failure = "right on the first data, but on data of a second seed: " + m.failure;
  return m;
}

// A batch on its way: compiled in any order, measured in the order asked. Where measuring has CPUs of its own the two
// go on side by side; else all is compiled first, and measuring has the machine to itself.
class Batch {
 public:
  using Channel = IsolatedHostMeasurer::Channel;
  Batch(IsolatedHostMeasurer& measurer, std::span<const Candidate> candidates)
      : measurer_(measurer),
        channel_(measurer.channel()),
        candidates_(candidates),
        compiled_(candidates.size()),
        ready_(candidates.size(), false) {}

  Result<std::vector<Measurement>> run() {
    overlap_ = channel_.share().divided() && candidates_.size() > 1;
    if (overlap_) {
      std::jthread measuring([this] { measure_all(); });
      compile_all();
    } else {
      compile_all();
      measure_all();
    }
    if (error_) return tl::make_unexpected(std::move(*error_));
    std::vector<Measurement> results;
    for (Compiled& c : compiled_) results.push_back(std::move(c.measurement));
    return results;
  }

 private:
  void compile_all() {
    auto compile = [&](int64_t i) {
      auto at = static_cast<size_t>(i);
      CpuShare::Compiling here(channel_.share());
      Compiled compiled = compile_candidate(candidates_[at]);
      std::lock_guard lock(mutex_);
      compiled_[at] = std::move(compiled);
      ready_[at] = true;
      changed_.notify_one();
    };
    parallel_for(channel_.options().compile_pool, std::ssize(candidates_), compile);
  }

  void measure_all() {
    for (size_t i = 0; i < candidates_.size() && !error_; ++i) {
      {
        std::unique_lock lock(mutex_);
        if (!ready_[i]) {
          channel_.share().end_measuring();  // nothing to measure: compiling may have every CPU
          changed_.wait(lock, [&] { return ready_[i]; });
        }
      }
      Result<void> done = measure_one(candidates_[i], compiled_[i]);
      if (!done) error_ = std::move(done).error();
    }
    channel_.share().end_measuring();
  }

  Result<void> measure_one(const Candidate& candidate, Compiled& compiled) {
    Measurement& m = compiled.measurement;
    m.threads = channel_.threads();
    m.overlap = overlap_;
    m.device = channel_.device();
    if (m.status != Status::kOk) return {};
    const MeasureTask& task = *candidate.task;
    if (const Measurement* twin = candidate.run != 0 ? channel_.twin_of(candidate.run, task.id(), m) : nullptr) {
      const Measurement own = std::exchange(m, *twin);
      m.id = own.id;
      m.compile_seconds = own.compile_seconds;
      m.run_seconds = 0;
      m.twin = true;
      return {};
    }
    const HostMeasureOptions& options = channel_.options();
    Channel::JobSpec spec;
    spec.artifacts = {compiled.artifact.get()};
    spec.task = &task.segment().memory;
    spec.task_id = task.id();
    spec.threads = channel_.threads();
    spec.budget_seconds = options.budget_seconds;
    spec.patience_seconds = options.budget_seconds * options.patience * (candidate.finalist ? kFinalistPatience : 1);
    spec.timeout_seconds = timeout_for(task, options, std::max(options.budget_seconds, spec.patience_seconds));
    const double best = channel_.best_of(task.id());
    spec.best_seconds = candidate.finalist ? 0 : best;
    Stopwatch watch;
    channel_.share().begin_measuring();
    TCC_TRY(FinishedJob job, channel_.run(spec));
    m.run_seconds = watch.seconds();
    read_result(job, *compiled.artifact, task, spec.timeout_seconds, m);
    if (m.status != Status::kOk) return {};
    read_samples(job.result(), m);
    if (best <= 0 || m.median < best) TCC_TRY_VOID(crown(candidate, compiled));
    if (candidate.run != 0) channel_.note_measured(task.id(), m);
    return {};
  }

  // It is the fastest of its task so far: is it right?
  Result<void> crown(const Candidate& candidate, Compiled& compiled) {
    Measurement& m = compiled.measurement;
    Stopwatch watch;
    TCC_TRY(Measurement second, confirm(measurer_, candidate, compiled));
    m.run_seconds += watch.seconds();
    if (second.status == Status::kOk) {
      channel_.note_time(candidate.task->id(), m.median);
      return {};
    }
    disqualify(m, second);
    return {};
  }

  IsolatedHostMeasurer& measurer_;
  Channel& channel_;
  std::span<const Candidate> candidates_;
  std::vector<Compiled> compiled_;
  std::vector<bool> ready_;  // guarded by mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> error_;  // of the measuring thread; read when it has ended
  bool overlap_ = false;
};

}  // namespace

Result<std::unique_ptr<IsolatedHostMeasurer>> IsolatedHostMeasurer::create(const HostMeasureOptions& options) {
  TCC_TRY(std::unique_ptr<Channel> channel, Channel::open(options));
  return std::unique_ptr<IsolatedHostMeasurer>(new IsolatedHostMeasurer(std::move(channel)));
}

IsolatedHostMeasurer::IsolatedHostMeasurer(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}
IsolatedHostMeasurer::~IsolatedHostMeasurer() = default;
const HostMeasureOptions& IsolatedHostMeasurer::options() const {
  return channel_->options();
}
int IsolatedHostMeasurer::worker_pid() const {
  return channel_->worker_pid();
}
int64_t IsolatedHostMeasurer::restarts() const {
  return channel_->restarts();
}
std::vector<std::string> IsolatedHostMeasurer::notes() const {
  return channel_->notes();
}

Result<std::shared_ptr<const MeasureTask>> IsolatedHostMeasurer::prepare(const ir::Kernel& naive,
                                                                         const target::Target& target) {
  return MeasureTask::create(*this, naive, target, {});
}

void IsolatedHostMeasurer::compile(std::span<Candidate> candidates) {
  parallel_for(options().compile_pool, std::ssize(candidates), [&](int64_t i) {
    Candidate& c = candidates[static_cast<size_t>(i)];
    c.artifact = compile_candidate(c).artifact;
  });
}

Result<std::vector<Measurement>> IsolatedHostMeasurer::measure(std::span<const Candidate> candidates) {
  return Batch(*this, candidates).run();
}

Result<PairedComparison> IsolatedHostMeasurer::compare(const Candidate& a, const Candidate& b, PairAim aim) {
  TCC_CHECK(a.task && a.task == b.task, "a pair is of one task");
  PairedComparison comparison;
  Compiled compiled[2] = {compile_candidate(a), compile_candidate(b)};
  for (const Compiled& c : compiled) {
    if (c.measurement.status == Status::kOk) continue;
    comparison.failure = c.measurement.failure;
    return comparison;
  }
  for (int i = 0; i < 2; ++i) {
    TCC_TRY(Measurement second, confirm(*this, i == 0 ? a : b, compiled[i]));
    if (second.status == Status::kOk) continue;
    comparison.failure = second.failure;
    return comparison;
  }
  PairTally tally(aim);
  // In every other process B is loaded first.
  for (int process = 0; process < kPairedProcesses && tally.open(); ++process) {
    bool swapped = process % 2 == 1;
    Channel::JobSpec spec;
    spec.kind = JobKind::kPaired;
    spec.artifacts = {compiled[swapped].artifact.get(), compiled[!swapped].artifact.get()};
    spec.task = &a.task->segment().memory;
    spec.task_id = a.task->id();
    spec.threads = channel_->threads();
    spec.budget_seconds = options().budget_seconds;
    spec.patience_seconds = options().budget_seconds;  // both sides see the same machine
    spec.timeout_seconds = timeout_for(*a.task, options(), 10 * options().budget_seconds + spec.patience_seconds);
    TCC_TRY(FinishedJob job, channel_->run(spec));
    Measurement m;
    read_result(job, *spec.artifacts[0], *a.task, spec.timeout_seconds, m);
    if (m.status != Status::kOk) {
      comparison.failure = m.failure;
      return comparison;
    }
    tally.add(job.result(), swapped);
  }
  return tally.close();
}

}  // namespace tcc::measure
