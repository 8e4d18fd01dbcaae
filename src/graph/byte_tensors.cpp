// What models do with tensors of 8 bits besides products, in fewer bytes:
//
//   Cast(f(Concat(a, b)), u8)                       becomes  Concat(Cast(f(a), u8), Cast(f(b), u8))
//   ReduceMean(Mul(Sub(Cast(q, f32), z), s))        becomes  Mul(Cast(ReduceSum(Cast(q, i32)) - n * z, f32), s / n)
//
// for an elementwise f with constant scalars. The first leaves no floats in memory where a and b come from 8 bits. The
// sums of the second are exact.
#include <algorithm>
#include <cmath>
#include <map>

#include "rewrite.h"

namespace tcc::graph {
namespace {

constexpr double kMostSummed = double{1 << 23};  // numbers of 8 bits whose sum is an i32

class ByteTensors {
 public:
  explicit ByteTensors(Graph& graph) : graph_(graph), consumers_(find_consumers(graph)) {
    for (NodeId id : graph.order)
      if (const Node& node = graph.node(id); node.op == Op::kConcat) find_chain(node);
  }

  void run() {
    rewrite_nodes(graph_, [this](Graph&, const Node& node) -> std::optional<ValueId> {
      if (const auto chain = chains_.find(node.id); chain != chains_.end()) return concat_of_bytes(chain->second);
      return node.op == Op::kReduceMean ? mean_of_bytes(node) : std::nullopt;
    });
    remove_dead_nodes(graph_);
  }

 private:
  struct Chain {
    NodeId concat = kNone;
    std::vector<NodeId> nodes;  // the last one gives 8 bits
  };

  const Value& value(ValueId id) const { return graph_.value(id); }
  bool read_once(ValueId id) const {
    return consumers_[static_cast<size_t>(id)].size() == 1 &&
           std::find(graph_.outputs.begin(), graph_.outputs.end(), id) == graph_.outputs.end();
  }
  std::optional<double> number(ValueId id) const {
    const Value& v = value(id);
    if (!v.is_constant() || v.elements() != 1) return std::nullopt;
    return constant_element(*v.constant, v.dtype, 0);
  }
  // Does the node map each element of `from` by itself, whatever its place?
  bool maps(const Node& node, ValueId from) const {
    if (op_class(node.op) != OpClass::kElementwise || node.op == Op::kBatchNorm ||
        value(node.output).shape != value(from).shape)
      return false;
    return std::count(node.inputs.begin(), node.inputs.end(), from) == 1 &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return id == from || number(id); });
  }

  void find_chain(const Node& concat) {
    Chain chain{concat.id, {}};
    ValueId end = concat.output;
    while (dtype_size(value(end).dtype) > 1) {
      if (!read_once(end)) return;
      const Node& next = graph_.node(consumers_[static_cast<size_t>(end)][0]);
      if (!maps(next, end)) return;
      chain.nodes.push_back(next.id);
      end = next.output;
    }
    if (!chain.nodes.empty() && is_byte(value(end).dtype)) chains_.emplace(chain.nodes.back(), chain);
  }

  ValueId concat_of_bytes(const Chain& chain) {
    const Node concat = graph_.node(chain.concat);
    std::vector<ValueId> parts;
    for (ValueId part : concat.inputs) {
      ValueId from = concat.output;
      for (NodeId id : chain.nodes) {
        const Node node = graph_.node(id);
        std::vector<ValueId> inputs;
        for (ValueId input : node.inputs) inputs.push_back(input == from ? part : scalar(input));
        part = emit_node(graph_, node.op, node.attrs, std::move(inputs), node);
        from = node.output;
      }
      parts.push_back(part);
    }
    return emit_node(graph_, Op::kConcat, concat.attrs, std::move(parts), concat);
  }
  // A constant of one element without axes.
  ValueId scalar(ValueId id) { return emit_reshape(graph_, id, {}); }

  const Node* maker(ValueId id) const {
    return value(id).is_constant() || value(id).producer == kNone ? nullptr : &graph_.node(value(id).producer);
  }

  std::optional<ValueId> mean_of_bytes(const Node& mean) {
    const Shape& shape = value(mean.inputs[0]).shape;
    double scale = 1, zero = 0, count = 1;
    for (int64_t axis : mean.as<ReduceAttrs>().axes) count *= static_cast<double>(shape[static_cast<size_t>(axis)]);
    const Node* node = maker(mean.inputs[0]);
    auto next = [&](Op op, double& into) {
      if (node == nullptr || node->op != op || !read_once(node->output)) return;
      const std::optional<double> given = number(node->inputs[1]);
      if (!given || !maps(*node, node->inputs[0])) return;
      into = *given;
      node = maker(node->inputs[0]);
    };
    next(Op::kMul, scale);
    next(Op::kSub, zero);
    if (node == nullptr || node->op != Op::kCast || !read_once(node->output) ||
        value(mean.output).dtype != DType::kF32 || !is_byte(value(node->inputs[0]).dtype) ||
        value(node->output).dtype != DType::kF32)
      return std::nullopt;
    if (count < 2 || count > kMostSummed || zero != std::round(zero) || std::fabs(zero) > 255) return std::nullopt;
    auto constant = [&](DType dtype, double x) { return graph_.add_constant("", dtype, {}, make_splat(dtype, x)); };
    auto emit = [&](Op op, Attributes attrs, std::vector<ValueId> inputs) {
      return emit_node(graph_, op, std::move(attrs), std::move(inputs), mean);
    };
    ValueId sum = emit(Op::kCast, CastAttrs{DType::kI32}, {node->inputs[0]});
    sum = emit(Op::kReduceSum, mean.attrs, {sum});
    if (zero != 0) sum = emit(Op::kSub, NoAttrs{}, {sum, constant(DType::kI32, count * zero)});
    const ValueId whole = emit(Op::kCast, CastAttrs{DType::kF32}, {sum});
    return emit(Op::kMul, NoAttrs{}, {whole, constant(DType::kF32, scale / count)});
  }

  Graph& graph_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::map<NodeId, Chain> chains_;  // by the last node
};

}  // namespace

void shrink_byte_tensors(Graph& graph) {
  ByteTensors(graph).run();
}

}  // namespace tcc::graph
