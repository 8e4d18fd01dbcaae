// Writes ONNX files: the zoo and the tests use it. No protobuf type shows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tcc/graph/types.h"

namespace tcc::onnx {

struct TensorData {
  graph::Shape shape;
  std::variant<std::vector<float>, std::vector<int64_t>> values;
};

// A body of If, Loop or Scan: see ModelWriter::finish_graph.
struct GraphData {
  std::string bytes;
};

using AttributeValue = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                                    std::vector<std::string>, TensorData, GraphData>;

struct NamedAttribute {
  std::string name;
  AttributeValue value;
};

class ModelWriter {
 public:
  // `expected_bytes`: about how large the initializers are; that much is set aside, so that none is moved later.
  explicit ModelWriter(const std::string& name, int64_t opset = 13, int64_t ir_version = 8, size_t expected_bytes = 0);
  ~ModelWriter();
  ModelWriter(const ModelWriter&) = delete;
  ModelWriter& operator=(const ModelWriter&) = delete;

  // From now on, floats of inputs, outputs and initializers are stored as `dtype`, numbers beyond its range as its
  // greatest one, and a Cast to f32 becomes one to it. Tensors of a named type keep theirs.
  void store_floats_as(graph::DType dtype);

  // Dimensions are numbers, or names where `names` is not empty at that position.
  void input(const std::string& name, const graph::Shape& shape, const std::vector<std::string>& names = {});
  void integer_input(const std::string& name, const graph::Shape& shape);  // of i64
  void typed_input(const std::string& name, graph::DType dtype, const graph::Shape& shape);
  void output(const std::string& name, const graph::Shape& shape);
  void output(const std::string& name, graph::DType dtype = graph::DType::kF32);  // of no declared shape
  // Written as raw bytes, which are encoded at once and held once; `typed` uses float_data or int64_data instead.
  // Returns the name.
  std::string initializer(const std::string& name, const TensorData& data, bool typed = false);
  // Of any element type: `values` are converted as tcc/graph/types.h says.
  std::string typed_initializer(const std::string& name, graph::DType dtype, const graph::Shape& shape,
                                const std::vector<double>& values);
  // Floats in another file of the model's folder; negative offset or length: the field is left out.
  std::string external_initializer(const std::string& name, const graph::Shape& shape, const std::string& location,
                                   int64_t offset, int64_t length);
  // The node is called after its first output. Returns that output.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs, const std::vector<NamedAttribute>& attributes = {},
                   const std::string& domain = "");
  // The file's bytes. Ends the writer: the initializers have moved into them.
  std::string finish();
  // The graph alone, as an attribute of a node of another writer. Ends the writer.
  GraphData finish_graph();
  // Adds the nodes of `body` as a function; its inputs and outputs are the function's. `attributes` are those that its
  // nodes refer to as "$NAME" in a string attribute of the name that they set.
  void function(const std::string& domain, const std::string& name, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const std::vector<std::string>& attributes,
                const GraphData& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tcc::onnx
