// What must hold of a kernel at its stage. Run after every pass and primitive in checked builds and in tests.
#pragma once

#include <string>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::ir {

// Empty when all is well; otherwise one line per finding, with the node in text.
std::vector<std::string> verify(const Kernel& kernel);
// TCC_CHECK that verify finds nothing; `after` names the pass or primitive.
void check_verified(const Kernel& kernel, const char* after);

}  // namespace tcc::ir
