// The device prelude's names for the host's compiler: host_device.h and, for every row of the instruction table with a
// function in the device prelude, a function of the same name that hands the row to the runtime. What a row computes
// is its semantics of the table, printed as C++ by the printer of kernels.
#pragma once

#include <string>

#include "tcc/ir/instr.h"

namespace tcc::testing {

// Comes before the kernels in place of codegen::cuda_prelude().
const std::string& host_prelude();

}  // namespace tcc::testing
