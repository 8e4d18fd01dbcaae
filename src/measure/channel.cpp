#include "measure/channel.h"

#include <sched.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>

#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/target/target.h"

namespace tcc::measure {
namespace {

constexpr double kStartSeconds = 30;
constexpr double kSlackSeconds = 30;  // for fork, link and kill, beyond the job's own limits

}  // namespace

bool FinishedJob::exited() const {
  return reply.wait_code == CLD_EXITED && reply.wait_status == 0;
}

Result<std::unique_ptr<IsolatedHostMeasurer::Channel>> IsolatedHostMeasurer::Channel::open(
    const HostMeasureOptions& options) {
  std::unique_ptr<Channel> channel(new Channel(options));
  TCC_TRY(channel->worker_, find_worker(options.worker_path));
  TCC_TRY_VOID(channel->choose_cpus());
  TCC_TRY_VOID(channel->start());
  return channel;
}

Result<void> IsolatedHostMeasurer::Channel::start() {
  return link_.start(worker_, {"--serve"}, kStartSeconds);
}

Result<void> IsolatedHostMeasurer::Channel::choose_cpus() {
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
  constexpr size_t kMost = std::tuple_size_v<decltype(JobHeader::cpus)>;
  if (cpus_.size() > kMost) {
    notes_.push_back(fmt::format("measuring uses the first {} CPUs only", kMost));
    cpus_.resize(kMost);
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
  // A quota of CPU time counts as well: of two CPUs at half time one cannot measure while the other compiles.
  const target::Target host = target::host_target();
  const target::Target& device = options_.device ? *options_.device : host;
  device_ = std::make_shared<DeviceFacts>(
      DeviceFacts{target::isa_level_name(target::isa_level(device)), target::target_to_json(device)});
  bool spare = host.cpu.cores > threads();
  share_.divide(cpus_, threads(), may_bind && spare);
  return {};
}

double IsolatedHostMeasurer::Channel::best_of(uint64_t task) const {
  auto found = best_times_.find(task);
  return found == best_times_.end() ? 0 : found->second;
}

void IsolatedHostMeasurer::Channel::note_time(uint64_t task, double seconds) {
  auto [at, fresh] = best_times_.emplace(task, seconds);
  if (!fresh) at->second = std::min(at->second, seconds);
}

const Measurement* IsolatedHostMeasurer::Channel::twin_of(uint64_t run, uint64_t task, const Measurement& m) {
  if (run != run_) measured_.clear();
  run_ = run;
  auto at = measured_.find({task, m.code, m.layouts});
  return at != measured_.end() ? &at->second : nullptr;
}

void IsolatedHostMeasurer::Channel::note_measured(uint64_t task, const Measurement& m) {
  if (m.status == record::Status::kOk && !m.disturbed) measured_.insert_or_assign({task, m.code, m.layouts}, m);
}

Result<SharedMemory> IsolatedHostMeasurer::Channel::make_job(const JobSpec& spec) {
  Writer writer;
  for (const codegen::Artifact* artifact : spec.artifacts) put_artifact(writer, *artifact);
  int64_t payload = page_up(static_cast<int64_t>(sizeof(JobHeader)));
  int64_t outputs = page_up(payload + static_cast<int64_t>(writer.bytes().size()));
  TCC_TRY(SharedMemory memory, SharedMemory::create("tcc-job", outputs + spec.output_bytes));
  auto* header = new (memory.data()) JobHeader{};
  header->kind = spec.kind;
  header->threads = spec.threads;
  const std::vector<int>& cpus = spec.kind == JobKind::kReference ? cpus_ : share_.measure_cpus();
  header->num_cpus = static_cast<int32_t>(cpus.size());
  std::copy(cpus.begin(), cpus.end(), header->cpus.begin());
  header->budget_seconds = spec.budget_seconds;
  header->patience_seconds = spec.patience_seconds;
  header->quiet = quiet_;
  header->best_seconds = spec.best_seconds;
  header->memory_limit_bytes = options_.memory_limit_bytes;
  header->cpu_limit_seconds = (2 * spec.timeout_seconds + kSlackSeconds) * spec.threads;
  header->payload_offset = payload;
  header->payload_bytes = static_cast<int64_t>(writer.bytes().size());
  header->num_artifacts = static_cast<int32_t>(spec.artifacts.size());
  header->outputs_offset = outputs;
  std::memcpy(memory.data() + payload, writer.bytes().data(), writer.bytes().size());
  return memory;
}

bool IsolatedHostMeasurer::Channel::exchange(const JobSpec& spec, const SharedMemory& job, ReplyMessage& reply) {
  JobMessage message;
  message.job = next_job_++;
  message.task = spec.task_id;
  message.job_bytes = job.bytes();
  message.task_bytes = spec.task->bytes();
  message.timeout_seconds = spec.timeout_seconds;
  return link_.send_job(message, job.fd(), spec.task->fd()) && link_.wait(2 * spec.timeout_seconds + kSlackSeconds) &&
         link_.receive(&reply, sizeof reply) == sizeof reply && reply.magic == kMagic && reply.job == message.job;
}

Result<FinishedJob> IsolatedHostMeasurer::Channel::run(const JobSpec& spec) {
  std::lock_guard lock(mutex_);
  FinishedJob finished;
  for (int attempt = 0; attempt < 2; ++attempt) {
    TCC_TRY(finished.memory, make_job(spec));
    if (link_.running() && exchange(spec, finished.memory, finished.reply)) {
      if (!finished.reply.started)
        return make_error(ErrorClass::kEnvironment,
                          fmt::format("cannot fork a measuring process: {}", std::strerror(finished.reply.error)),
                          "free memory, or raise the limit on processes");
      if (finished.exited()) quiet_.learn(finished.result().quiet);
      return finished;
    }
    link_.stop();
    TCC_TRY_VOID(start());
    ++restarts_;
  }
  finished.worker_died = true;
  return finished;
}

}  // namespace tcc::measure
