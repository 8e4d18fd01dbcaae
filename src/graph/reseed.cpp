// Seeded weights of sane scale for models whose own were replaced by constants.
//
// Contractions are drawn by He's rule, which keeps the variance of activations through a ReLU. A residual network
// would still double it at every addition, so a contraction that feeds an addition of two run-time values gets a
// quarter of the deviation: the branch then adds an eighth of the variance.
#include <cmath>

#include "passes_internal.h"
#include "tcc/support/rng.h"

namespace tcc::graph {
namespace {

bool feeds_residual_add(const Graph& graph, const std::vector<std::vector<NodeId>>& consumers, const Node& node) {
  ValueId value = node.output;
  while (true) {
    const auto& readers = consumers[static_cast<size_t>(value)];
    if (readers.size() != 1) return false;
    const Node& reader = graph.node(readers[0]);
    bool affine =
        reader.op == Op::kBatchNorm || reader.op == Op::kMul || reader.op == Op::kAdd || reader.op == Op::kIdentity;
    if (!affine) return false;
    if (reader.op == Op::kAdd && !graph.value(reader.inputs[0]).is_constant() &&
        !graph.value(reader.inputs[1]).is_constant()) {
      return true;
    }
    value = reader.output;
  }
}

struct Distribution {
  enum Kind { kKeep, kNormal, kUniform } kind = kKeep;
  double a = 0, b = 0;  // mean and deviation, or lower and upper bound
};

Distribution contraction_weight(const Graph& graph, const Node& node, bool residual) {
  const Shape& weight = graph.value(node.inputs[1]).shape;
  double fan_in = 1;
  if (node.op == Op::kConv) {
    for (size_t i = 1; i < weight.size(); ++i) fan_in *= static_cast<double>(weight[i]);
  } else {
    bool transposed = node.op == Op::kGemm && node.as<GemmAttrs>().trans_b;
    size_t axis = weight.size() < 2 ? 0 : weight.size() - (transposed ? 1 : 2);
    fan_in = static_cast<double>(weight[axis]);
  }
  return {Distribution::kNormal, 0, std::sqrt(2 / fan_in) * (residual ? 0.25 : 1)};
}

Distribution distribution_of(const Graph& graph, const std::vector<std::vector<NodeId>>& consumers, const Node& node,
                             size_t input) {
  bool many = graph.value(node.inputs[input]).elements() > 1;
  switch (node.op) {
    case Op::kConv:
    case Op::kGemm:
    case Op::kMatMul:
      if (input == 2) return {Distribution::kNormal, 0, 0.05};
      if (input == 1) return contraction_weight(graph, node, feeds_residual_add(graph, consumers, node));
      return {};
    case Op::kBatchNorm:
      if (input == 0) return {};
      if (input == 1 || input == 4) return {Distribution::kUniform, 0.8, 1.2};
      return {Distribution::kNormal, 0, 0.1};
    case Op::kMul:
    case Op::kDiv:
      if (many) return {Distribution::kUniform, 0.8, 1.2};
      return {};
    case Op::kAdd:
    case Op::kSub:
      if (many) return {Distribution::kNormal, 0, 0.1};
      return {};
    default:
      return {};
  }
}

}  // namespace

void reseed_weights(Graph& graph, uint64_t seed) {
  auto consumers = find_consumers(graph);
  std::vector<char> done(graph.values.size(), 0);
  Rng root(seed);
  for (NodeId id : graph.order) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      Value& value = graph.value(node.inputs[i]);
      if (!value.is_constant() || !is_float(value.dtype) || done[static_cast<size_t>(value.id)]) continue;
      Distribution d = distribution_of(graph, consumers, node, i);
      if (d.kind == Distribution::kKeep) continue;
      done[static_cast<size_t>(value.id)] = 1;
      Rng rng = root.fork(static_cast<uint64_t>(value.id));
      std::vector<double> numbers(static_cast<size_t>(value.elements()));
      for (double& x : numbers) {
        x = d.kind == Distribution::kNormal ? d.a + d.b * rng.normal() : d.a + (d.b - d.a) * rng.uniform();
      }
      value.constant = make_constant_from_doubles(value.dtype, numbers);
    }
  }
}

}  // namespace tcc::graph
