// What `tcc bench` says of a library for GPUs.
#pragma once

#include "cli/arguments.h"
#include "tcc/driver/library.h"

namespace tcc::cli {

// report.gpu is set.
void print_gpu_times(const Common& common, bool per_kernel, const driver::BenchReport& report);

}  // namespace tcc::cli
