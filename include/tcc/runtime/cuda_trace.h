// Times of kernels as the device itself stamps them, by CUPTI's activity records: without the gaps between launches
// that events around them see. Opened at run time, never needed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tcc/runtime/cuda_device.h"

namespace tcc::runtime {

class CudaTrace {
 public:
  struct Kernel {
    std::string symbol;
    double start = 0;    // seconds of the device's clock
    double seconds = 0;  // from its first block's beginning to its last one's end
  };
  // library "": libcupti.so.13 or .12 by the loader's rules, then in /usr/local/cuda. A process has one trace at a
  // time. Errors (environment): no library, or one of a version whose records are not known.
  static Result<std::unique_ptr<CudaTrace>> open(const std::string& library = {});
  virtual ~CudaTrace() = default;
  // Calls `enqueue`, waits for the device and returns the kernels that ran, in order of their start. Errors: CUPTI
  // refuses (another profiler is attached), records were lost, and those of `enqueue`.
  virtual Result<std::vector<Kernel>> kernels(CudaDevice& device, const std::function<Result<void>()>& enqueue) = 0;
};

}  // namespace tcc::runtime
