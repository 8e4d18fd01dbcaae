// PackedMatMul on targets that do not keep weights of 4 bits: MatMul with the same weights as f32.
#include <cstring>

#include "rewrite.h"

namespace tcc::graph {
namespace {

std::optional<ValueId> unpacked(Graph& graph, const Node& node) {
  if (node.op != Op::kPackedMatMul) return std::nullopt;
  const auto& a = node.as<PackedMatMulAttrs>();
  const int64_t terms = graph.value(node.inputs[0]).shape.back();
  std::vector<std::vector<double>> numbers;
  for (size_t i : {size_t{1}, size_t{2}, size_t{3}}) {
    const Value& v = graph.value(node.inputs[i]);
    if (!v.is_constant()) return std::nullopt;
    numbers.push_back(constant_doubles(*v.constant, v.dtype, v.elements()));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(terms * a.columns) * sizeof(float));
  for (int64_t n = 0; n < a.columns; ++n)
    for (int64_t k = 0; k < terms; ++k) {
      const auto weight = static_cast<float>(packed_weight(a, terms, numbers[0], numbers[1], numbers[2], k, n));
      std::memcpy(bytes.data() + static_cast<size_t>(k * a.columns + n) * sizeof weight, &weight, sizeof weight);
    }
  const ValueId weights = graph.add_constant("", DType::kF32, {terms, a.columns}, make_constant(std::move(bytes)));
  return emit_node(graph, Op::kMatMul, MatMulAttrs{}, {node.inputs[0], weights}, node);
}

}  // namespace

void unpack_products(Graph& graph) {
  rewrite_nodes(graph, unpacked);
}

}  // namespace tcc::graph
