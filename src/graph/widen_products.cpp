// Products of halves on machines that multiply floats:
//
//   MatMul(a, b) of f16   becomes   Cast(MatMul(Cast(a, f32), Cast(b, f32)), f16)
//
// and likewise Gemm and Conv. A kernel that reads halves converts each number of the operand that it broadcasts again
// for every vector of the other one. Sums are of f32 either way. Operators behind them that take any type follow in f32
// as far as it goes, so that nothing is converted between two products. Products of few rows read each weight once:
// they keep halves, which are half of the bytes.
#include <algorithm>
#include <map>
#include <set>

#include "rewrite.h"

namespace tcc::graph {
namespace {

constexpr int64_t kLeastRows = 8, kLeastColumns = 2;

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

bool takes_any_type(Op op) {
  return op_precision(op) == OpPrecision::kFollow || op == Op::kUnary || op == Op::kBinary || op == Op::kReduceSum;
}

class Widening {
 public:
  explicit Widening(std::span<const DType> types) : types_(types) {}
  int64_t count() const { return count_; }
  const std::set<NodeId>& conversions() const { return conversions_; }

  std::optional<ValueId> rewrite(Graph& g, const Node& node) {
    // What was rounded for a reader that wants floats is not rounded.
    if (node.op == Op::kCast && g.value(node.output).dtype == DType::kF32)
      if (const auto wide = wide_.find(node.inputs[0]); wide != wide_.end()) return wide->second;
    const DType type = g.value(node.output).dtype;
    if (!is_half(type)) return std::nullopt;
    const bool product = gains(g, node);
    if (!product && !(takes_any_type(node.op) && follows(g, node))) return std::nullopt;
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(input == kNone ? kNone : widened(g, input, node));
    const ValueId result = emit_node(g, node.op, node.attrs, std::move(inputs), node);
    count_ += product ? 1 : 0;
    // Readers that stay in halves have it, too.
    const ValueId rounded = emit_node(g, Op::kCast, CastAttrs{type}, {result}, node);
    wide_[rounded] = result;
    return rounded;
  }

 private:
  bool is_half(DType type) const { return std::find(types_.begin(), types_.end(), type) != types_.end(); }
  // Halves that are floats already, or constants, and one of the former at least.
  bool follows(const Graph& g, const Node& node) const {
    bool any = false;
    for (ValueId input : node.inputs) {
      if (input == kNone || !is_half(g.value(input).dtype)) continue;
      const bool wide = wide_.contains(input);
      if (!wide && !g.value(input).is_constant()) return false;
      any |= wide;
    }
    return any;
  }
  ValueId widened(Graph& g, ValueId input, const Node& of) {
    if (!is_half(g.value(input).dtype)) return input;
    auto [at, is_new] = wide_.try_emplace(input, kNone);
    if (is_new) {
      at->second = emit_node(g, Op::kCast, CastAttrs{DType::kF32}, {input}, of);
      conversions_.insert(g.value(at->second).producer);
    }
    return at->second;
  }

  std::span<const DType> types_;
  std::map<ValueId, ValueId> wide_;  // of halves: the same as floats
  std::set<NodeId> conversions_;     // of operands that others made
  int64_t count_ = 0;
};

}  // namespace

void advance_conversions(Graph& graph, const std::set<NodeId>& conversions) {
  const std::vector<NodeId> order = std::move(graph.order);
  graph.order.clear();
  std::multimap<NodeId, NodeId> behind;  // kNone: an input of the graph
  for (NodeId id : conversions) behind.emplace(graph.value(graph.node(id).inputs[0]).producer, id);
  auto append_behind = [&](NodeId producer) {
    for (auto [it, end] = behind.equal_range(producer); it != end; ++it) graph.order.push_back(it->second);
  };
  append_behind(kNone);
  for (NodeId id : order) {
    if (conversions.contains(id)) continue;
    graph.order.push_back(id);
    append_behind(id);
  }
}

int64_t widen_products(Graph& graph, std::span<const DType> types) {
  if (types.empty()) return 0;
  Widening widening(types);
  rewrite_nodes(graph, [&](Graph& g, const Node& node) { return widening.rewrite(g, node); });
  advance_conversions(graph, widening.conversions());
  return widening.count();
}

}  // namespace tcc::graph
