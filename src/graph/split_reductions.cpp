#include "tcc/graph/split_reductions.h"

#include "rewrite.h"

namespace tcc::graph {
namespace {

constexpr int64_t kLeastElements = int64_t{1} << 16;
constexpr int64_t kShortestRun = 1024, kLongestRun = 8192;  // elements

bool splits(const Graph& graph, const std::vector<std::vector<NodeId>>& consumers, const Node& node) {
  if (node.op != Op::kReduceSum && node.op != Op::kReduceMean && node.op != Op::kReduceMax && node.op != Op::kReduceMin)
    return false;
  const Value& x = graph.value(node.inputs[0]);
  // Sums of halves are not rounded on the way.
  const bool rounds = x.dtype == DType::kF16 || x.dtype == DType::kBF16;
  if (graph.value(node.output).elements() != 1 || x.elements() < kLeastElements || rounds || x.is_constant())
    return false;
  // The reduction's kernel makes what it alone reads.
  return x.producer == kNone || op_class(graph.node(x.producer).op) != OpClass::kElementwise ||
         consumers[static_cast<size_t>(node.inputs[0])].size() > 1;
}

// The longest run that divides the elements; 0: none.
int64_t run_of(int64_t elements) {
  for (int64_t run = kLongestRun; run >= kShortestRun; --run)
    if (elements % run == 0) return run;
  return 0;
}

}  // namespace

int64_t split_reductions(Graph& graph) {
  const std::vector<std::vector<NodeId>> consumers = find_consumers(graph);
  int64_t count = 0;
  rewrite_nodes(graph, [&](Graph& g, const Node& node) -> std::optional<ValueId> {
    if (!splits(g, consumers, node)) return std::nullopt;
    const int64_t elements = g.value(node.inputs[0]).elements(), run = run_of(elements);
    if (run == 0) return std::nullopt;
    const Shape shape = g.value(node.output).shape;
    ReduceAttrs attrs = node.as<ReduceAttrs>();
    attrs.keep_dims = false;
    attrs.axes = {1};
    const ValueId rows = emit_reshape(g, node.inputs[0], {elements / run, run});
    const ValueId each = emit_node(g, node.op, attrs, {rows}, node);
    attrs.axes = {0};
    ++count;
    return emit_reshape(g, emit_node(g, node.op, attrs, {each}, node), shape);
  });
  return count;
}

}  // namespace tcc::graph
