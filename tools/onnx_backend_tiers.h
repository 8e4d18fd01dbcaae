// How soon a compiler needs the operators of ONNX's test cases: tiers of operators, from those of every model on.
#pragma once

#include <filesystem>
#include <string>

namespace tcc::onnx_backend {

// "tier0" and on, "other", or the kind of a case that is a whole model. Node cases count for the tier of their
// operator; a function's body ("_expanded") for the function's.
std::string tier_of(const std::string& name, const std::filesystem::path& path);

}  // namespace tcc::onnx_backend
