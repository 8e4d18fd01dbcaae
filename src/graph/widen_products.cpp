// Products of halves on machines that multiply floats:
//
//   MatMul(a, b) of f16   becomes   Cast(MatMul(Cast(a, f32), Cast(b, f32)), f16)
//
// and likewise Gemm and Conv. A kernel that reads halves converts each number of the operand that it broadcasts again
// for every vector of the other one. Sums are of f32 either way, so that results do not change. Products of few rows
// read each weight once: they keep halves, which are half of the bytes.
#include <algorithm>

#include "rewrite.h"

namespace tcc::graph {
namespace {

constexpr int64_t kLeastRows = 8, kLeastColumns = 8;

bool gains(const Graph& graph, const Node& node) {
  const Shape& out = graph.value(node.output).shape;
  if (node.op == Op::kConv) {
    // Filters of one channel each are multiplied along neighbors, without broadcasts.
    const Shape& weight = graph.value(node.inputs[1]).shape;
    return weight[1] > 1 && weight[0] / node.as<ConvAttrs>().group >= kLeastColumns;
  }
  if (node.op != Op::kMatMul && node.op != Op::kGemm) return false;
  // One matrix for all batches makes one product of all rows.
  const int64_t columns = out.empty() ? 1 : out.back();
  const bool shared = node.op == Op::kGemm || graph.value(node.inputs[1]).shape.size() <= 2;
  const int64_t rows = shared ? element_count(out) / std::max<int64_t>(columns, 1) : out[out.size() - 2];
  return rows >= kLeastRows && columns >= kLeastColumns;
}

}  // namespace

int64_t widen_products(Graph& graph, std::span<const DType> types) {
  int64_t count = 0;
  rewrite_nodes(graph, [&](Graph& g, const Node& node) -> std::optional<ValueId> {
    const DType type = g.value(node.output).dtype;
    if (std::find(types.begin(), types.end(), type) == types.end() || !gains(g, node)) return std::nullopt;
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs)
      inputs.push_back(input == kNone ? kNone : emit_node(g, Op::kCast, CastAttrs{DType::kF32}, {input}, node));
    const ValueId product = emit_node(g, node.op, node.attrs, std::move(inputs), node);
    ++count;
    return emit_node(g, Op::kCast, CastAttrs{type}, {product}, node);
  });
  return count;
}

}  // namespace tcc::graph
