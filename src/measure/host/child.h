// The process that a candidate runs in.
#pragma once

#include "measure/wire.h"

namespace tcc::measure {

// Runs one job to its end and writes job->result. Called once, in a fresh child of the zygote; does not return to the
// zygote's code: the caller exits.
void run_child(JobHeader* job, const std::byte* task);

}  // namespace tcc::measure
