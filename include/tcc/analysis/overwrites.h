// Inputs whose memory a kernel's output may take: a residual that is added element by element, for instance. The output
// then finds its lines in a cache, and a model needs less memory.
#pragma once

#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::analysis {

// Numbers of such inputs among the kernel's parameters, only of those that are certain; `lowered` is at
// Stage::kLowered. Each element of the output is stored once, and such an input is read only for the stores of the
// elements at its own places, of the same size. The output is read nowhere, and no instruction writes it.
std::vector<int> overwritable_inputs(const ir::Kernel& lowered);

}  // namespace tcc::analysis
