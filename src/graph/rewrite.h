// Replacing values while a pass rebuilds the order of a graph's nodes.
#pragma once

#include <optional>
#include <vector>

#include "passes_internal.h"
#include "tcc/support/check.h"

namespace tcc::graph {

// Values replaced by others, and the graph rewritten to follow.
class Replacements {
 public:
  explicit Replacements(Graph& graph) : graph_(graph) {}
  // The producer of `to` takes over the sources of the producer of `from` (Node::sources).
  void replace(ValueId from, ValueId to) {
    grow();
    to_[static_cast<size_t>(from)] = to;
    const NodeId old = graph_.value(from).producer, now = graph_.value(to).producer;
    if (old != kNone && now != kNone && old != now)
      add_sources(graph_.node(now), std::vector<int32_t>(graph_.node(old).sources));
  }
  void update(Node& node) {
    grow();
    for (ValueId& input : node.inputs) input = resolve(input);
  }
  void update_outputs() {
    grow();
    for (ValueId& output : graph_.outputs) output = resolve(output);
  }

 private:
  void grow() {
    while (to_.size() < graph_.values.size()) to_.push_back(static_cast<ValueId>(to_.size()));
  }
  // Targets are resolved when recorded in topological order, so one step is enough.
  ValueId resolve(ValueId id) const { return to_[static_cast<size_t>(id)]; }

  Graph& graph_;
  std::vector<ValueId> to_;
};

// A node that is right by construction, appended to graph.order.
inline ValueId emit_node(Graph& graph, Op op, Attributes attrs, std::vector<ValueId> inputs, const std::string& name) {
  auto made = graph.add_node(op, std::move(attrs), std::move(inputs), name);
  TCC_CHECK(made.has_value(), "a pass made a wrong node: {}", made ? "" : made.error().message);
  return *made;
}
// The same in place of `of`, whose name and sources it has.
inline ValueId emit_node(Graph& graph, Op op, Attributes attrs, std::vector<ValueId> inputs, const Node& of) {
  const std::vector<int32_t> sources = of.sources;
  const ValueId made = emit_node(graph, op, std::move(attrs), std::move(inputs), std::string(of.name));
  add_sources(graph.node(graph.value(made).producer), sources);
  return made;
}
// Each node in order: where `emit` appends nodes and returns a value, that value takes the place of the node's.
template <class Emit>
void rewrite_nodes(Graph& graph, Emit&& emit) {
  Replacements replacements(graph);
  const std::vector<NodeId> order = std::move(graph.order);
  graph.order.clear();
  for (NodeId id : order) {
    replacements.update(graph.node(id));
    const Node node = graph.node(id);
    if (const std::optional<ValueId> made = emit(graph, node))
      replacements.replace(node.output, *made);
    else
      graph.order.push_back(id);
  }
  replacements.update_outputs();
}

// `id` under another shape: the same value, a constant that shares its bytes, or a Reshape.
inline ValueId emit_reshape(Graph& graph, ValueId id, const Shape& shape) {
  const Value value = graph.value(id);
  if (value.shape == shape) return id;
  if (value.is_constant()) return graph.add_constant(value.name, value.dtype, shape, *value.constant);
  return emit_node(graph, Op::kReshape, ReshapeAttrs{shape}, {id}, value.name);
}

// A node, or a constant where it moves elements of constants.
inline ValueId emit_folded(Graph& graph, Op op, Attributes attrs, std::vector<ValueId> inputs) {
  const std::string name = graph.value(inputs[0]).name;
  const size_t before = graph.order.size();
  const ValueId made = emit_node(graph, op, std::move(attrs), std::move(inputs), name);
  auto constant = evaluate_exactly(graph, graph.node(graph.value(made).producer));
  if (!constant || !*constant) return made;
  graph.order.resize(before);
  const Value value = graph.value(made);
  return graph.add_constant(name, value.dtype, value.shape, **constant);
}

// `id` with its axes in another order: a constant, or a Transpose.
inline ValueId emit_transposed(Graph& graph, ValueId id, const std::vector<int64_t>& perm) {
  return emit_folded(graph, Op::kTranspose, TransposeAttrs{perm}, {id});
}

// `id` with `extent` places along the axis: those behind its own are `value`, or the last ones are left out.
inline ValueId emit_resized(Graph& graph, ValueId id, size_t axis, int64_t extent, double value = 0) {
  const Shape own = graph.value(id).shape;
  if (own[axis] == extent) return id;
  if (own[axis] > extent) {
    SliceAttrs slice{Shape(own.size(), 0), Shape(own.size(), 1), own};
    slice.extents[axis] = extent;
    return emit_folded(graph, Op::kSlice, slice, {id});
  }
  if (graph.value(id).is_constant()) {
    Shape behind = own;
    behind[axis] = extent - own[axis];
    const Value like = graph.value(id);
    const std::vector<double> values(static_cast<size_t>(element_count(behind)), value);
    const ValueId fill =
        graph.add_constant(like.name, like.dtype, behind, make_constant_from_doubles(like.dtype, values));
    return emit_folded(graph, Op::kConcat, AxisAttrs{static_cast<int64_t>(axis)}, {id, fill});
  }
  PadAttrs pad{Shape(own.size(), 0), Shape(own.size(), 0), value};
  pad.end[axis] = extent - own[axis];
  return emit_folded(graph, Op::kPad, pad, {id});
}

// How often live nodes and outputs read each value, by ValueId.
inline std::vector<int64_t> count_readers(const Graph& graph) {
  std::vector<int64_t> readers(graph.values.size(), 0);
  for (NodeId id : graph.order) {
    for (ValueId input : graph.node(id).inputs) ++readers[static_cast<size_t>(input)];
  }
  for (ValueId id : graph.outputs) ++readers[static_cast<size_t>(id)];
  return readers;
}

}  // namespace tcc::graph
