#include <fmt/ranges.h>

#include "tcc/graph/passes.h"
#include "tcc/onnx/importer.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

using graph::Node;

namespace {

constexpr size_t kNamedProducts = 3;

}  // namespace

std::vector<std::string> import_notes(const graph::Graph& graph) {
  graph::Graph integers = graph;
  const std::vector<graph::FloatProduct> left = graph::quantize_products(integers);
  if (left.empty()) return {};
  std::vector<std::string> parts;
  for (const graph::FloatProduct& p : left) {
    if (parts.size() == kNamedProducts) break;
    const Node& node = integers.node(p.node);
    const bool known = !node.sources.empty();
    const graph::SourceNode source = known ? graph.sources[static_cast<size_t>(node.sources.front())]
                                           : graph::SourceNode{node.name, std::string(graph::node_name(node))};
    parts.push_back(fmt::format("{} '{}': {}", sanitize(source.type, 60), sanitize(source.name, 60), p.reason));
  }
  if (left.size() > parts.size()) parts.push_back(fmt::format("{} more", left.size() - parts.size()));
  return {fmt::format("{} product{} of quantized tensors {} computed in floating point, not in 8-bit integers ({})",
                      left.size(), left.size() == 1 ? "" : "s", left.size() == 1 ? "is" : "are",
                      fmt::join(parts, "; "))};
}

}  // namespace tcc::onnx
