// The host's instruction set as feature bits.
#pragma once

#include "tcc/target/target.h"

namespace tcc::target {

CpuFeatures host_features();

}  // namespace tcc::target
