// Code of a whole model for GPUs. Private to the room.
#pragma once

#include <vector>

#include "tcc/driver/compile.h"

namespace tcc::driver {

// One ArchitectureCode a target, in order, then, with options.allow_jit, PTX of the oldest architecture. `kernels` gets
// a choice for each task and target. Errors: no NVRTC, an architecture that it does not compile, a task that has no
// program for a target, which is named.
Result<std::vector<package::ArchitectureCode>> compile_for_gpus(const Program& program, const BuildOptions& options,
                                                                std::vector<KernelChoice>& kernels);

// The oldest CUDA version that surely loads what was compiled: that of the compiler, 13000 for 13.0.
int64_t toolkit_of(const std::vector<package::ArchitectureCode>& architectures);

}  // namespace tcc::driver
