#include "tcc/graph/graph.h"

#include <algorithm>
#include <set>

#include "tcc/graph/passes.h"
#include "tcc/graph/winograd.h"
#include "tcc/support/check.h"
#include "tcc/support/text.h"

namespace tcc::graph {

std::string_view node_name(const Node& node) {
  if (node.op == Op::kUnary) return unary_row(node.as<UnaryAttrs>().fn).name;
  if (node.op == Op::kBinary) return binary_name(node.as<BinaryAttrs>().fn);
  return op_name(node.op);
}

ValueId Graph::add_input(std::string name, DType dtype, Shape shape) {
  Value value;
  value.id = static_cast<ValueId>(values.size());
  value.name = std::move(name);
  value.dtype = dtype;
  value.shape = std::move(shape);
  inputs.push_back(value.id);
  values.push_back(std::move(value));
  return values.back().id;
}

void Graph::add_output(ValueId value, std::string output_name) {
  outputs.push_back(value);
  output_names.push_back(std::move(output_name));
}

ValueId Graph::add_constant(std::string name, DType dtype, Shape shape, Constant constant) {
  Value value;
  value.id = static_cast<ValueId>(values.size());
  value.name = std::move(name);
  value.dtype = dtype;
  value.shape = std::move(shape);
  size_t expected = static_cast<size_t>(constant.splat ? dtype_size(dtype) : value.bytes());
  TCC_CHECK(constant.bytes.size() == expected, "constant has {} bytes, its type needs {}", constant.bytes.size(),
            expected);
  value.constant = std::move(constant);
  values.push_back(std::move(value));
  return values.back().id;
}

Result<ValueId> Graph::add_node(Op op, Attributes attrs, std::vector<ValueId> node_inputs, std::string node_name) {
  Node node;
  node.id = static_cast<NodeId>(nodes.size());
  node.op = op;
  node.name = std::move(node_name);
  node.inputs = std::move(node_inputs);
  node.attrs = std::move(attrs);
  TCC_TRY(TensorType type, infer_type(*this, node));
  Value value;
  value.id = static_cast<ValueId>(values.size());
  value.name = node.name;
  value.dtype = type.dtype;
  value.shape = std::move(type.shape);
  value.producer = node.id;
  node.output = value.id;
  values.push_back(std::move(value));
  order.push_back(node.id);
  nodes.push_back(std::move(node));
  return values.back().id;
}

void add_sources(Node& node, const std::vector<int32_t>& sources) {
  constexpr size_t kMaxSources = 4096;  // bounds what a model of endless no-ops costs
  for (int32_t source : sources)
    if (node.sources.size() < kMaxSources &&
        std::find(node.sources.begin(), node.sources.end(), source) == node.sources.end())
      node.sources.push_back(source);
}

std::vector<SourceNode> sources_of(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::set<int32_t> all;
  for (NodeId id : nodes) all.insert(graph.node(id).sources.begin(), graph.node(id).sources.end());
  std::vector<SourceNode> sources;
  for (int32_t source : all) sources.push_back(graph.sources.at(static_cast<size_t>(source)));
  return sources;
}

std::vector<std::vector<NodeId>> find_consumers(const Graph& graph) {
  std::vector<std::vector<NodeId>> consumers(graph.values.size());
  for (NodeId id : graph.order) {
    for (ValueId input : graph.node(id).inputs) consumers[static_cast<size_t>(input)].push_back(id);
  }
  return consumers;
}

void verify_graph(const Graph& graph) {
  std::vector<char> known(graph.values.size(), 0);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    TCC_CHECK(value.id == static_cast<ValueId>(i));
    if (value.is_constant()) {
      TCC_CHECK(value.producer == kNone, "constant %{} has a producer", i);
      known[i] = 1;
    }
  }
  for (ValueId id : graph.inputs) {
    TCC_CHECK(graph.value(id).producer == kNone && !graph.value(id).is_constant(), "input %{} is produced", id);
    known[static_cast<size_t>(id)] = 1;
  }
  for (NodeId id : graph.order) {
    const Node& node = graph.node(id);
    TCC_CHECK(node.id == id);
    for (ValueId input : node.inputs) {
      TCC_CHECK(known[static_cast<size_t>(input)], "node {} reads %{} before it is made", id, input);
    }
    const Value& output = graph.value(node.output);
    TCC_CHECK(output.producer == id && !known[static_cast<size_t>(node.output)], "node {} output", id);
    auto type = infer_type(graph, node);
    TCC_CHECK(type.has_value(), "node {}: {}", id, type ? "" : type.error().message);
    TCC_CHECK(type->dtype == output.dtype && type->shape == output.shape, "node {}: stored type is stale", id);
    known[static_cast<size_t>(node.output)] = 1;
  }
  TCC_CHECK(graph.outputs.size() == graph.output_names.size());
  TCC_CHECK(graph.counts >= 0 && static_cast<size_t>(graph.counts) <= graph.outputs.size());
  for (size_t i = graph.model_outputs(); i < graph.outputs.size(); ++i)
    TCC_CHECK(graph.value(graph.outputs[i]).dtype == DType::kI64 && graph.value(graph.outputs[i]).shape.empty(),
              "count %{} is not an i64 scalar", graph.outputs[i]);
  for (const CountedAxis& a : graph.counted_axes)
    TCC_CHECK(a.count < graph.counts && static_cast<size_t>(a.output) < graph.model_outputs() &&
                  static_cast<size_t>(a.axis) < graph.value(graph.outputs[static_cast<size_t>(a.output)]).shape.size(),
              "counted axis {} of output {}", a.axis, a.output);
  for (ValueId id : graph.outputs) TCC_CHECK(known[static_cast<size_t>(id)], "output %{} is never made", id);
}

Result<void> infer_shapes(const Graph& graph) {
  for (NodeId id : graph.order) {
    const Node& node = graph.node(id);
    auto type = infer_type(graph, node);
    if (!type) return tl::make_unexpected(std::move(type.error()).with_context(sanitize(node.name)));
    const Value& output = graph.value(node.output);
    TCC_CHECK(type->dtype == output.dtype && type->shape == output.shape, "node {}: stored type is stale", id);
  }
  return {};
}

// --- work ----------------------------------------------------------------------------------------------------------

double node_flops(const Graph& graph, const Node& node) {
  const Value& output = graph.value(node.output);
  auto out = static_cast<double>(output.elements());
  auto product = [](const std::vector<int64_t>& v) {
    double p = 1;
    for (int64_t x : v) p *= static_cast<double>(x);
    return p;
  };
  switch (op_class(node.op)) {
    case OpClass::kContraction: {
      const Shape& a = graph.value(node.inputs[0]).shape;
      double bias = node.inputs.size() == 3 ? out : 0;
      if (node.op == Op::kConv && node.as<ConvAttrs>().winograd > 0) return winograd_flops(graph, node) + bias;
      if (node.op == Op::kConv)
        return 2 * out * static_cast<double>(a[1] * node.as<ConvAttrs>().block_in / node.as<ConvAttrs>().group) *
                   product(node.as<ConvAttrs>().kernel) +
               bias;
      int64_t k = a.back();
      if (node.op == Op::kMatMul && !node.as<MatMulAttrs>().perm_a.empty())
        k = a[static_cast<size_t>(node.as<MatMulAttrs>().perm_a.back())];
      if (node.op == Op::kGemm && node.as<GemmAttrs>().trans_a) k = a.front();
      return 2 * out * static_cast<double>(k) + bias;
    }
    case OpClass::kWindow:
      if (node.op == Op::kLrn) return out * static_cast<double>(2 * node.as<LrnAttrs>().size + 3);
      if (node.op == Op::kResample) {
        double taps = 1;
        for (size_t i = 1; i < node.inputs.size(); i += 2)
          taps *= static_cast<double>(graph.value(node.inputs[i]).shape.back());
        return 2 * out * taps;
      }
      if (node.op == Op::kFold) return static_cast<double>(graph.value(node.inputs[0]).elements());
      return out * product(node.as<PoolAttrs>().kernel);
    case OpClass::kReduction:
      return static_cast<double>(graph.value(node.inputs[0]).elements());
    case OpClass::kRowwise:
      if (node.op == Op::kPackedMatMul) return 2 * out * static_cast<double>(graph.value(node.inputs[0]).shape.back());
      if (node.op == Op::kDeterminant) {
        const auto n = static_cast<double>(graph.value(node.inputs[0]).shape[2]);
        return out * 2 * n * n * n / 3;
      }
      return (node.op == Op::kLayerNorm ? 8 : 4) * out;
    case OpClass::kElementwise:
      return node.op == Op::kBatchNorm ? 2 * out : out;
    case OpClass::kView:
    case OpClass::kMove:
      return 0;
  }
  TCC_UNREACHABLE();
}

}  // namespace tcc::graph
