// An analytical prediction for GPU programs that nobody has run.
#pragma once

#include "tcc/features/gpu_facts.h"

namespace tcc::cost {

// Seconds of the launches one after the other; infinite for a block that does not fit a multiprocessor.
// `launch_seconds` is the cost of a launch, `cache_share` the share of accesses beyond the least traffic that the
// second-level cache serves. An order of programs rather than a promise: nothing is fitted to a device.
double predict_gpu_seconds(const features::GpuFacts& facts, double launch_seconds, double cache_share = 0.75);

}  // namespace tcc::cost
