// Timing inside a GPU's worker.
#pragma once

#include <cstdint>
#include <functional>

#include "measure/timing.h"
#include "tcc/runtime/cuda_clock.h"
#include "tcc/runtime/cuda_device.h"

namespace tcc::measure {

// A program over several copies of its parameters. `launch(copy)` enqueues one run.
struct DeviceProgram {
  int64_t copies = 1;
  std::function<Result<void>(int64_t copy)> launch;
};

// What empties the device's second-level cache: memory of twice its size, written before each sample.
class CacheFlush {
 public:
  static Result<CacheFlush> make(runtime::CudaDevice& device);
  Result<void> enqueue(runtime::CudaDevice& device) const;

 private:
  runtime::CudaBuffer memory_;
};

struct DeviceTiming {
  runtime::CudaDevice& device;
  runtime::CudaClock& clock;
  const CacheFlush& flush;
  TimingPlan plan;
};

// time_program and time_pair. Errors are those of the device.
Result<void> time_on_device(const DeviceProgram& program, const DeviceTiming& timing, WorkerResult& result);
Result<void> time_pair_on_device(const DeviceProgram& a, const DeviceProgram& b, const DeviceTiming& timing,
                                 WorkerResult& result);

}  // namespace tcc::measure
