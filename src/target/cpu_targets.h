// The generic CPU targets and what every CPU target derives from its feature bits.
#pragma once

#include <cstdint>
#include <vector>

#include "tcc/target/target.h"

namespace tcc::target {

// x86-64-v2, -v3 and -v4: a plain four-core machine of that instruction set.
std::vector<Target> generic_cpu_targets();
// The features of x86-64-v<level>, 1 to 4, as the psABI defines them.
CpuFeatures level_features(int64_t level);
// vector_bits and num_vector_registers from the feature bits.
void set_vector_shape(CpuInfo& info);
// Peaks, clock and bandwidth for a machine of which only features and cores are known.
void set_nominal_rates(Target& target);

}  // namespace tcc::target
