// Why a kernel's design spaces hold no matrix instruction (AMX on a CPU, tensor cores on a GPU).
#pragma once

#include <string>
#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/target/target.h"

namespace tcc::space {

// The conditions of the module that makes them (amx_tiling, gpu_tensor_core) which do not hold: a sentence each, none
// when all do.
std::vector<std::string> unmet_conditions_of_matrix_instruction(const ir::Kernel& kernel, const target::Target& target);
// On a target whose warpgroups multiply together (wgmma): those of gpu_wgmma, which makes such products. None on
// others.
std::vector<std::string> unmet_conditions_of_warpgroup_instruction(const ir::Kernel& kernel,
                                                                   const target::Target& target);

}  // namespace tcc::space
