// Models that tests write, imported and run by the reference.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tcc/graph/reference.h"
#include "tcc/onnx/importer.h"
#include "tcc/onnx/writer.h"

namespace tcc::onnx {

inline Result<graph::Graph> import_text(std::string bytes, const ImportOptions& options = {}) {
  return import_bytes(std::make_shared<const std::string>(std::move(bytes)), "test.onnx", options);
}

// The outputs of a model. Inputs without given data are 0, 1, 2, ...
inline std::vector<graph::HostTensor> run_model(std::string bytes, const ImportOptions& options = {},
                                                const std::vector<std::vector<double>>& data = {}) {
  auto g = import_text(std::move(bytes), options);
  if (!g) FAIL(g.error().message);
  std::vector<graph::HostTensor> inputs;
  for (auto id : g->inputs) {
    graph::HostTensor t{g->value(id).shape, std::vector<double>(static_cast<size_t>(g->value(id).elements()))};
    for (size_t i = 0; i < t.data.size(); ++i) t.data[i] = static_cast<double>(i);
    if (inputs.size() < data.size()) t.data = data[inputs.size()];
    inputs.push_back(t);
  }
  auto outputs = graph::run_reference(*g, inputs, 1);
  if (!outputs) FAIL(outputs.error().message);
  return *outputs;
}

}  // namespace tcc::onnx
