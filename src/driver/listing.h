// Texts of kernels, for people.
#pragma once

#include <string>

#include "tcc/search/search.h"

namespace tcc::driver {

// The artifact's source becomes the optimised LLVM IR, under the names of `prefix`: what is linked carries no text.
Result<void> add_llvm_listing(search::ChosenArtifact& kernel, const target::Target& target, const std::string& prefix);

}  // namespace tcc::driver
