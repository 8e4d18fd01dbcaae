// What CUPTI tells of a program inside a GPU's worker: times by the device's own stamps, and counters. Never needed:
// where it cannot be had, the result carries one note and everything goes on.
#pragma once

#include <memory>
#include <string>

#include "measure/cuda/device_timing.h"
#include "tcc/runtime/cuda_counters.h"
#include "tcc/runtime/cuda_trace.h"

namespace tcc::measure {

class DeviceProfiler {
 public:
  // Opens nothing before it is asked. enabled: false where CUPTI would speak to another driver than `device` does.
  DeviceProfiler(runtime::CudaDevice& device, int ordinal, std::string library, bool enabled)
      : device_(device), ordinal_(ordinal), library_(std::move(library)), enabled_(enabled) {}

  // After a program was timed: WorkerResult::device_seconds and counts. The device may be lost then.
  void profile(const DeviceProgram& program, const CacheFlush& flush, WorkerResult& result);

 private:
  Result<double> device_seconds(const DeviceProgram& program, const CacheFlush& flush, int64_t repeats);
  void trace(const DeviceProgram& program, const CacheFlush& flush, WorkerResult& result);
  void count(const DeviceProgram& program, WorkerResult& result);
  static void note(const char* what, const Error& error, WorkerResult& result);

  runtime::CudaDevice& device_;
  const int ordinal_;
  const std::string library_;
  const bool enabled_;
  bool no_trace_ = false, no_counters_ = false;  // tried in vain
  std::unique_ptr<runtime::CudaTrace> trace_;
  std::unique_ptr<runtime::CudaCounters> counters_;
};

}  // namespace tcc::measure
