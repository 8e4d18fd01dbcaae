// Text form of a graph: inputs, constants, one line per node, outputs.
#pragma once

#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/support/text.h"

namespace tcc::graph {

inline std::string type_text(const Value& value) {
  return fmt::format("{}[{}]", dtype_name(value.dtype), shape_text(value.shape));
}

inline std::string print_graph(const Graph& graph) {
  std::string text = fmt::format("graph \"{}\"\n", sanitize(graph.name));
  std::vector<char> used(graph.values.size(), 0);
  for (NodeId id : graph.order) {
    for (ValueId input : graph.node(id).inputs) used[static_cast<size_t>(input)] = 1;
  }
  for (ValueId id : graph.outputs) used[static_cast<size_t>(id)] = 1;
  for (ValueId id : graph.inputs) {
    text += fmt::format("  input %{} : {}  \"{}\"\n", id, type_text(graph.value(id)), sanitize(graph.value(id).name));
  }
  for (const Value& value : graph.values) {
    if (!value.is_constant() || !used[static_cast<size_t>(value.id)]) continue;
    text += fmt::format("  const %{} : {}", value.id, type_text(value));
    if (value.constant->splat || value.elements() == 1) {
      text += fmt::format(" = {}", constant_element(*value.constant, value.dtype, 0));
    }
    text += fmt::format("  \"{}\"\n", sanitize(value.name));
  }
  for (NodeId id : graph.order) {
    const Node& node = graph.node(id);
    text += fmt::format("  %{} : {} = {}(", node.output, type_text(graph.value(node.output)), op_name(node.op));
    for (size_t i = 0; i < node.inputs.size(); ++i) text += fmt::format("{}%{}", i ? ", " : "", node.inputs[i]);
    std::string attributes = attributes_text(node);
    text += fmt::format("){}{}  \"{}\"\n", attributes.empty() ? "" : " ", attributes, sanitize(node.name));
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    text += fmt::format("  output %{}  \"{}\"\n", graph.outputs[i], sanitize(graph.output_names[i]));
  }
  return text;
}

}  // namespace tcc::graph
