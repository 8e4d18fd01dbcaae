// What not tuning a kernel costs, as an estimate.
#pragma once

#include <vector>

#include "tcc/driver/compile.h"
#include "tcc/search/search.h"

namespace tcc::driver {

// For each kernel that is not tuned, the time of its default program, measured here, over the time that a tuned one is
// expected to take; 0 for tuned kernels and where the target's code does not run on this machine. A tuned kernel is
// expected to reach the share of the machine's nominal limits (arithmetic, caches, memory) that this model's tuned
// kernels reach, or half of them when none is tuned.
Result<std::vector<double>> estimate_slowdowns(const std::vector<task::Task>& tasks,
                                               const std::vector<search::ChosenArtifact>& chosen,
                                               const target::Target& target, int64_t threads);

}  // namespace tcc::driver
