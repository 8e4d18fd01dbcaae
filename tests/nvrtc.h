// Whether tests can compile code for GPUs.
#pragma once

#include "tcc/codegen/cuda.h"

namespace tcc::codegen {

inline bool nvrtc_available() {
  return nvrtc_version().has_value();
}

}  // namespace tcc::codegen
