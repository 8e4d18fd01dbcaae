// How fast a device runs right now: a throttled device falsifies times.
#pragma once

#include <memory>
#include <string>

#include "tcc/runtime/cuda_device.h"

namespace tcc::runtime {

class CudaClock {
 public:
  struct Look {
    double slowdown = 1;     // against the fastest look so far, 1 or above
    double calibration = 0;  // seconds of the calibration kernel; 0: the driver compiles none
    bool throttled = false;  // the device says that heat or its power supply slows it down
  };
  // By NVML where its library is there and knows the device, and by the time of a fixed chain of arithmetic on the
  // device itself, where the driver compiles it. With neither every look says "as fast as ever".
  static std::unique_ptr<CudaClock> open(CudaDevice& device, const std::string& nvml_library = "libnvidia-ml.so.1");
  virtual ~CudaClock() = default;
  // Waits for the device. Errors are those of the device.
  virtual Result<Look> look() = 0;
  // "NVML and a calibration kernel", for notes.
  virtual std::string source() const = 0;
};

}  // namespace tcc::runtime
