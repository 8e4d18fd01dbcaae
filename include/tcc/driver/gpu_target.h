// The GPU of this machine as a target.
#pragma once

#include <string>

#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::driver {

// target::find_target, and the GPUs of this machine, with the numbers that `tcc targets --calibrate` kept in
// `calibrations` (driver/calibrate.h; "": none). cuda_driver "": the system's. Errors: as target::find_target; no
// driver, no device, and what to do.
Result<target::Target> find_target(const std::string& name, const std::string& cuda_driver = {},
                                   const std::string& calibrations = {});

}  // namespace tcc::driver
