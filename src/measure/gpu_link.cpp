#include "measure/gpu_link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "tcc/support/files.h"

namespace tcc::measure {
namespace {

constexpr double kStartSeconds = 60;  // a context on a machine with many devices takes its time
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

}  // namespace

Result<GpuDevice> GpuLink::start() {
  TCC_TRY(worker_, find_worker(options_.worker_path));
  const std::vector<std::string> arguments = {"--device", std::to_string(options_.device), options_.driver_library,
                                              options_.cupti_library};
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
  started_ = true;
  return device_of(hello);
}

Result<SharedMemory> GpuLink::make_job(const JobSpec& spec) {
  Writer writer;
  for (const codegen::Artifact* artifact : spec.artifacts) put_artifact(writer, *artifact);
  const int64_t payload = page_up(static_cast<int64_t>(sizeof(JobHeader)));
  TCC_TRY(SharedMemory memory, SharedMemory::create("tcc-job", payload + static_cast<int64_t>(writer.bytes().size())));
  auto* header = new (memory.data()) JobHeader{};
  header->kind = spec.kind;
  header->threads = 1;
  header->budget_seconds = spec.budget_seconds;
  header->patience_seconds = spec.patience_seconds;
  header->best_seconds = spec.best_seconds;
  header->max_copies = options_.max_copies;
  header->counts = spec.counts ? 1 : 0;
  header->payload_offset = payload;
  header->payload_bytes = static_cast<int64_t>(writer.bytes().size());
  header->num_artifacts = static_cast<int32_t>(spec.artifacts.size());
  std::memcpy(memory.data() + payload, writer.bytes().data(), writer.bytes().size());
  return memory;
}

Result<GpuJob> GpuLink::run(const JobSpec& spec) {
  GpuJob job;
  TCC_TRY(job.memory, make_job(spec));
  JobMessage message;
  message.task = spec.task_id;
  message.job_bytes = job.memory.bytes();
  message.task_bytes = spec.task->bytes();
  message.timeout_seconds = spec.timeout_seconds;
  bool sent = false;
  // A worker that died between jobs did so for no fault of this program.
  for (int attempt = 0; attempt < 2 && !sent; ++attempt) {
    if (!link_.running()) {
      auto device = start();
      if (!device) {
        Error error = std::move(device).error();
        if (restarts_ > 0 || attempt > 0) {
          error.message = "the device was lost while tuning: " + error.message;
          error.notes.push_back(error.hint);
          error.hint = kGoOn;
        }
        return tl::make_unexpected(std::move(error));
      }
    }
    message.job = next_job_++;
    sent = link_.send_job(message, job.memory.fd(), spec.task->fd());
    if (!sent) link_.stop(), ++restarts_;
  }
  if (!sent) return environment_error("the worker '{}' ends as soon as it has started", worker_);

  bool extended = false;
  while (!link_.wait(spec.timeout_seconds)) {
    if (!extended && job.result().phase == Phase::kTiming) {
      extended = true;
      continue;
    }
    job.end = GpuJob::End::kTimedOut;
    break;
  }
  ReplyMessage reply;
  if (job.end == GpuJob::End::kAnswered &&
      (link_.receive(&reply, sizeof reply) != sizeof reply || reply.job != message.job))
    job.end = GpuJob::End::kWorkerDied;
  if (job.end == GpuJob::End::kAnswered) {
    if (reply.started) return job;
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("the measuring process cannot map a job: {}", std::strerror(reply.error)),
                      "free memory, or raise the limits on memory and open files (ulimit -v, -n)");
  }
  if (job.end == GpuJob::End::kTimedOut)
    link_.end();
  else
    link_.stop();
  job.ending = link_.ending();
  ++restarts_;
  return job;
}

}  // namespace tcc::measure
