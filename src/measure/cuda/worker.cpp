#include "measure/cuda/worker.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "measure/check.h"
#include "measure/cuda/device_timing.h"
#include "measure/cuda/profile.h"
#include "measure/host/sandbox.h"
#include "measure/runner.h"
#include "measure/shared_memory.h"
#include "measure/task_buffers.h"
#include "measure/worker_link.h"
#include "tcc/ir/permute.h"
#include "tcc/support/files.h"
#include "tcc/target/target.h"

namespace tcc::measure {
namespace {

constexpr int kOutOfMemory = 2;        // the driver's number
constexpr int64_t kAlignment = 512;    // of a copy of a parameter
constexpr double kLongSeconds = 1e-3;  // a run that takes longer makes a sample by itself
constexpr int kDeviceGaveUp = 3;       // exit code
constexpr int64_t kReserveShare = 4;   // copies of parameters take at most a quarter of the free memory

class GpuProgram : public LoadedProgram {
 public:
  GpuProgram(runtime::CudaDevice& device, const codegen::Artifact& artifact, const TaskDescription& task,
             const std::byte* data)
      : device_(device), artifact_(artifact), task_(task), data_(data) {}

  // False: there is no memory for the task's own tensors, whatever the program.
  Result<bool> allocate(const GpuProgram* shared) {
    bool no_memory = false;
    auto placed = buffers_.place(artifact_, task_.params.size(), shared != nullptr ? &shared->buffers_ : nullptr,
                                 [&](const codegen::BufferInfo& info) {
                                   auto buffer = runtime::GuardedCudaBuffer::allocate(device_, info.bytes);
                                   no_memory = !buffer && device_.last_error() == kOutOfMemory;
                                   return buffer;
                                 });
    if (no_memory) return false;
    TCC_TRY_VOID(std::move(placed));
    addresses_.emplace_back();
    for (size_t i = 0; i < buffers_.size(); ++i) addresses_[0].push_back(buffers_[i].address());
    return true;
  }
  Result<void> load() {
    TCC_TRY(kernel_, device_.load(artifact_));
    return {};
  }

  Result<void> prepare(int64_t set) override {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (task_.params[i].is_output()) {
        TCC_TRY_VOID(device_.fill_at(buffers_[i].address(), buffers_[i].bytes(), poison_of(set)));
      } else {
        TCC_TRY_VOID(device_.upload_at(buffers_[i].address(), physical(i, set)));
      }
    }
    return kernel_->fill_workspace(poison_of(set));
  }
  Result<void> launch(int64_t copy) { return kernel_->launch(addresses_[static_cast<size_t>(copy)]); }
  Result<void> run() override {
    TCC_TRY_VOID(launch(0));
    return device_.synchronise();
  }

  Result<bool> check(int64_t set, WorkerResult& result) override {
    std::vector<std::vector<std::byte>> outputs(buffers_.size());
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (!task_.params[i].is_output()) continue;
      outputs[i].resize(static_cast<size_t>(buffers_[i].bytes()));
      TCC_TRY_VOID(device_.download_at(outputs[i], buffers_[i].address()));
    }
    auto logical = [&](size_t i, std::vector<std::byte>& scratch) {
      return buffers_.logical(i, task_.params[i], outputs[i], scratch);
    };
    if (!outputs_are_right(task_, data_, set, logical, result)) return false;
    TCC_TRY(const int64_t damaged, damaged_margin());
    if (!margins_are_intact(damaged, result)) return false;
    if (set > 0) return true;
    TCC_TRY(const int64_t written, written_input(set));
    if (written < 0) return true;
    result.status = ChildStatus::kWrong;
    set_text(result.text, fmt::format("writes to its input, parameter {}", written));
    return false;
  }

  // Copies of the parameters for timing, up to `most` and what memory there is to spare. All in one allocation: making
  // hundreds would take longer than timing.
  Result<DeviceProgram> with_copies(int64_t most) {
    auto room_of = [](const runtime::GuardedCudaBuffer& b) {
      return (b.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    };
    int64_t bytes = 0;
    for (size_t i = 0; i < buffers_.size(); ++i) bytes += room_of(buffers_[i]);
    TCC_TRY(const int64_t spare, device_.free_bytes());
    const int64_t copies = std::clamp<int64_t>(spare / kReserveShare / std::max<int64_t>(bytes, 1), 1, most);
    if (copies > 1) {
      TCC_TRY(copies_, device_.allocate((copies - 1) * bytes));
    }
    uint64_t at = copies_.address();
    for (int64_t c = 1; c < copies; ++c) {
      std::vector<uint64_t> addresses;
      for (size_t i = 0; i < buffers_.size(); ++i) {
        TCC_TRY_VOID(device_.copy_at(at, buffers_[i].address(), buffers_[i].bytes()));
        addresses.push_back(at);
        at += static_cast<uint64_t>(room_of(buffers_[i]));
      }
      addresses_.push_back(std::move(addresses));
    }
    return DeviceProgram{copies, [this](int64_t copy) { return launch(copy); }};
  }

 private:
  // An input's bytes as the artifact wants them.
  std::span<const std::byte> physical(size_t i, int64_t set) {
    const TaskParam& param = task_.params[i];
    const std::byte* from = data_ + param.sets[static_cast<size_t>(set)].data;
    const int64_t size = ir::type_bytes(param.type);
    const auto bytes = static_cast<size_t>(param.elements() * size);
    const ir::Layout* layout = buffers_.layout(i);
    if (layout == nullptr) return {from, bytes};
    scratch_.assign(static_cast<size_t>(buffers_[i].bytes()), std::byte{0});
    ir::to_physical(*layout, {from, bytes}, scratch_, size);
    return scratch_;
  }
  // The first buffer with something written beside it; -1: none.
  Result<int64_t> damaged_margin() const {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      TCC_TRY(const bool intact, buffers_[i].margins_intact());
      if (!intact) return static_cast<int64_t>(i);
    }
    for (size_t i = 0; i < kernel_->workspace().size(); ++i) {
      TCC_TRY(const bool intact, kernel_->workspace()[i].margins_intact());
      if (!intact) return static_cast<int64_t>(buffers_.size() + i);
    }
    return int64_t{-1};
  }
  // Device memory has no read-only pages: inputs are compared with what they were. -1: none was written.
  Result<int64_t> written_input(int64_t set) {
    std::vector<std::byte> now;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (task_.params[i].is_output()) continue;
      const std::span<const std::byte> before = physical(i, set);
      now.resize(before.size());
      TCC_TRY_VOID(device_.download_at(now, buffers_[i].address()));
      if (std::memcmp(now.data(), before.data(), now.size()) != 0) return static_cast<int64_t>(i);
    }
    return int64_t{-1};
  }

  runtime::CudaDevice& device_;
  const codegen::Artifact& artifact_;
  const TaskDescription& task_;
  const std::byte* data_;
  TaskBuffers<runtime::GuardedCudaBuffer> buffers_;
  runtime::CudaBuffer copies_;
  std::vector<std::vector<uint64_t>> addresses_;  // of each copy
  std::unique_ptr<runtime::CudaKernel> kernel_;
  std::vector<std::byte> scratch_;
};

// What the process keeps for all jobs.
struct Device {
  runtime::CudaDevice& device;
  DeviceProfiler& profiler;
  CacheFlush flush;
  std::unique_ptr<runtime::CudaClock> clock;
};

class GpuRunner : public Runner {
 public:
  explicit GpuRunner(Device& device) : device_(device) {}

  Result<LoadedProgram*> load(const codegen::Artifact& artifact, const TaskDescription& task, const std::byte* data,
                              WorkerResult& result) override {
    const GpuProgram* first = programs_.empty() ? nullptr : programs_[0].get();
    programs_.push_back(std::make_unique<GpuProgram>(device_.device, artifact, task, data));
    TCC_TRY(const bool room, programs_.back()->allocate(first));
    if (!room) {
      result.status = ChildStatus::kNoMemory;
      set_text(result.text, "the task's tensors do not fit the device's free memory");
      return nullptr;
    }
    TCC_TRY_VOID(programs_.back()->load());
    return programs_.back().get();
  }

  Result<void> time(const JobHeader& job, WorkerResult& result) override {
    TCC_TRY(const DeviceProgram program, programs_[0]->with_copies(most_copies(job)));
    TCC_TRY_VOID(time_on_device(program, timing_of(job), result));
    if (job.profile != 0) device_.profiler.profile(program, device_.flush, result);
    return {};
  }
  Result<void> time_pair(const JobHeader& job, WorkerResult& result) override {
    TCC_TRY(const DeviceProgram a, programs_[0]->with_copies(most_copies(job)));
    TCC_TRY(const DeviceProgram b, programs_[1]->with_copies(most_copies(job)));
    return time_pair_on_device(a, b, timing_of(job), result);
  }

 private:
  static int64_t most_copies(const JobHeader& job) {
    return job.result.last_run_seconds > kLongSeconds ? 1 : std::max<int64_t>(job.max_copies, 1);
  }
  // A run for checking includes waiting for the host, so its time says nothing.
  DeviceTiming timing_of(const JobHeader& job) {
    DeviceTiming timing{device_.device, *device_.clock, device_.flush, plan_of(job)};
    timing.plan.last_run_seconds = 0;
    return timing;
  }

  Device& device_;
  std::vector<std::unique_ptr<GpuProgram>> programs_;
};

void run_on_device(JobHeader& job, const std::byte* data, Device& device) {
  WorkerResult& result = job.result;
  result.phase = Phase::kLoading;
  GpuRunner runner(device);
  Result<void> done = run_job(job, data, runner);
  if (device.device.lost()) {
    result.status = ChildStatus::kCrashed;
    result.driver_error = device.device.last_error();
    set_text(result.text, done ? "the device gave up" : done.error().message);
    return;
  }
  if (!done) {
    result.status = ChildStatus::kFailed;
    set_text(result.text, done.error().message);
  }
  result.phase = Phase::kDone;
}

}  // namespace

int serve_gpu(int socket, const GpuService& service) {
  const auto& [ordinal, driver_library, cupti_library, sandbox] = service;
  prctl(PR_SET_NAME, "tcc-worker-gpu");
  signal(SIGINT, SIG_IGN);  // Ctrl-C is the coordinator's to handle; when it ends, the socket closes
  const Hello hello;
  if (send(socket, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) return 1;
  GpuHello facts;
  auto device = runtime::CudaDevice::open(ordinal, driver_library);
  Result<CacheFlush> flush = device ? CacheFlush::make(**device) : Result<CacheFlush>(CacheFlush());
  const Error* error = !device ? &device.error() : !flush ? &flush.error() : nullptr;
  if (error == nullptr) {
    const runtime::CudaDeviceFacts& f = (*device)->facts();
    facts.ok = true;
    facts.name = f.name;
    facts.uuid = f.uuid;
    facts.target = target::target_to_json((*device)->target());
    facts.driver_version = f.driver_version;
    facts.memory_bytes = f.memory_bytes;
    facts.takes_ptx_only = f.takes_ptx_only;
  } else {
    facts.message = error->message;
    facts.hint = error->hint;
  }
  Writer writer;
  put_gpu_hello(writer, facts);
  const std::string& bytes = writer.bytes();
  if (bytes.size() > kGpuHelloBytes || send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return 1;
  if (error != nullptr) return 1;
  const bool system = driver_library.empty() && !(*device)->facts().takes_ptx_only;
  DeviceProfiler profiler(**device, ordinal, cupti_library, !cupti_library.empty() || system);
  Device open{**device, profiler, std::move(*flush), runtime::CudaClock::open(**device)};
  // Drivers make files and processes while they start, not afterwards. A system without filters goes on without.
  if (sandbox) (void)enter_device_sandbox(socket);
  serve_jobs(socket, [&](const JobMessage&, JobHeader& job, const std::byte* task, ReplyMessage& reply) {
    run_on_device(job, task, open);
    // Nothing may be freed in a context that is lost; the system does it.
    if (open.device.lost()) _exit(kDeviceGaveUp);
    reply.started = 1;
    return true;
  });
  return 0;
}

}  // namespace tcc::measure
