// Code of a whole model for a CPU. Private to the room.
#pragma once

#include <vector>

#include "tcc/driver/compile.h"
#include "tcc/search/search.h"

namespace tcc::driver {

// The program of every task, compiled. `kernels` gets a choice for each.
Result<std::vector<search::ChosenArtifact>> choose_for_cpu(const Program& program, const BuildOptions& options,
                                                           std::vector<KernelChoice>& kernels);

// The same as what a library is made of, with the texts that were asked for; losses are estimated on the way.
Result<std::vector<package::TaskCode>> finish_for_cpu(const Program& program, const BuildOptions& options,
                                                      std::vector<search::ChosenArtifact> chosen,
                                                      std::vector<KernelChoice>& kernels);

}  // namespace tcc::driver
