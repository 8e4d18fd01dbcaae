// Counters of the device over a run of a program, by CUPTI's range profiler (CUDA 12.6 and later): what it moved, and
// how busy it kept the machine. Opened at run time, never needed. The program runs once for each pass that the counters
// take, so nothing may be timed meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tcc/runtime/cuda_device.h"

namespace tcc::runtime {

// Negative: the device does not count it.
struct CudaCounts {
  double dram_bytes = -1;    // read and written by device memory
  double tensor_share = -1;  // of the cycles of a run, in which the tensor cores' pipe was busy: 0 to 1
  double occupancy = -1;     // resident warps as a share of what fits, mean over the run
};

class CudaCounters {
 public:
  // library "": libcupti.so.13 or .12 by the loader's rules, then in /usr/local/cuda. Errors (environment): no library,
  // or one without a range profiler; the device is not supported; this user may not read counters, with what to do
  // about it.
  static Result<std::unique_ptr<CudaCounters>> open(CudaDevice& device, int ordinal, const std::string& library = {});
  virtual ~CudaCounters() = default;
  // `run` enqueues one run, whose results must not depend on how often it is called. Errors: CUPTI's, and those of
  // `run`.
  virtual Result<CudaCounts> count(const std::function<Result<void>()>& run) = 0;
};

}  // namespace tcc::runtime
