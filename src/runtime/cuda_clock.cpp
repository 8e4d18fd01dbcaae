#include "tcc/runtime/cuda_clock.h"

#include <algorithm>

#include "tcc/support/dynlib.h"

namespace tcc::runtime {
namespace {

// A chain of 16384 dependent multiply-adds of one thread: its time follows the clock of the multiprocessors and nothing
// else. PTX of the oldest architecture that drivers of today compile.
constexpr const char* kChain = R"(.version 6.0
.target sm_52
.address_size 64
.visible .entry tcc_calibration_0(.param .u64 p)
{
  .reg .pred %p<2>;
  .reg .f32 %f<3>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
  mov.f32 %f1, 0f3F800000;
  mov.f32 %f2, 0f3F000000;
  mov.u32 %r1, 0;
again:
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  add.s32 %r1, %r1, 1;
  setp.lt.s32 %p1, %r1, 1024;
  @%p1 bra again;
  st.global.f32 [%rd2], %f1;
  ret;
}
)";

// The few calls of NVML that are needed, by their documented signatures.
class Nvml {
 public:
  static std::unique_ptr<Nvml> open(const std::string& library, const std::string& uuid) {
    auto nvml = std::make_unique<Nvml>();
    auto opened = DynamicLibrary::open({library});
    if (!opened) return nullptr;
    nvml->library_ = std::move(*opened);
    auto init = nvml->library_->function<int (*)()>("nvmlInit_v2");
    auto find = nvml->library_->function<int (*)(const char*, void**)>("nvmlDeviceGetHandleByUUID");
    nvml->clock_ = nvml->library_->function<int (*)(void*, int, unsigned*)>("nvmlDeviceGetClockInfo");
    nvml->reasons_ =
        nvml->library_->function<int (*)(void*, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
    if (!init || !find || !nvml->clock_ || !nvml->reasons_ || init() != 0) return nullptr;
    return find(uuid.c_str(), &nvml->device_) == 0 ? std::move(nvml) : nullptr;
  }
  // MHz of the multiprocessors; 0: not told.
  unsigned clock() const {
    constexpr int kMultiprocessors = 1;
    unsigned mhz = 0;
    return clock_(device_, kMultiprocessors, &mhz) == 0 ? mhz : 0;
  }
  bool throttled() const {
    // Slowdown by hardware, heat seen by software and by hardware, power brake. Not the power cap: a program that makes
    // the device reach it is slowed down by itself.
    constexpr unsigned long long kReasons = 0x8 | 0x20 | 0x40 | 0x80;
    unsigned long long reasons = 0;
    return reasons_(device_, &reasons) == 0 && (reasons & kReasons) != 0;
  }

 private:
  std::shared_ptr<DynamicLibrary> library_;
  void* device_ = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*reasons_)(void*, unsigned long long*) = nullptr;
};

class Clock final : public CudaClock {
 public:
  explicit Clock(CudaDevice& device) : device_(device) {}

  void start(const std::string& nvml_library) {
    std::string uuid = device_.facts().uuid;  // NVML writes it with hyphens
    for (size_t at : {20, 16, 12, 8})
      if (uuid.size() > at) uuid.insert(at, "-");
    nvml_ = Nvml::open(nvml_library, "GPU-" + uuid);
    codegen::Artifact chain;
    chain.format = codegen::CodeFormat::kPtx;
    chain.code = kChain;
    chain.launches.push_back({.symbol = "tcc_calibration_0"});
    chain.buffers.push_back({ir::BufferRole::kOutput, ir::Type::kF32, {1}, "", 4, 4});
    auto memory = device_.allocate(4);
    auto kernel = device_.load(chain);
    if (!memory || !kernel) return;
    memory_ = std::move(*memory);
    kernel_ = std::move(*kernel);
  }

  Result<Look> look() override {
    Look look;
    if (kernel_) {
      const uint64_t parameters[] = {memory_.address()};
      const auto launch = [&] { return kernel_->launch(parameters); };
      // Behind one that keeps the device busy, the host has enqueued it in time: on an idle device the events would
      // also time the host's way to it, which varies more than the clock.
      TCC_TRY_VOID(launch());
      TCC_TRY(look.calibration, device_.time(1, launch));
      if (least_ == 0 || look.calibration < least_) least_ = look.calibration;
      if (least_ > 0) look.slowdown = look.calibration / least_;
    }
    if (nvml_) {
      look.throttled = nvml_->throttled();
      const unsigned clock = nvml_->clock();
      highest_ = std::max(highest_, clock);
      if (!kernel_ && clock > 0) look.slowdown = static_cast<double>(highest_) / clock;
    }
    return look;
  }

  std::string source() const override {
    if (nvml_ && kernel_) return "NVML and a calibration kernel";
    return nvml_ ? "NVML" : kernel_ ? "a calibration kernel" : "";
  }

 private:
  CudaDevice& device_;
  std::unique_ptr<Nvml> nvml_;
  CudaBuffer memory_;
  std::unique_ptr<CudaKernel> kernel_;
  double least_ = 0;
  unsigned highest_ = 0;
};

}  // namespace

std::unique_ptr<CudaClock> CudaClock::open(CudaDevice& device, const std::string& nvml_library) {
  auto clock = std::make_unique<Clock>(device);
  clock->start(nvml_library);
  return clock;
}

}  // namespace tcc::runtime
