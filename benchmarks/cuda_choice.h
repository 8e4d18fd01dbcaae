// The program that `tcc tune` chooses for a GPU that is not there: by the analytical model and the compiler's report.
#pragma once

#include "tcc/search/search.h"

namespace tcc::benchmarks {

// Compiled for the target. Errors: NVRTC is missing or does not know the target; no program of the task compiles.
Result<search::ChosenArtifact> choose_without_device(const task::Task& task, const target::Target& device);

// Blocks of the first launch that a multiprocessor holds at a time, by what ptxas says a block takes.
int64_t resident_blocks(const search::ChosenArtifact& chosen, const target::Target& device);

}  // namespace tcc::benchmarks
