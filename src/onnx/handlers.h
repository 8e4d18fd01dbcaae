// What an operator's handler sees: one ONNX node with its inputs resolved, typed access to its attributes, and a way
// to emit graph nodes. A handler must read every attribute that it serves: one left unread is an error that names it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tensor.h"

namespace tcc::onnx {

class NodeContext {
 public:
  NodeContext(graph::Graph& graph, const tcc_onnx::Node& proto, const std::shared_ptr<const void>& owner,
              ExternalFiles& files, int64_t opset, std::vector<graph::ValueId> inputs);

  int64_t opset() const { return opset_; }
  const std::string& op() const { return proto_.op_type(); }

  // --- inputs; optional ones at the end are dropped, others may be absent
  size_t input_count() const { return inputs_.size(); }
  bool has_input(size_t i) const { return i < inputs_.size() && inputs_[i] != graph::kNone; }
  graph::ValueId input(size_t i) const { return inputs_[i]; }  // has_input(i)
  const graph::Value& value(graph::ValueId id) const { return graph_.value(id); }
  const graph::Value& input_value(size_t i) const { return graph_.value(inputs_[i]); }
  int64_t rank(size_t i) const { return static_cast<int64_t>(input_value(i).shape.size()); }
  // The numbers of an input that must be known when compiling.
  Result<std::vector<int64_t>> constant_integers(size_t i, const char* what) const;
  Result<double> constant_scalar(size_t i, const char* what) const;

  // --- attributes
  Result<int64_t> get_int(const char* name, int64_t otherwise);
  Result<double> get_float(const char* name, double otherwise);
  Result<std::string> get_string(const char* name, const std::string& otherwise);
  Result<std::optional<std::vector<int64_t>>> get_ints(const char* name);
  Result<std::optional<std::vector<double>>> get_floats(const char* name);
  Result<std::optional<TensorConstant>> get_tensor(const char* name);
  bool has_attribute(const char* name) const { return find(name) != nullptr; }
  void ignore_attribute(const char* name) { read_.insert(name); }
  Result<void> check_all_attributes_read() const;

  // Negative axes count from the back.
  Result<int64_t> normalize_axis(int64_t axis, int64_t rank) const;
  Result<std::vector<int64_t>> normalize_axes(std::vector<int64_t> axes, int64_t rank) const;  // sorted, distinct

  // --- results
  Result<graph::ValueId> emit(graph::Op op, graph::Attributes attrs, std::vector<graph::ValueId> inputs);
  Result<graph::ValueId> emit_reshape(graph::ValueId x, graph::Shape shape);
  graph::ValueId constant(graph::DType dtype, graph::Shape shape, graph::Constant constant);
  void set_output(graph::ValueId id) { output_ = id; }
  graph::ValueId output() const { return output_; }
  // emit + set_output
  Result<void> finish(graph::Op op, graph::Attributes attrs, std::vector<graph::ValueId> inputs);

 private:
  const tcc_onnx::Attribute* find(const char* name) const;
  Result<const tcc_onnx::Attribute*> take(const char* name, tcc_onnx::Attribute::Type type);

  graph::Graph& graph_;
  const tcc_onnx::Node& proto_;
  std::shared_ptr<const void> owner_;  // keeps the messages alive
  ExternalFiles& files_;
  int64_t opset_;
  std::vector<graph::ValueId> inputs_;
  std::set<std::string> read_;
  graph::ValueId output_ = graph::kNone;
};

using Handler = Result<void> (*)(NodeContext&);

struct OperatorRow {
  const char* domain;
  const char* op;
  int64_t since, until;  // opset versions served
  int64_t fewest_inputs, most_inputs;
  Handler handler;
};

constexpr int64_t kNewestOpset = 28;

const std::vector<OperatorRow>& operator_table();
// The row for a model's opset; newer opsets than kNewestOpset are served by the newest row.
const OperatorRow* find_operator(const std::string& domain, const std::string& op, int64_t opset);

// Handlers, by file: handlers_window.cpp, handlers_math.cpp, handlers_shape.cpp.
Result<void> import_conv(NodeContext&);
Result<void> import_max_pool(NodeContext&);
Result<void> import_average_pool(NodeContext&);
Result<void> import_global_average_pool(NodeContext&);
Result<void> import_global_max_pool(NodeContext&);
Result<void> import_lrn(NodeContext&);

Result<void> import_batch_norm(NodeContext&);
Result<void> import_gemm(NodeContext&);
Result<void> import_matmul(NodeContext&);
Result<void> import_unary(NodeContext&);
Result<void> import_leaky_relu(NodeContext&);
Result<void> import_clip(NodeContext&);
Result<void> import_binary(NodeContext&);
Result<void> import_sum(NodeContext&);
Result<void> import_softmax(NodeContext&);
Result<void> import_reduce(NodeContext&);
Result<void> import_dropout(NodeContext&);

Result<void> import_identity(NodeContext&);
Result<void> import_constant(NodeContext&);
Result<void> import_constant_of_shape(NodeContext&);
Result<void> import_flatten(NodeContext&);
Result<void> import_reshape(NodeContext&);
Result<void> import_squeeze(NodeContext&);
Result<void> import_unsqueeze(NodeContext&);
Result<void> import_transpose(NodeContext&);
Result<void> import_concat(NodeContext&);
Result<void> import_pad(NodeContext&);
Result<void> import_shape(NodeContext&);
Result<void> import_gather(NodeContext&);
Result<void> import_cast(NodeContext&);

}  // namespace tcc::onnx
