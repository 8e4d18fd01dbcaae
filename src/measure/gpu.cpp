#include "tcc/measure/gpu.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "measure/gpu_link.h"
#include "measure/task_segment.h"
#include "measure/verdict.h"
#include "tcc/codegen/cuda.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::measure {
namespace {

using record::Status;

constexpr int kHangsForgiven = 1;        // of a task, before its asynchronous copies are given up
constexpr double kFinalistPatience = 2;  // times that of others
// A wait that lasts longer will not end: the kernel traps, which is kinder to the driver than a process that is killed.
constexpr int64_t kWaitLimit = 2'000'000'000;  // ns
constexpr int kLaunchFailed = 719;             // the driver's number for a trap, among others
constexpr size_t kKeptPrograms = 256;          // of which the code is kept, so that a final compiles nothing again

// Does the program wait for copies that run beside it? A mistake in that is what hangs.
bool is_asynchronous(const ir::Instruction& in) {
  using ir::Behaviour;
  if (in.completion != ir::Completion::kImmediate) return true;
  constexpr Behaviour kOfCopies[] = {Behaviour::kCopyCommit,     Behaviour::kCopyWait,         Behaviour::kMbarrierInit,
                                     Behaviour::kMbarrierArrive, Behaviour::kMbarrierExpectTx, Behaviour::kMbarrierWait,
                                     Behaviour::kWgmmaCommit,    Behaviour::kWgmmaWait};
  return std::find(std::begin(kOfCopies), std::end(kOfCopies), in.behaviour) != std::end(kOfCopies);
}
bool copies_asynchronously(const ir::Kernel& kernel) {
  bool found = false;
  ir::visit(kernel.root, [&](ir::Stmt s) {
    const auto* call = ir::as<ir::InstrCall>(s);
    found = found || (call != nullptr && is_asynchronous(ir::instruction(call->instr)));
    return !found;
  });
  return found;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// Machine code of a newer major version of CUDA does not load.
Result<void> check_versions(const GpuDevice& device) {
  const auto version = codegen::nvrtc_version();
  if (!version) {
    Error error = version.error();
    if (error.hint.empty())
      error.hint = "install NVRTC, of the CUDA Toolkit or by itself, in a version that the driver is for or older";
    return tl::make_unexpected(std::move(error));
  }
  const std::string& nvrtc = *version;
  const int major = std::atoi(nvrtc.c_str());
  if (device.takes_ptx_only || device.driver_version == 0 || device.driver_version / 1000 >= major) return {};
  return make_error(
      ErrorClass::kEnvironment,
      fmt::format("the NVIDIA driver of {} is for CUDA {} and older than the compiler, NVRTC {}: it cannot load what "
                  "that makes",
                  device.name, version_text(device.driver_version), nvrtc),
      fmt::format("install a driver for CUDA {} or newer, or NVRTC {}", major, device.driver_version / 1000));
}

struct Compiled {
  std::shared_ptr<const codegen::Artifact> artifact;
  Measurement measurement;
  std::optional<Error> error;  // no candidate's fault
};

}  // namespace

class GpuMeasurer::Impl {
 public:
  Impl(IsolatedHostMeasurer& references, const GpuMeasureOptions& options)
      : references_(references), options_(options), link_(options) {}

  Result<void> start() {
    TCC_TRY(device_, link_.start());
    TCC_TRY_VOID(check_versions(device_));
    facts_ = std::make_shared<DeviceFacts>(
        DeviceFacts{target::sm_name(device_.target), target::target_to_json(device_.target)});
    return {};
  }

  Result<std::shared_ptr<const MeasureTask>> prepare(const ir::Kernel& naive, const target::Target& target);
  void compile_all(std::span<Candidate> candidates) {
    parallel_for(options_.compile_pool, std::ssize(candidates), [&](int64_t i) {
      Candidate& c = candidates[static_cast<size_t>(i)];
      c.artifact = compile(c).artifact;
    });
  }
  Result<std::vector<Measurement>> measure(std::span<const Candidate> candidates);
  Result<PairedComparison> compare(const Candidate& a, const Candidate& b, PairAim aim);

  const GpuDevice& device() const { return device_; }
  GpuLink& link() { return link_; }
  std::vector<std::string> notes() const {
    std::lock_guard lock(mutex_);
    return notes_;
  }

 private:
  Compiled compile(const Candidate& candidate);
  Result<void> measure_one(const Candidate& candidate, Compiled& compiled);
  Result<Measurement> confirm(const Candidate& candidate, const Compiled& compiled);
  // Errors: what no candidate is to blame for.
  Result<void> judge(const GpuJob& job, const MeasureTask& task, double timeout, Measurement& m);
  void note_hang(const MeasureTask& task);
  void note_once(const std::string& lines);
  bool closed(const Candidate& candidate) const {
    auto found = hangs_.find(candidate.task->id());
    return found != hangs_.end() && found->second > kHangsForgiven && candidate.kernel.root != nullptr &&
           copies_asynchronously(candidate.kernel);
  }
  GpuLink::JobSpec spec_of(JobKind kind, const MeasureTask& task, double patience) const {
    GpuLink::JobSpec spec;
    spec.kind = kind;
    spec.task = &task.segment().memory;
    spec.task_id = task.id();
    spec.budget_seconds = options_.budget_seconds;
    spec.patience_seconds = options_.budget_seconds * patience;
    spec.timeout_seconds = std::max(options_.timeout_seconds, 2 * std::max(spec.budget_seconds, spec.patience_seconds));
    return spec;
  }

  IsolatedHostMeasurer& references_;
  const GpuMeasureOptions options_;
  GpuLink link_;
  GpuDevice device_;
  std::shared_ptr<const DeviceFacts> facts_;
  std::map<uint64_t, int> hangs_;                      // by task
  std::map<uint64_t, double> best_times_;              // by task
  std::set<std::pair<uint64_t, uint64_t>> confirmed_;  // programs (by code) that passed the second seed of their task
  mutable std::mutex mutex_;
  std::vector<std::string> notes_;                                         // guarded by mutex_
  std::map<uint64_t, std::shared_ptr<const codegen::Artifact>> programs_;  // by program; guarded by mutex_
};

Result<std::shared_ptr<const MeasureTask>> GpuMeasurer::Impl::prepare(const ir::Kernel& naive,
                                                                      const target::Target& target) {
  int64_t bytes = 0;
  for (const ir::Buffer* buffer : naive.buffers) {
    if (buffer->role == ir::BufferRole::kTemp) continue;
    int64_t size = ir::type_bytes(buffer->type);
    for (ir::Expr extent : buffer->shape) size *= ir::int_value(extent);
    bytes += size;
  }
  if (bytes > device_.memory_bytes)
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("its tensors take {}, and {} has {}", format_bytes(static_cast<double>(bytes)),
                                  device_.name, format_bytes(static_cast<double>(device_.memory_bytes))),
                      "use a smaller batch or image, or a device with more memory");
  return MeasureTask::create(references_, naive, target, {});
}

Compiled GpuMeasurer::Impl::compile(const Candidate& candidate) {
  Compiled c;
  Measurement& m = c.measurement;
  m.id = candidate.id;
  c.artifact = candidate.artifact;
  if (!c.artifact && candidate.nest != 0) {
    std::lock_guard lock(mutex_);
    if (auto kept = programs_.find(candidate.nest); kept != programs_.end()) c.artifact = kept->second;
  }
  if (!c.artifact) {
    TCC_CHECK(candidate.kernel.stage == ir::Stage::kLowered, "candidates are measured at Stage::Lowered");
    codegen::CudaOptions options;
    options.want_ptx = device_.takes_ptx_only;
    // An emulated device knows by itself that nobody will come.
    if (!device_.takes_ptx_only) options.wait_limit = kWaitLimit;
    Stopwatch watch;
    auto artifact = codegen::compile_cuda(candidate.kernel, candidate.task->target(), options);
    m.compile_seconds = watch.seconds();
    if (!artifact) {
      if (artifact.error().cls == ErrorClass::kEnvironment) c.error = artifact.error();
      m.status = Status::kCompileFailed;
      m.failure = artifact.error().message;
      return c;
    }
    c.artifact = std::make_shared<const codegen::Artifact>(std::move(*artifact));
    std::lock_guard lock(mutex_);
    if (programs_.size() >= kKeptPrograms) programs_.erase(programs_.begin());
    if (candidate.nest != 0) programs_[candidate.nest] = c.artifact;
  }
  m.code = hash_bytes(c.artifact->code);
  m.layouts = constant_layouts(*c.artifact);
  if (std::string mismatch = parameter_mismatch(*c.artifact, candidate.task->segment().description);
      !mismatch.empty()) {
    m.status = Status::kRejected;
    m.failure = mismatch;
  }
  return c;
}

Result<void> GpuMeasurer::Impl::judge(const GpuJob& job, const MeasureTask& task, double timeout, Measurement& m) {
  const WorkerResult& result = job.result();
  if (job.end == GpuJob::End::kTimedOut) {
    const bool first = result.phase != Phase::kTiming;
    m.status = first ? Status::kHung : Status::kTimedOut;
    m.failure = fmt::format("did not end {} within {:.1f} s", first ? "its first runs" : "its timed runs", timeout);
    if (first) note_hang(task);
    return {};
  }
  if (job.end == GpuJob::End::kWorkerDied) {
    m.status = Status::kCrashed;
    m.failure = result.status == ChildStatus::kCrashed
                    ? std::string(result.text.data())
                    : fmt::format("ended the device's process ({})", job.ending.empty() ? "no trace" : job.ending);
    return {};
  }
  m.max_error = result.max_error;
  m.where = result.where.data();
  switch (result.status) {
    case ChildStatus::kOk:
      m.status = Status::kOk;
      m.gate = result.exact_passed ? "exact" : "tolerance";
      if (task.facts().sampled) m.gate += " at samples";
      return {};
    case ChildStatus::kWrong:
      m.status = Status::kWrong;
      break;
    case ChildStatus::kFailed:
      m.status = Status::kCompileFailed;
      break;
    case ChildStatus::kCrashed:
      m.status = Status::kCrashed;
      break;
    case ChildStatus::kNoMemory:
      return make_error(ErrorClass::kEnvironment, fmt::format("{}: {}", device_.name, result.text.data()),
                        "end other programs on the device (nvidia-smi shows them), use a smaller batch, or another "
                        "device; what was measured is in the store, and the same command goes on from there");
  }
  m.failure = result.text.data();
  return {};
}

void GpuMeasurer::Impl::note_hang(const MeasureTask& task) {
  if (++hangs_[task.id()] != kHangsForgiven + 1) return;
  std::lock_guard lock(mutex_);
  notes_.push_back(
      fmt::format("{} programs of a task did not end on {}: no further ones with asynchronous copies are "
                  "tried for it",
                  kHangsForgiven + 1, device_.name));
}

void GpuMeasurer::Impl::note_once(const std::string& lines) {
  std::lock_guard lock(mutex_);
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);)
    if (std::find(notes_.begin(), notes_.end(), line) == notes_.end()) notes_.push_back(line);
}

// The gate on data of a second seed, which programs must pass before they are called the best or compared with it.
Result<Measurement> GpuMeasurer::Impl::confirm(const Candidate& candidate, const Compiled& compiled) {
  Measurement m;
  m.id = candidate.id;
  const std::pair<uint64_t, uint64_t> name{candidate.task->id(), compiled.measurement.code};
  if (confirmed_.contains(name)) return m;
  TCC_TRY(std::shared_ptr<const MeasureTask> second, candidate.task->second(references_));
  GpuLink::JobSpec spec = spec_of(JobKind::kCheck, *second, 0);
  spec.artifacts = {compiled.artifact.get()};
  TCC_TRY(GpuJob job, link_.run(spec));
  TCC_TRY_VOID(judge(job, *second, spec.timeout_seconds, m));
  if (m.status == Status::kOk)
    confirmed_.insert(name);
  else
    m.failure = "right on the first data, but on data of a second seed: " + m.failure;
  return m;
}

Result<void> GpuMeasurer::Impl::measure_one(const Candidate& candidate, Compiled& compiled) {
  if (compiled.error) return tl::make_unexpected(*compiled.error);
  Measurement& m = compiled.measurement;
  m.overlap = options_.compile_pool != nullptr;
  m.device = facts_;
  if (m.status != Status::kOk) return {};
  const MeasureTask& task = *candidate.task;
  if (closed(candidate)) {
    m.status = Status::kRejected;
    m.failure = "hangs: programs with asynchronous copies did not end twice, and are not tried any more for this task";
    return {};
  }
  GpuLink::JobSpec spec =
      spec_of(JobKind::kMeasure, task, options_.patience * (candidate.finalist ? kFinalistPatience : 1));
  spec.artifacts = {compiled.artifact.get()};
  auto known = best_times_.find(task.id());
  const double best = known == best_times_.end() ? 0 : known->second;
  spec.best_seconds = candidate.finalist ? 0 : best;
  spec.counts = candidate.finalist;
  Stopwatch watch;
  TCC_TRY(GpuJob job, link_.run(spec));
  TCC_TRY_VOID(judge(job, task, spec.timeout_seconds, m));
  note_once(job.result().note.data());
  const bool trapped = m.status == Status::kCrashed && job.result().driver_error == kLaunchFailed;
  if (trapped && candidate.kernel.root != nullptr && copies_asynchronously(candidate.kernel)) {
    note_hang(task);
    m.failure += fmt::format("; a wait for a copy may have lasted longer than {} s, after which it traps",
                             kWaitLimit / 1'000'000'000);
  }
  if (m.status == Status::kOk) {
    read_samples(job.result(), m);
    m.cold = true;
  }
  if (m.status == Status::kOk && (best <= 0 || m.median < best)) {
    TCC_TRY(Measurement second, confirm(candidate, compiled));
    if (second.status == Status::kOk)
      best_times_[task.id()] = m.median;
    else
      disqualify(m, second);
  }
  m.run_seconds = watch.seconds();
  return {};
}

Result<std::vector<Measurement>> GpuMeasurer::Impl::measure(std::span<const Candidate> candidates) {
  const auto count = static_cast<int64_t>(candidates.size());
  std::vector<Compiled> compiled(candidates.size());
  std::vector<bool> ready(candidates.size(), false);
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Error> error;  // of the measuring thread; read when it has ended
  {
    // In the order asked, each as soon as it is compiled.
    std::jthread measuring([&] {
      for (size_t i = 0; i < candidates.size() && !error; ++i) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return ready[i]; });
        lock.unlock();
        if (Result<void> done = measure_one(candidates[i], compiled[i]); !done) error = std::move(done).error();
      }
    });
    parallel_for(options_.compile_pool, count, [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      Compiled one = compile(candidates[at]);
      std::lock_guard lock(mutex);
      compiled[at] = std::move(one);
      ready[at] = true;
      changed.notify_one();
    });
  }
  if (error) return tl::make_unexpected(std::move(*error));
  std::vector<Measurement> results;
  for (Compiled& c : compiled) results.push_back(std::move(c.measurement));
  return results;
}

Result<PairedComparison> GpuMeasurer::Impl::compare(const Candidate& a, const Candidate& b, PairAim aim) {
  TCC_CHECK(a.task && a.task == b.task, "a pair is of one task");
  PairedComparison failed;
  Compiled compiled[2] = {compile(a), compile(b)};
  for (int i = 0; i < 2; ++i) {
    if (compiled[i].error) return tl::make_unexpected(*compiled[i].error);
    failed.failure = compiled[i].measurement.failure;
    if (compiled[i].measurement.status != Status::kOk) return failed;
    TCC_TRY(Measurement second, confirm(i == 0 ? a : b, compiled[i]));
    failed.failure = second.failure;
    if (second.status != Status::kOk) return failed;
  }
  PairTally tally(aim);
  // A context takes seconds to make, so the processes are one: what differs from turn to turn is where buffers and code
  // lie, and who is loaded first.
  for (int turn = 0; turn < kPairedProcesses && tally.open(); ++turn) {
    const bool swapped = turn % 2 == 1;
    GpuLink::JobSpec spec = spec_of(JobKind::kPaired, *a.task, 1);
    spec.artifacts = {compiled[swapped].artifact.get(), compiled[!swapped].artifact.get()};
    spec.timeout_seconds += 10 * spec.budget_seconds;
    TCC_TRY(GpuJob job, link_.run(spec));
    Measurement m;
    TCC_TRY_VOID(judge(job, *a.task, spec.timeout_seconds, m));
    failed.failure = m.failure;
    if (m.status != Status::kOk) return failed;
    tally.add(job.result(), swapped);
  }
  return tally.close();
}

Result<GpuDevice> find_gpu(const GpuMeasureOptions& options) {
  GpuLink link(options);
  return link.start();
}

Result<std::unique_ptr<GpuMeasurer>> GpuMeasurer::create(IsolatedHostMeasurer& references,
                                                         const GpuMeasureOptions& options) {
  auto impl = std::make_unique<Impl>(references, options);
  TCC_TRY_VOID(impl->start());
  return std::unique_ptr<GpuMeasurer>(new GpuMeasurer(std::move(impl)));
}

GpuMeasurer::GpuMeasurer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GpuMeasurer::~GpuMeasurer() = default;
const GpuDevice& GpuMeasurer::device() const {
  return impl_->device();
}
Result<std::shared_ptr<const MeasureTask>> GpuMeasurer::prepare(const ir::Kernel& naive, const target::Target& target) {
  return impl_->prepare(naive, target);
}
Result<std::vector<Measurement>> GpuMeasurer::measure(std::span<const Candidate> candidates) {
  return impl_->measure(candidates);
}
void GpuMeasurer::compile(std::span<Candidate> candidates) {
  impl_->compile_all(candidates);
}
Result<PairedComparison> GpuMeasurer::compare(const Candidate& a, const Candidate& b, PairAim aim) {
  return impl_->compare(a, b, aim);
}
int GpuMeasurer::worker_pid() const {
  return impl_->link().worker_pid();
}
int64_t GpuMeasurer::restarts() const {
  return impl_->link().restarts();
}
std::vector<std::string> GpuMeasurer::notes() const {
  return impl_->notes();
}

}  // namespace tcc::measure
