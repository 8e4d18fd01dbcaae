#include "measure/cuda/executor.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "tcc/codegen/cuda.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"
#include "tcc/measure/task.h"
#include "tcc/support/text.h"

namespace tcc::measure {
namespace {

constexpr int64_t kAtOnce = 32;       // candidates
constexpr double kStartSeconds = 60;  // a context on a machine with many devices takes its time
// A program is measured in hundredths of a second, beside which the whole reference of more arithmetic takes too long.
constexpr double kSampleAboveFlops = 2e8, kSampleAboveInterpreted = 1e8;
constexpr int kHangsForgiven = 1;  // of a task, before its asynchronous copies are given up
// A wait that lasts longer will not end: the kernel traps, which is kinder to the driver than a process that is killed.
constexpr int64_t kWaitLimit = 2'000'000'000;  // ns
constexpr int kLaunchFailed = 719;             // the driver's number for a trap, among others
constexpr const char* kGoOn =
    "what was measured is in the store: give the same command again when the device is back, and tuning goes on "
    "(nvidia-smi and dmesg tell its state)";

Result<GpuDevice> device_of(const GpuHello& hello) {
  GpuDevice device;
  device.name = hello.name;
  device.uuid = hello.uuid;
  device.driver_version = static_cast<int>(hello.driver_version);
  device.memory_bytes = hello.memory_bytes;
  device.takes_ptx_only = hello.takes_ptx_only;
  TCC_TRY(device.target, target::target_from_json(hello.target));
  return device;
}

// Does the program wait for copies that run beside it? A mistake in that is what hangs.
bool is_asynchronous(const ir::Instruction& in) {
  using ir::Behaviour;
  if (in.completion != ir::Completion::kImmediate) return true;
  constexpr Behaviour kOfCopies[] = {Behaviour::kCopyCommit,   Behaviour::kCopyWait,       Behaviour::kCopyWaitRead,
                                     Behaviour::kMbarrierInit, Behaviour::kMbarrierArrive, Behaviour::kMbarrierExpectTx,
                                     Behaviour::kMbarrierWait, Behaviour::kWgmmaCommit,    Behaviour::kWgmmaWait};
  return std::find(std::begin(kOfCopies), std::end(kOfCopies), in.behaviour) != std::end(kOfCopies);
}
bool copies_asynchronously(const ir::Kernel& kernel) {
  bool found = false;
  if (kernel.root == nullptr) return false;
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
  TCC_TRY_VOID(codegen::check_cuda_architecture(device.target));
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

}  // namespace

Result<GpuDevice> CudaExecutor::connect() {
  TCC_TRY(worker_, find_worker(options_.worker_path));
  const std::vector<std::string> arguments = {"--device", std::to_string(options_.device), options_.driver_library,
                                              options_.cupti_library, options_.sandbox ? "sandbox" : ""};
  TCC_TRY_VOID(link_.start(worker_, arguments, kStartSeconds));
  std::string bytes(kGpuHelloBytes, 0);
  const int64_t got = link_.wait(kStartSeconds) ? link_.receive(bytes.data(), bytes.size()) : 0;
  if (got <= 0) {
    link_.end();
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("the CUDA driver did not come up: its process ended with {}",
                                  link_.ending().empty() ? "no answer" : link_.ending()),
                      "nvidia-smi tells the state of driver and devices");
  }
  Reader reader({bytes.data(), static_cast<size_t>(got)});
  GpuHello hello = get_gpu_hello(reader);
  if (!reader.ok()) return environment_error("the worker '{}' sent a damaged greeting", worker_);
  if (!hello.ok) {
    link_.stop();
    return make_error(ErrorClass::kEnvironment, hello.message, hello.hint);
  }
  return device_of(hello);
}

Result<void> CudaExecutor::start() {
  TCC_TRY(device_, connect());
  // Compiling takes many times as long as measuring and runs beside it on all cores, so a call takes many candidates,
  // those of several tasks: rounds are of 8 where the trials are few.
  facts_.traits = {.at_once = 32, .tasks_at_once = 4, .compares = true, .prepares_beside = true};
  facts_.device = std::make_shared<DeviceFacts>(
      DeviceFacts{target::sm_name(device_.target), target::target_to_json(device_.target)});
  facts_.name = device_.name;
  facts_.sample_above_flops = resolve_engine(ReferenceEngine::kBest) == ReferenceEngine::kInterpreter
                                  ? kSampleAboveInterpreted
                                  : kSampleAboveFlops;
  facts_.cold = true;
  facts_.compiles_beside = options_.compile_pool != nullptr;
  facts_.budget_seconds = options_.budget_seconds;
  facts_.patience = options_.patience;
  facts_.compile_pool = options_.compile_pool;
  return {};
}

Result<void> CudaExecutor::check_task(const ir::Kernel& naive) const {
  int64_t bytes = 0;
  for (const ir::Buffer* buffer : naive.buffers) {
    if (buffer->role == ir::BufferRole::kTemp) continue;
    int64_t size = ir::type_bytes(buffer->type);
    for (ir::Expr extent : buffer->shape) size *= ir::int_value(extent);
    bytes += size;
  }
  if (bytes <= device_.memory_bytes) return {};
  return make_error(ErrorClass::kEnvironment,
                    fmt::format("its tensors take {}, and {} has {}", format_bytes(static_cast<double>(bytes)),
                                device_.name, format_bytes(static_cast<double>(device_.memory_bytes))),
                    "use a smaller batch or image, or a device with more memory");
}

Result<codegen::Artifact> CudaExecutor::compile(const ir::Kernel& lowered, const target::Target& target) {
  codegen::CudaOptions options;
  options.want_ptx = device_.takes_ptx_only;
  // An emulated device knows by itself that nobody will come.
  if (!device_.takes_ptx_only) options.wait_limit = kWaitLimit;
  return codegen::compile_cuda(lowered, target, options);
}

double CudaExecutor::timeout_of(const MeasureTask&, double timing) const {
  return std::max(options_.timeout_seconds, 2 * timing);
}

std::string CudaExecutor::refusal(const Candidate& candidate) const {
  auto found = hangs_.find(candidate.task->id());
  if (found == hangs_.end() || found->second <= kHangsForgiven || !copies_asynchronously(candidate.kernel)) return "";
  return "hangs: programs with asynchronous copies did not end twice, and are not tried any more for this task";
}

void CudaExecutor::learn(const Candidate& candidate, const FinishedJob& job, Measurement& m) {
  note(job.result().note.data());
  const bool trapped = m.status == record::Status::kCrashed && job.result().driver_error == kLaunchFailed &&
                       copies_asynchronously(candidate.kernel);
  if (trapped)
    m.failure += fmt::format("; a wait for a copy may have lasted longer than {} s, after which it traps",
                             kWaitLimit / 1'000'000'000);
  if (!trapped && m.status != record::Status::kHung) return;
  if (++hangs_[candidate.task->id()] == kHangsForgiven + 1)
    note(fmt::format(
        "{} programs of a task did not end on {}: no further ones with asynchronous copies are tried for it",
        kHangsForgiven + 1, device_.name));
}

void CudaExecutor::note(const std::string& lines) {
  std::lock_guard lock(mutex_);
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);)
    if (std::find(notes_.begin(), notes_.end(), line) == notes_.end()) notes_.push_back(line);
}

std::vector<std::string> CudaExecutor::notes() const {
  std::lock_guard lock(mutex_);
  return notes_;
}

Result<void> CudaExecutor::ensure_started() {
  if (link_.running()) return {};
  Result<GpuDevice> again = connect();
  if (again) return {};
  Error error = std::move(again).error();
  if (restarts_ == 0) return tl::make_unexpected(std::move(error));
  error.message = "the device was lost while tuning: " + error.message;
  error.notes.push_back(error.hint);
  error.hint = kGoOn;
  return tl::make_unexpected(std::move(error));
}

Result<FinishedJob> CudaExecutor::run(const JobSpec& spec) {
  FinishedJob job;
  TCC_TRY(job.memory, make_job(spec));
  job.header().max_copies = options_.max_copies;
  JobMessage message;
  message.task = spec.task_id;
  message.job_bytes = job.memory.bytes();
  message.task_bytes = spec.task->bytes();
  message.timeout_seconds = spec.timeout_seconds;
  bool sent = false;
  // A worker that died between jobs did so for no fault of this program.
  for (int attempt = 0; attempt < 2 && !sent; ++attempt) {
    TCC_TRY_VOID(ensure_started());
    message.job = next_job_++;
    sent = link_.send_job(message, job.memory.fd(), spec.task->fd());
    if (!sent) link_.stop(), ++restarts_;
  }
  if (!sent) return environment_error("the worker '{}' ends as soon as it has started", worker_);

  bool answered = link_.wait(spec.timeout_seconds);
  if (!answered && job.result().phase == Phase::kTiming) answered = link_.wait(spec.timeout_seconds);
  ReplyMessage reply;
  if (!answered)
    job.end = FinishedJob::End::kTimedOut;
  else if (link_.receive(&reply, sizeof reply) != sizeof reply || reply.job != message.job)
    job.end = FinishedJob::End::kDied;
  if (job.end == FinishedJob::End::kAnswered) {
    if (reply.started) return job;
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("the measuring process cannot map a job: {}", std::strerror(reply.error)),
                      "free memory, or raise the limits on memory and open files (ulimit -v, -n)");
  }
  answered ? link_.stop() : link_.end();
  ++restarts_;
  job.failure =
      job.result().status == ChildStatus::kCrashed
          ? std::string(job.result().text.data())
          : fmt::format("ended the device's process ({})", link_.ending().empty() ? "no trace" : link_.ending());
  return job;
}

Result<GpuDevice> find_gpu(const GpuMeasureOptions& options) {
  CudaExecutor executor(options);
  TCC_TRY_VOID(executor.start());
  return executor.device();
}

Result<std::unique_ptr<GpuMeasurer>> GpuMeasurer::create(IsolatedHostMeasurer& references,
                                                         const GpuMeasureOptions& options) {
  auto executor = std::make_unique<CudaExecutor>(options);
  TCC_TRY_VOID(executor->start());
  TCC_TRY_VOID(check_versions(executor->device()));
  CudaExecutor& seen = *executor;
  return std::unique_ptr<GpuMeasurer>(new GpuMeasurer(std::move(executor), seen, references));
}
GpuMeasurer::GpuMeasurer(std::unique_ptr<CudaExecutor> executor, CudaExecutor& seen, IsolatedHostMeasurer& references)
    : Coordinator(std::move(executor), references), executor_(seen) {}
const GpuDevice& GpuMeasurer::device() const {
  return executor_.device();
}

}  // namespace tcc::measure
