// The GPU of this machine as a target.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::driver {

// "cuda" is number 0 and "cuda:1" number 1; nothing for every other name.
std::optional<int> installed_gpu_number(std::string_view name);

// target::find_target, and the GPUs of this machine. cuda_driver "": the system's. Errors: as target::find_target; no
// driver, no device, and what to do.
Result<target::Target> find_target(const std::string& name, const std::string& cuda_driver = {});

}  // namespace tcc::driver
