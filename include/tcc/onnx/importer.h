// ONNX bytes to a tensor graph. Every file is treated as hostile: a user error says which node, tensor or field is
// wrong; nothing is opened outside the model's folder; sizes are checked before memory is taken.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc::onnx {

struct ImportOptions {
  std::map<std::string, graph::Shape> input_shapes;  // --shape name=1x3x224x224
  std::map<std::string, int64_t> dims;               // --dim batch=1, by the model's dimension name
};

// Reads the file at `path`. Constants view the parsed message (external data: the mapped file), which they keep alive.
Result<graph::Graph> import_model(const std::string& path, const ImportOptions& options = {});

// The same from memory. `name` stands for the file in messages; external data is resolved against `folder` and
// refused when it is empty.
Result<graph::Graph> import_bytes(std::shared_ptr<const std::string> bytes, const std::string& name,
                                  const ImportOptions& options = {}, const std::string& folder = "");

// One row of the operator table, for `tcc ops` and documentation.
struct OperatorInfo {
  std::string domain;  // "" is ai.onnx
  std::string op;
  int64_t since_version = 1;  // first opset served
  int64_t until_version = 0;  // last opset served
};
std::vector<OperatorInfo> supported_operators();

}  // namespace tcc::onnx
