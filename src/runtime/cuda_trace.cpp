#include "tcc/runtime/cuda_trace.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "runtime/cupti_library.h"

namespace tcc::runtime {
namespace {

// The few functions of CUPTI that are needed, by their documented signatures: results and enumerations are ints.
using Request = void (*)(uint8_t** buffer, size_t* bytes, size_t* max_records);
using Complete = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes);
using GetVersion = int (*)(uint32_t* version);
using RegisterCallbacks = int (*)(Request request, Complete complete);
using Switch = int (*)(int kind);
using FlushAll = int (*)(uint32_t flag);
using GetNextRecord = int (*)(uint8_t* buffer, size_t valid_bytes, uint8_t** record);
using GetDropped = int (*)(void* context, uint32_t stream, size_t* dropped);

constexpr int kConcurrentKernel = 10;  // kind of record
constexpr uint32_t kForced = 1;        // flush what is not full, too
constexpr int kNoMoreRecords = 12;
// Of a kernel's record, the same in all versions that CUDA 9 to 13 have of it (CUpti_ActivityKernel4 to 10).
constexpr size_t kStartAt = 16, kEndAt = 24, kNameAt = 104;
constexpr size_t kBufferBytes = 256 << 10, kBufferAlignment = 8;

bool is_known(uint32_t version) {
  return (version >= 10 && version < 100) || (version >= 130000 && version < 140000);  // CUDA 9.1 to 12, 13
}

template <class T>
T field(const uint8_t* record, size_t at) {
  T value;
  std::memcpy(&value, record + at, sizeof value);
  return value;
}

// What the callbacks fill, which have no argument of ours and may come on a thread of CUPTI's.
struct Collected {
  std::mutex mutex;
  GetNextRecord next = nullptr;
  std::vector<CudaTrace::Kernel> kernels;
} collected;

void request_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void take_buffer(void*, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  std::lock_guard lock(collected.mutex);
  uint8_t* record = nullptr;
  while (collected.next(buffer, valid_bytes, &record) == 0) {
    if (field<int32_t>(record, 0) != kConcurrentKernel) continue;
    const auto start = field<uint64_t>(record, kStartAt), end = field<uint64_t>(record, kEndAt);
    const auto* name = field<const char*>(record, kNameAt);
    if (start == 0 || end < start) continue;  // the device gave no times
    collected.kernels.push_back(
        {name == nullptr ? "" : name, static_cast<double>(start) * 1e-9, static_cast<double>(end - start) * 1e-9});
  }
  std::free(buffer);
}

class Trace final : public CudaTrace {
 public:
  Result<void> start(std::shared_ptr<DynamicLibrary> library) {
    library_ = std::move(library);
    auto version = library_->function<GetVersion>("cuptiGetVersion");
    auto register_callbacks = library_->function<RegisterCallbacks>("cuptiActivityRegisterCallbacks");
    auto next = library_->function<GetNextRecord>("cuptiActivityGetNextRecord");
    enable_ = library_->function<Switch>("cuptiActivityEnable");
    disable_ = library_->function<Switch>("cuptiActivityDisable");
    flush_ = library_->function<FlushAll>("cuptiActivityFlushAll");
    dropped_ = library_->function<GetDropped>("cuptiActivityGetNumDroppedRecords");
    if (!version || !register_callbacks || !next || !enable_ || !disable_ || !flush_ || !dropped_)
      return environment_error("{} lacks functions of CUPTI", library_->path());
    uint32_t number = 0;
    if (int status = version(&number)) return environment_error("cuptiGetVersion: status {}", status);
    if (!is_known(number))
      return environment_error("{} is of a version of CUPTI that is not known ({})", library_->path(), number);
    collected.next = next;
    if (int status = register_callbacks(request_buffer, take_buffer))
      return environment_error("cuptiActivityRegisterCallbacks: status {}", status);
    return {};
  }

  Result<std::vector<Kernel>> kernels(CudaDevice& device, const std::function<Result<void>()>& enqueue) override {
    TCC_TRY_VOID(device.synchronise());  // what was enqueued before is not of this trace
    {
      std::lock_guard lock(collected.mutex);
      collected.kernels.clear();
    }
    if (int status = enable_(kConcurrentKernel)) return environment_error("cuptiActivityEnable: status {}", status);
    Result<void> done = enqueue();
    if (done) done = device.synchronise();
    const int flushed = flush_(kForced);
    disable_(kConcurrentKernel);
    TCC_TRY_VOID(std::move(done));
    if (flushed != 0) return environment_error("cuptiActivityFlushAll: status {}", flushed);
    size_t lost = 0;
    if (dropped_(nullptr, 0, &lost) == 0 && lost > 0) return environment_error("CUPTI lost {} records", lost);
    std::lock_guard lock(collected.mutex);
    std::vector<Kernel> kernels = std::move(collected.kernels);
    collected.kernels.clear();
    std::stable_sort(kernels.begin(), kernels.end(),
                     [](const Kernel& a, const Kernel& b) { return a.start < b.start; });
    return kernels;
  }

 private:
  std::shared_ptr<DynamicLibrary> library_;
  Switch enable_ = nullptr, disable_ = nullptr;
  FlushAll flush_ = nullptr;
  GetDropped dropped_ = nullptr;
};

}  // namespace

Result<std::shared_ptr<DynamicLibrary>> open_cupti(const std::string& name) {
  std::vector<std::string> names = {name};
  if (name.empty()) {
    const std::vector<std::string> files = {"libcupti.so.13", "libcupti.so.12"};
    names = files;
    for (const std::string& file : files) names.push_back("/usr/local/cuda/lib64/" + file);
    for (const std::string& file : files) names.push_back("/usr/local/cuda/extras/CUPTI/lib64/" + file);
  }
  TCC_TRY(std::shared_ptr<DynamicLibrary> library, DynamicLibrary::open(names));
  // The driver calls into it as long as the process lives, so it is never closed.
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<DynamicLibrary>>;
  std::lock_guard lock(mutex);
  kept->push_back(library);
  return library;
}

Result<std::unique_ptr<CudaTrace>> CudaTrace::open(const std::string& library) {
  TCC_TRY(std::shared_ptr<DynamicLibrary> opened, open_cupti(library));
  auto trace = std::make_unique<Trace>();
  TCC_TRY_VOID(trace->start(std::move(opened)));
  return std::unique_ptr<CudaTrace>(std::move(trace));
}

}  // namespace tcc::runtime
