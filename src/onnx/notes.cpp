#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "tcc/onnx/importer.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

using graph::Node;
using graph::Op;
using graph::ValueId;

namespace {

// Operators whose products are of integers.
const std::set<std::string, std::less<>> kIntegerProducts = {"ConvInteger",  "DynamicQuantizeMatMul", "MatMulInteger",
                                                             "MatMulNBits",  "MatMulIntegerToFloat",  "QLinearConv",
                                                             "QLinearMatMul"};

std::string_view source_type(const graph::Graph& graph, const Node& node) {
  if (node.sources.empty()) return "";
  return graph.sources[static_cast<size_t>(node.sources.front())].type;
}

// Some operand is the result of DequantizeLinear.
bool of_dequantized(const graph::Graph& graph, const Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
    const graph::NodeId producer = graph.value(id).producer;
    return producer != graph::kNone && source_type(graph, graph.node(producer)) == "DequantizeLinear";
  });
}

}  // namespace

std::vector<std::string> import_notes(const graph::Graph& graph) {
  std::map<std::string, int64_t> counts;
  int64_t all = 0;
  for (graph::NodeId id : graph.order) {
    const Node& node = graph.node(id);
    const bool product = node.op == Op::kConv || node.op == Op::kGemm || node.op == Op::kMatMul;
    if (!product || !graph::is_float(graph.value(node.output).dtype)) continue;
    const std::string_view type = source_type(graph, node);
    if (!kIntegerProducts.contains(type) && !of_dequantized(graph, node)) continue;
    ++counts[std::string(type)];
    ++all;
  }
  if (all == 0) return {};
  std::vector<std::string> parts;
  for (const auto& [type, count] : counts) parts.push_back(fmt::format("{} {}", count, sanitize(type, 60)));
  return {fmt::format("{} product{} of quantized tensors {} computed in floating point, not in 8-bit integers ({})",
                      all, all == 1 ? "" : "s", all == 1 ? "is" : "are", fmt::join(parts, ", "))};
}

}  // namespace tcc::onnx
