// Kernels that try the instructions of compute capability 9.0, which need more than a warp and a call: copies by tensor
// maps, products of warpgroups, clusters, roles.
#pragma once

#include <vector>

#include "tcc/ir/instr.h"

namespace tcc::gpu_check {

// The kernels that try a row; none: it is not one of these.
std::vector<ir::Kernel> hopper_trials(const ir::Instruction& row);
// The row takes part in the trial of another one.
bool is_part_of_hopper_trial(const ir::Instruction& row);

}  // namespace tcc::gpu_check
