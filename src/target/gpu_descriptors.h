// The cited tables behind the GPU targets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/target/target.h"

namespace tcc::target {

// Every GPU descriptor, oldest architecture first.
const std::vector<Target>& gpu_descriptors();
// Limits and features of the newest known capability not above `sm_arch`; sm_arch of the result tells which one.
// sm_arch == 0 in the result: older than every row.
CudaInfo cuda_limits(int64_t sm_arch);
// What compute capability `sm_arch` offers when code is generated with `suffix`.
CudaFeatures cuda_features(int64_t sm_arch, std::string_view suffix);

}  // namespace tcc::target
