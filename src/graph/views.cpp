// Parts of tensors that are a run of bytes need no copies, nor do those that a reader's group reads itself:
// share_memory, place_of and repeat_slices.
#include <algorithm>
#include <set>

#include "passes_internal.h"
#include "rewrite.h"

namespace tcc::graph {
namespace {

bool fills_one(const Shape& shape, size_t axes) {
  return std::all_of(shape.begin(), shape.begin() + static_cast<int64_t>(axes), [](int64_t n) { return n == 1; });
}

// Elements before the slice, where it is one run of its source's elements; -1: it is not. Axes before the first cut
// one give one element each, and those behind it are whole.
int64_t run_start(const SliceAttrs& slice, const Shape& source) {
  const std::vector<int64_t> strides = dense_strides(source);
  int64_t start = 0;
  size_t cut = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    if (slice.steps[i] != 1 && slice.extents[i] > 1) return -1;
    if (slice.extents[i] != source[i]) cut = i;
    start += slice.starts[i] * strides[i];
  }
  return fills_one(slice.extents, cut) ? start : -1;
}

bool is_aligned(int64_t elements, DType dtype) {
  return elements * dtype_size(dtype) % kWorkspaceAlignment == 0;
}

class MemorySharing {
 public:
  explicit MemorySharing(Graph& graph) : graph_(graph) {
    for (ValueId id : graph.outputs) outputs_.insert(storage_root(graph, id));
  }

  void run() {
    const std::vector<NodeId> order = std::move(graph_.order);
    graph_.order.clear();
    for (NodeId id : order) {
      Node& node = graph_.node(id);
      if (node.op == Op::kSlice && is_part(node)) node.op = Op::kPart;
      if (node.op == Op::kConcat && joins(node)) join(id);
      graph_.order.push_back(id);
    }
  }

 private:
  // Callers own the memory of inputs and outputs, and promise no alignment inside of it.
  bool is_in_workspace(ValueId root) const {
    return graph_.value(root).producer != kNone && !outputs_.contains(root) && graph_.value(root).elements() > 0;
  }

  bool is_part(const Node& slice) const {
    const Value& source = graph_.value(slice.inputs[0]);
    if (!is_in_workspace(slice.output) || !is_in_workspace(place_of(graph_, source.id).root)) return false;
    const int64_t start = run_start(slice.as<SliceAttrs>(), source.shape);
    return start >= 0 && is_aligned(start, source.dtype);
  }

  // Can the part be made where the Concat's result has it? It is a tensor of its own that no other Concat has taken.
  bool is_placeable(ValueId part, const std::set<ValueId>& taken) const {
    const Place place = place_of(graph_, part);
    return place.offset == 0 && is_in_workspace(place.root) && !placed_.contains(place.root) &&
           !taken.contains(place.root) && graph_.value(place.root).bytes() == graph_.value(part).bytes();
  }

  // At least half of the bytes have to be made in their place. The rest is copied, as a kernel for the Concat would.
  bool joins(const Node& concat) const {
    const Value& out = graph_.value(concat.output);
    const auto axis = static_cast<size_t>(concat.as<AxisAttrs>().axis);
    if (!is_in_workspace(out.id) || !fills_one(out.shape, axis)) return false;
    int64_t at = 0, in_place = 0;
    std::set<ValueId> taken;
    for (ValueId part : concat.inputs) {
      if (!is_aligned(at, out.dtype)) return false;
      at += graph_.value(part).elements();
      if (is_placeable(part, taken)) in_place += graph_.value(part).elements();
      taken.insert(place_of(graph_, part).root);
    }
    return 2 * in_place >= at;
  }

  void join(NodeId id) {
    const Node concat = graph_.node(id);
    std::vector<ValueId> parts;
    for (ValueId part : concat.inputs) {
      const bool empty = graph_.value(part).elements() == 0;
      if (!empty && !is_placeable(part, {})) part = emit_node(graph_, Op::kIdentity, NoAttrs{}, {part}, concat);
      if (!empty) placed_.insert(place_of(graph_, part).root);
      parts.push_back(part);
    }
    Node& node = graph_.node(id);
    node.inputs = std::move(parts);
    node.op = Op::kJoin;
  }

  Graph& graph_;
  std::set<ValueId> outputs_, placed_;  // storage roots
};

// Does the node make the slice's elements where it reads them?
bool reads_inside(const Graph& graph, const Node& node, const Node& slice) {
  return node.op == Op::kConcat || (op_class(node.op) == OpClass::kElementwise &&
                                    graph.value(node.output).shape == graph.value(slice.output).shape);
}

}  // namespace

Place place_of(const Graph& graph, ValueId id) {
  Place place{id, 0};
  while (graph.value(place.root).producer != kNone) {
    const Node& node = graph.node(graph.value(place.root).producer);
    if (op_class(node.op) != OpClass::kView || node.op == Op::kJoin) break;
    const Value& source = graph.value(node.inputs[0]);
    if (node.op == Op::kPart) place.offset += run_start(node.as<SliceAttrs>(), source.shape) * dtype_size(source.dtype);
    place.root = source.id;
  }
  return place;
}

ValueId storage_root(const Graph& graph, ValueId id) {
  return place_of(graph, id).root;
}

void share_memory(Graph& graph) {
  MemorySharing(graph).run();
}

void repeat_slices(Graph& graph) {
  const auto consumers = find_consumers(graph);
  const std::vector<NodeId> order = std::move(graph.order);
  graph.order.clear();
  for (NodeId id : order) {
    graph.order.push_back(id);
    const Node slice = graph.node(id);
    if (slice.op != Op::kSlice) continue;
    if (std::find(graph.outputs.begin(), graph.outputs.end(), slice.output) != graph.outputs.end()) continue;
    const std::vector<NodeId>& listed = consumers[static_cast<size_t>(slice.output)];
    const std::set<NodeId> readers(listed.begin(), listed.end());
    const bool inside = std::all_of(readers.begin(), readers.end(),
                                    [&](NodeId reader) { return reads_inside(graph, graph.node(reader), slice); });
    if (!inside) continue;
    for (NodeId reader : readers) {
      if (reader == *readers.begin()) continue;
      const ValueId own = emit_node(graph, Op::kSlice, slice.attrs, slice.inputs, slice);
      std::vector<ValueId>& inputs = graph.node(reader).inputs;
      std::replace(inputs.begin(), inputs.end(), slice.output, own);
    }
  }
}

}  // namespace tcc::graph
