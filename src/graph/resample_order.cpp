#include "tcc/graph/resample_order.h"

#include <algorithm>
#include <numeric>

#include "passes_internal.h"
#include "rewrite.h"

namespace tcc::graph {
namespace {

// Of a tap, in units of one that reads whole vectors: the last axis picks each lane's element by itself.
constexpr double kGatherCost = 6;
// Of an element that is written to memory and read again.
constexpr double kMemoryCost = 2;

double tap_cost(int64_t axis, size_t rank) {
  return axis + 1 == static_cast<int64_t>(rank) ? kGatherCost : 1;
}

struct Order {
  std::vector<size_t> places;  // in ResampleAttrs::axes
  double cost = 0;
};

Order best_order(const Graph& graph, const Node& node) {
  const auto& axes = node.as<ResampleAttrs>().axes;
  const Shape &in = graph.value(node.inputs[0]).shape, &out = graph.value(node.output).shape;
  std::vector<size_t> places(axes.size());
  std::iota(places.begin(), places.end(), size_t{0});
  Order best;
  do {
    Shape shape = in;
    double cost = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      const auto axis = static_cast<size_t>(axes[places[i]]);
      shape[axis] = out[axis];
      const auto taps = static_cast<double>(graph.value(node.inputs[1 + 2 * places[i]]).shape[1]);
      const double each = taps * tap_cost(axes[places[i]], in.size()) + (i + 1 < places.size() ? kMemoryCost : 0);
      cost += each * static_cast<double>(element_count(shape));
    }
    if (best.places.empty() || cost < best.cost) best = {places, cost};
  } while (std::next_permutation(places.begin(), places.end()));
  return best;
}

double joint_cost(const Graph& graph, const Node& node) {
  const auto& axes = node.as<ResampleAttrs>().axes;
  const Shape& out = graph.value(node.output).shape;
  double taps = 1, each = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    taps *= static_cast<double>(graph.value(node.inputs[1 + 2 * i]).shape[1]);
    each = std::max(each, tap_cost(axes[i], out.size()));
  }
  return taps * each * static_cast<double>(element_count(out));
}

// nullopt: the node stays as it is. Short floats do, too: what is between two axes would be rounded to them.
std::optional<ValueId> emit_separate(Graph& graph, const Node& node) {
  constexpr size_t kMostAxes = 4;  // whose orders are compared
  if (node.op != Op::kResample) return std::nullopt;
  const std::vector<int64_t> axes = node.as<ResampleAttrs>().axes;
  const DType type = graph.value(node.output).dtype;
  if (axes.size() < 2 || axes.size() > kMostAxes || (type != DType::kF32 && type != DType::kF64)) return std::nullopt;
  const Order order = best_order(graph, node);
  if (order.cost >= joint_cost(graph, node)) return std::nullopt;
  ValueId x = node.inputs[0];
  for (size_t place : order.places)
    x = emit_node(graph, Op::kResample, ResampleAttrs{{axes[place]}},
                  {x, node.inputs[1 + 2 * place], node.inputs[2 + 2 * place]}, node);
  return x;
}

}  // namespace

void separate_resamples(Graph& graph) {
  rewrite_nodes(graph, emit_separate);
}

}  // namespace tcc::graph
