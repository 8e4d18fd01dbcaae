// A model file with other weights.
#pragma once

#include <cstdint>
#include <string>

#include "tcc/onnx/importer.h"

namespace tcc::onnx {

// The bytes of an ONNX file like the one at `path` (or `bytes`, see import_bytes), whose import has the weights that
// graph::reseed_weights(graph, seed) gives: so that another program can read what `--reseed-weights` computes with.
// Weights that operators make of constants become initializers, and those operators go. Nothing is left outside of the
// file. Errors: what import says; a weight that has no place in the file; a file above the format's 2 GiB.
Result<std::string> reseeded_model(const std::string& path, const ImportOptions& options, uint64_t seed);
Result<std::string> reseeded_bytes(std::shared_ptr<const std::string> bytes, const std::string& name,
                                   const ImportOptions& options, uint64_t seed, const std::string& folder = "");

}  // namespace tcc::onnx
