// ONNX bytes to a tensor graph. Every file is treated as hostile: a user error says which node, tensor or field is
// wrong; nothing is opened outside the model's folder; sizes are checked before memory is taken.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"

// What is not supported is refused with a reason of a closed list, see graph/refusal.h.
namespace tcc::onnx {

// A tensor that stands in for an input.
struct TensorFile {
  graph::DType dtype = graph::DType::kF32;
  graph::Shape shape;
  graph::Constant constant;
};
// Reads a tensor file (a serialized TensorProto, "input_0.pb"). numpy has no
// bfloat16: files that it wrote hold the bits as uint16, which are read as bf16 when asked for.
Result<TensorFile> read_tensor_file(const std::string& path, bool bfloat16_as_uint16 = false);
// The bytes of such a file. `bytes` are the tensor's numbers, row-major.
std::string tensor_file_bytes(const std::string& name, graph::DType dtype, const graph::Shape& shape,
                              std::span<const std::byte> bytes);

struct ImportOptions {
  std::map<std::string, graph::Shape> input_shapes;  // --shape name=1x3x224x224
  std::map<std::string, int64_t> dims;               // --dim batch=1, by the model's dimension name
  // Inputs whose values are fixed: they become constants and are inputs no more. Shape and type must be the input's.
  std::map<std::string, TensorFile> frozen;  // --freeze name=@file.pb
  // External data may be reached through symbolic links, out of the model's folder too: some caches of downloaded
  // models are made of links.
  bool external_symlinks = false;
  double seconds = 120;  // most time for reading shapes off the nodes and folding constants
  // Filled when the import fails because a shape, axis or count is not known: the inputs to freeze. May be null.
  std::vector<std::string>* inputs_to_freeze = nullptr;
};

// Reads the file at `path`. Constants view the parsed message (external data: the mapped file), which they keep alive.
Result<graph::Graph> import_model(const std::string& path, const ImportOptions& options = {});

// The same from memory. `name` stands for the file in messages; external data is resolved against `folder` and
// refused when it is empty.
Result<graph::Graph> import_bytes(std::shared_ptr<const std::string> bytes, const std::string& name,
                                  const ImportOptions& options = {}, const std::string& folder = "");

// What a user should know of how the graph computes: products of quantized tensors that are computed in floats. Empty
// where nothing is to be said.
std::vector<std::string> import_notes(const graph::Graph& graph);

// What a file says about itself, supported or not.
struct ModelDescription {
  std::vector<std::string> inputs;     // without initializers, in order
  std::vector<std::string> operators;  // of the nodes, in file order; "domain::Name" outside ai.onnx
  bool only_tensors = true;            // no input or output is a sequence or optional
};
Result<ModelDescription> describe_model(const std::string& path);

// One row of the operator table, for `tcc ops` and documentation.
struct OperatorInfo {
  std::string domain;  // "" is ai.onnx
  std::string op;
  int64_t since_version = 1;  // first opset served
  int64_t until_version = 0;  // last opset served
};
std::vector<OperatorInfo> supported_operators();

}  // namespace tcc::onnx
