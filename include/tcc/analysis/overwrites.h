// Inputs whose memory a kernel's output may take: a residual that is added element by element, for instance. The output
// then finds its lines in a cache, and a model needs less memory.
#pragma once

#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::analysis {

// Numbers of such inputs among the kernel's parameters; `lowered` is at Stage::kLowered. True only when certain: each
// element of the output is stored once, and an input is read only for the stores of the elements at its own places, of
// the same size. The output is read nowhere.
std::vector<int> overwritable_inputs(const ir::Kernel& lowered);

}  // namespace tcc::analysis
