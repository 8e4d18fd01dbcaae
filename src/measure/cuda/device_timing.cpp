// A sample is a pair of events around several launches, each over a copy of the parameters that nothing has touched
// since the second-level cache was emptied: every launch reads its inputs from memory, as it does where another kernel
// of a network ran before, and no launch waits for the host. Short programs are launched as one graph, because
// launching them one by one takes longer than they run. Samples beside a slower clock are doubtful, and so are those
// taken while the device says that heat or its power supply slows it down.
#include "measure/cuda/device_timing.h"

#include <algorithm>
#include <cmath>

#include "tcc/support/files.h"

namespace tcc::measure {
namespace {

constexpr double kWarmSeconds = 2e-3;

// Launches programs over copies of their parameters.
class Sampler : public TimedProgram {
 public:
  static Result<std::unique_ptr<Sampler>> make(const DeviceProgram& program, const DeviceTiming& timing) {
    auto made = std::make_unique<Sampler>();
    Sampler& s = *made;
    s.program_ = &program;
    s.timing_ = &timing;
    runtime::CudaDevice& device = timing.device;
    Stopwatch watch;
    do {
      // Behind the flush, as in a sample: on an idle device the events would also time the host's way to it.
      TCC_TRY_VOID(timing.flush.enqueue(device));
      TCC_TRY(s.run_seconds_, device.time(1, [&] { return program.launch(0); }));
    } while (watch.seconds() < kWarmSeconds);
    s.repeats_ = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(kSampleSeconds / std::max(s.run_seconds_, 1e-7))),
                                     1, program.copies);
    if (s.repeats_ > 1) {
      TCC_TRY(s.graph_, device.record([&] { return s.launch_all(); }));
      if (s.graph_) TCC_TRY_VOID(s.graph_->launch());  // the first launch uploads it
    }
    return made;
  }

  Result<Sample> sample() override {
    runtime::CudaDevice& device = timing_->device;
    TCC_TRY_VOID(timing_->flush.enqueue(device));
    TCC_TRY(const double seconds, device.time(1, [&] { return graph_ ? graph_->launch() : launch_all(); }));
    return Sample{seconds / static_cast<double>(repeats_)};
  }

 private:
  Result<void> launch_all() const {
    for (int64_t i = 0; i < repeats_; ++i) TCC_TRY_VOID(program_->launch(i));
    return {};
  }
  const DeviceProgram* program_ = nullptr;
  const DeviceTiming* timing_ = nullptr;
  std::unique_ptr<runtime::CudaGraph> graph_;
};

class DeviceWatch : public MachineWatch {
 public:
  explicit DeviceWatch(runtime::CudaClock& clock) : clock_(clock) {}
  Result<Look> look() override {
    TCC_TRY(const runtime::CudaClock::Look look, clock_.look());
    const bool before = std::exchange(throttled_, look.throttled);
    return Look{look.slowdown, before || look.throttled, look.calibration};
  }

 private:
  runtime::CudaClock& clock_;
  bool throttled_ = false;
};

}  // namespace

Result<CacheFlush> CacheFlush::make(runtime::CudaDevice& device) {
  constexpr int64_t kMinFlushBytes = 1 << 20;
  CacheFlush flush;
  TCC_TRY(flush.memory_, device.allocate(std::max(2 * device.facts().l2_bytes, kMinFlushBytes)));
  return flush;
}
Result<void> CacheFlush::enqueue(runtime::CudaDevice& device) const {
  return device.fill(memory_, 0);
}

Result<void> time_on_device(const DeviceProgram& program, const DeviceTiming& timing, WorkerResult& result) {
  TCC_TRY(const auto sampler, Sampler::make(program, timing));
  DeviceWatch machine(timing.clock);
  return time_program(*sampler, machine, timing.plan, result);
}

Result<void> time_pair_on_device(const DeviceProgram& a, const DeviceProgram& b, const DeviceTiming& timing,
                                 WorkerResult& result) {
  TCC_TRY(const auto sampler_a, Sampler::make(a, timing));
  TCC_TRY(const auto sampler_b, Sampler::make(b, timing));
  DeviceWatch machine(timing.clock);
  return time_pair(*sampler_a, *sampler_b, machine, timing.plan, result);
}

}  // namespace tcc::measure
