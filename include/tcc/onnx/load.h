// One way to name a model everywhere: a file, or zoo:NAME.
#pragma once

#include <string>

#include "tcc/onnx/importer.h"
#include "tcc/onnx/zoo.h"

namespace tcc::onnx {

// `model` is a path or zoo:NAME; both go through the importer.
Result<graph::Graph> load_model(const std::string& model, const ImportOptions& import_options = {},
                                const ZooOptions& zoo_options = {});

}  // namespace tcc::onnx
