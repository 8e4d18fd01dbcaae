#include "measure/host/executor.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "measure/verdict.h"
#include "tcc/codegen/llvm.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"

namespace tcc::measure {
namespace {

constexpr double kStartSeconds = 30;
constexpr double kSpareSeconds = 30;  // for fork, link and kill, beyond the job's own limits
constexpr double kSlowest = 20;       // a candidate this many times slower than the reference is of no interest
constexpr double kMinTimeout = 2;

// Of a child that a signal ended.
void describe_fault(int signal, const codegen::Artifact* artifact, FinishedJob& job) {
  const Fault& fault = job.result().fault;
  job.failure = fmt::format("signal {} ({})", signal, sigabbrev_np(signal) ? sigabbrev_np(signal) : "unknown");
  if (fault.signal == 0) return;
  job.failure += fmt::format(" at address {:#x}", fault.address);
  if (artifact == nullptr || fault.buffer < 0 || fault.buffer >= std::ssize(artifact->buffers)) return;
  const codegen::BufferInfo& info = artifact->buffers[static_cast<size_t>(fault.buffer)];
  const std::string buffer = buffer_text(fault.buffer, *artifact);
  if (fault.offset < 0) {
    job.failure += fmt::format(", {} bytes before {}", -fault.offset, buffer);
  } else if (fault.offset >= info.bytes) {
    job.failure += fmt::format(", {} bytes beyond the end of {}", fault.offset - info.bytes, buffer);
  } else if (info.role == ir::BufferRole::kInput || info.role == ir::BufferRole::kWeight) {
    job.status = record::Status::kWrong;
    job.failure = fmt::format("writes to its input, {} at byte {}", buffer, fault.offset);
  }
}

// How the job ended, from what the zygote says of its child.
void read_reply(const ReplyMessage& reply, const JobSpec& spec, FinishedJob& job) {
  if (reply.timed_out != 0) {
    job.end = FinishedJob::End::kTimedOut;
  } else if (reply.wait_code != CLD_EXITED) {
    job.end = FinishedJob::End::kDied;
    const auto faulty = static_cast<size_t>(job.result().fault.artifact);
    describe_fault(reply.wait_status, faulty < spec.artifacts.size() ? spec.artifacts[faulty] : nullptr, job);
  } else if (reply.wait_status != 0) {
    job.end = FinishedJob::End::kDied;
    job.failure = fmt::format("the measuring process ended with exit code {}", reply.wait_status);
  }
}

}  // namespace

Result<std::unique_ptr<HostExecutor>> HostExecutor::open(const HostMeasureOptions& options) {
  std::unique_ptr<HostExecutor> executor(new HostExecutor(options));
  TCC_TRY(executor->worker_, find_worker(options.worker_path));
  TCC_TRY_VOID(executor->choose_cpus());
  TCC_TRY_VOID(executor->start());
  return executor;
}

Result<void> HostExecutor::start() {
  return link_.start(worker_, {"--serve"}, kStartSeconds);
}

Result<codegen::Artifact> HostExecutor::compile(const ir::Kernel& lowered, const target::Target& target) {
  CpuShare::Compiling here(share_);
  return codegen::compile_host(lowered, target);
}

// `timing`: what the timed runs may take; the watchdog must not mistake them for a hang.
double HostExecutor::timeout_of(const MeasureTask& task, double timing) const {
  const double naive = task.facts().naive_seconds;
  const double wanted = std::max(kMinTimeout, kSlowest * naive);
  return std::max(std::min(wanted, std::max(options_.timeout_seconds, 2 * naive)), 2 * timing);
}

Result<void> HostExecutor::choose_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return environment_error("cannot read this process's CPUs: {}", std::strerror(errno));
  std::vector<int> all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) all.push_back(cpu);
  for (int cpu : options_.cpus) {
    if (std::find(all.begin(), all.end(), cpu) == all.end()) {
      notes_.push_back(fmt::format("CPU {} may not be used by this process; measuring goes on without it", cpu));
    } else {
      cpus_.push_back(cpu);
    }
  }
  if (!options_.cpus.empty() && cpus_.empty())
    return make_error(ErrorClass::kEnvironment, "none of the CPUs asked for measuring may be used by this process",
                      "name CPUs of the process's affinity mask");
  if (options_.cpus.empty()) cpus_ = all;
  constexpr size_t kMaxCpus = std::tuple_size_v<decltype(JobHeader::cpus)>;
  if (cpus_.size() > kMaxCpus) {
    notes_.push_back(fmt::format("measuring uses the first {} CPUs only", kMaxCpus));
    cpus_.resize(kMaxCpus);
  }
  if (options_.threads > static_cast<int>(cpus_.size()))
    notes_.push_back(fmt::format("{} threads are measured on {} CPUs: times will be those of a crowded machine",
                                 options_.threads, cpus_.size()));
  // Asking for the mask that is there already: a system that refuses this refuses every other one.
  bool may_bind = sched_setaffinity(0, sizeof allowed, &allowed) == 0;
  if (!may_bind)
    notes_.push_back(
        fmt::format("threads may not be bound to CPUs here ({}): programs are measured wherever the system puts them, "
                    "never while others compile, and times are less sure",
                    std::strerror(errno)));
  const int threads = options_.threads > 0 ? options_.threads : static_cast<int>(cpus_.size());
  // A quota of CPU time counts as well: of two CPUs at half time one cannot measure while the other compiles.
  const target::Target host = target::host_target();
  share_.divide(cpus_, threads, may_bind && host.cpu.cores > threads);
  const target::Target& device = options_.device ? *options_.device : host;
  facts_.traits.compares = true;
  facts_.device = std::make_shared<DeviceFacts>(
      DeviceFacts{target::isa_level_name(target::isa_level(device)), target::target_to_json(device)});
  facts_.name = device.name;
  facts_.threads = threads;
  facts_.cold = options_.cold_weights;
  facts_.compiles_beside = share_.divided();
  facts_.budget_seconds = options_.budget_seconds;
  facts_.patience = options_.patience;
  facts_.compile_pool = options_.compile_pool;
  return {};
}

Result<SharedMemory> HostExecutor::make_host_job(const JobSpec& spec) {
  TCC_TRY(SharedMemory memory, make_job(spec));
  auto* header = reinterpret_cast<JobHeader*>(memory.data());
  const bool reference = spec.kind == JobKind::kReference;
  const std::vector<int>& cpus = reference ? cpus_ : share_.measure_cpus();
  header->threads = reference ? static_cast<int>(cpus_.size()) : static_cast<int>(facts_.threads);
  header->num_cpus = static_cast<int32_t>(cpus.size());
  std::copy(cpus.begin(), cpus.end(), header->cpus.begin());
  header->quiet = quiet_;
  header->sandbox = options_.sandbox && !reference ? 1 : 0;
  header->cold_weights = options_.cold_weights && !reference ? 1 : 0;
  header->memory_limit_bytes = options_.memory_limit_bytes;
  header->cpu_limit_seconds = (2 * spec.timeout_seconds + kSpareSeconds) * header->threads;
  return memory;
}

bool HostExecutor::exchange(const JobSpec& spec, const SharedMemory& job, ReplyMessage& reply) {
  JobMessage message;
  message.job = next_job_++;
  message.task = spec.task_id;
  message.job_bytes = job.bytes();
  message.task_bytes = spec.task->bytes();
  message.timeout_seconds = spec.timeout_seconds;
  return link_.send_job(message, job.fd(), spec.task->fd()) && link_.wait(2 * spec.timeout_seconds + kSpareSeconds) &&
         link_.receive(&reply, sizeof reply) == sizeof reply && reply.magic == kMagic && reply.job == message.job;
}

Result<FinishedJob> HostExecutor::run(const JobSpec& spec) {
  std::lock_guard lock(mutex_);
  if (spec.kind != JobKind::kReference) share_.begin_measuring();
  FinishedJob finished;
  ReplyMessage reply;
  for (int attempt = 0; attempt < 2; ++attempt) {
    TCC_TRY(finished.memory, make_host_job(spec));
    if (link_.running() && exchange(spec, finished.memory, reply)) {
      if (!reply.started)
        return make_error(ErrorClass::kEnvironment,
                          fmt::format("cannot fork a measuring process: {}", std::strerror(reply.error)),
                          "free memory, or raise the limit on processes");
      read_reply(reply, spec, finished);
      if (finished.end == FinishedJob::End::kAnswered) quiet_.learn(finished.result().quiet);
      return finished;
    }
    link_.stop();
    TCC_TRY_VOID(start());
    ++restarts_;
  }
  finished.end = FinishedJob::End::kDied;
  finished.failure = "ended the measuring process twice";
  return finished;
}

Result<std::unique_ptr<IsolatedHostMeasurer>> IsolatedHostMeasurer::create(const HostMeasureOptions& options) {
  TCC_TRY(std::unique_ptr<HostExecutor> executor, HostExecutor::open(options));
  HostExecutor& seen = *executor;
  return std::unique_ptr<IsolatedHostMeasurer>(new IsolatedHostMeasurer(std::move(executor), seen));
}
IsolatedHostMeasurer::IsolatedHostMeasurer(std::unique_ptr<HostExecutor> executor, HostExecutor& seen)
    : Coordinator(std::move(executor), *this), executor_(seen) {}
const HostMeasureOptions& IsolatedHostMeasurer::options() const {
  return executor_.options();
}

}  // namespace tcc::measure
