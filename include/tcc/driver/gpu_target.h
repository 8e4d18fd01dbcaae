// The GPU of this machine as a target.
#pragma once

#include <string>

#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::driver {

// What descriptions of the GPUs of this machine are made of.
struct GpuSources {
  std::string cuda_driver;  // the driver's library; "": the system's
  std::string
      calibrations;  // the folder in which `tcc targets --calibrate` kept numbers (driver/calibrate.h); "": none
};
// target::find_target, and the GPUs of this machine with their calibrations. Errors: as target::find_target; no driver,
// no device, and what to do.
Result<target::Target> find_target(const std::string& name, const GpuSources& sources);

}  // namespace tcc::driver
