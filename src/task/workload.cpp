// The text that people read instead of a key.
#include <fmt/ranges.h>

#include <algorithm>

#include "nest.h"

namespace tcc::task {

using graph::Op;

namespace {

// "3" when all entries are equal, else "3x5".
std::string compact_list(const std::vector<int64_t>& v) {
  bool same = std::all_of(v.begin(), v.end(), [&](int64_t x) { return x == v[0]; });
  return same && !v.empty() ? std::to_string(v[0]) : fmt::format("{}", fmt::join(v, "x"));
}

template <class Attrs>
std::string window_text(const Attrs& a) {
  std::string text = fmt::format("k{} s{}", compact_list(a.kernel), compact_list(a.strides));
  std::vector<int64_t> pads = a.pads_begin;
  bool symmetric = a.pads_begin == a.pads_end;
  if (symmetric)
    text += fmt::format(" p{}", compact_list(pads));
  else
    text += fmt::format(" p{}..{}", compact_list(pads), compact_list(a.pads_end));
  if (std::any_of(a.dilations.begin(), a.dilations.end(), [](int64_t d) { return d != 1; })) {
    text += fmt::format(" d{}", compact_list(a.dilations));
  }
  return text;
}

}  // namespace

std::string lower_name(const graph::Node& node) {
  std::string name(graph::node_name(node));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return name;
}

namespace {

std::string anchor_text(const graph::Graph& graph, const graph::Node& node) {
  auto shape = [&](size_t i) { return graph::shape_text(graph.value(node.inputs[i]).shape); };
  const graph::Shape& out = graph.value(node.output).shape;
  switch (node.op) {
    case Op::kConv: {
      const auto& a = node.as<graph::ConvAttrs>();
      const int64_t filters = out[1] * a.block_out;
      std::string text = fmt::format("conv{}d {} -> {} {}", a.kernel.size(), shape(0), filters, window_text(a));
      if (a.block_out > 1) text += fmt::format(" blocks of {}", a.block_out);
      if (a.winograd > 0) text += fmt::format(" winograd{}", a.winograd);
      if (a.group > 1) text += fmt::format(" g{}", a.group);
      return text + (node.inputs.size() == 3 ? " + bias" : "");
    }
    case Op::kGemm: {
      const auto& a = node.as<graph::GemmAttrs>();
      int64_t k = graph.value(node.inputs[0]).shape[a.trans_a ? 0 : 1];
      return fmt::format("gemm {}x{}x{}{}{}{}", out[0], out[1], k, a.trans_a ? " ta" : "", a.trans_b ? " tb" : "",
                         node.inputs.size() == 3 ? " + bias" : "");
    }
    case Op::kMatMul:
      return fmt::format("matmul {} * {}", shape(0), shape(1));
    case Op::kMaxPool:
    case Op::kAveragePool:
      return fmt::format("{}_pool {} {}{}{}", node.op == Op::kMaxPool ? "max" : "average", shape(0),
                         window_text(node.as<graph::PoolAttrs>()), node.as<graph::PoolAttrs>().ceil_mode ? " ceil" : "",
                         node.as<graph::PoolAttrs>().count_include_pad ? " count_pad" : "");
    case Op::kReduceMean:
    case Op::kReduceMax:
    case Op::kReduceSum:
    case Op::kReduceMin:
    case Op::kReduceProd:
      return fmt::format("{} {} over [{}]",
                         node.op == Op::kReduceMean   ? "mean"
                         : node.op == Op::kReduceMax  ? "max"
                         : node.op == Op::kReduceMin  ? "min"
                         : node.op == Op::kReduceProd ? "product"
                                                      : "sum",
                         shape(0), fmt::join(node.as<graph::ReduceAttrs>().axes, ","));
    case Op::kSoftmax:
    case Op::kLogSoftmax:
      return fmt::format("{} {} axis {}", lower_name(node), shape(0), node.as<graph::AxisAttrs>().axis);
    case Op::kLrn:
      return fmt::format("lrn {} size {}", shape(0), node.as<graph::LrnAttrs>().size);
    case Op::kTranspose:
      return fmt::format("transpose {} perm [{}]", shape(0), fmt::join(node.as<graph::TransposeAttrs>().perm, ","));
    case Op::kConcat:
      return fmt::format("concat {} parts -> {} axis {}", node.inputs.size(), graph::shape_text(out),
                         node.as<graph::AxisAttrs>().axis);
    case Op::kPad:
      return fmt::format("pad {} -> {}", shape(0), graph::shape_text(out));
    default: {
      std::string name = lower_name(node);
      if (node.op == Op::kCast) name += fmt::format(" {}", graph::dtype_name(graph.value(node.inputs[0]).dtype));
      if (graph::op_class(node.op) == graph::OpClass::kMove && node.op != Op::kIdentity)
        return fmt::format("{} {} -> {}", name, shape(0), graph::shape_text(out));
      return fmt::format("{} {}", name, graph::shape_text(out));
    }
  }
}

std::string member_text(const graph::Graph& graph, const graph::Node& node) {
  if (node.op == Op::kAdd) {
    bool constant = graph.value(node.inputs[0]).is_constant() || graph.value(node.inputs[1]).is_constant();
    return constant ? "bias" : "residual";
  }
  return lower_name(node);
}

// "attention 1x12x128x128 depth 64 + mul + residual f32": the shape of the scores, the terms of each, and the operators
// between the products.
std::string attention_text(const graph::Graph& graph, const graph::FusionGroup& group) {
  const graph::Node& scores = graph.node(group.anchor);
  const auto& a = scores.as<graph::MatMulAttrs>();
  const graph::Shape& left = graph.value(scores.inputs[0]).shape;
  const int64_t depth = left[a.perm_a.empty() ? left.size() - 1 : static_cast<size_t>(a.perm_a.back())];
  std::string text = fmt::format("attention {} depth {}", graph::shape_text(graph.value(scores.output).shape), depth);
  for (size_t i = 1; i < group.nodes.size(); ++i) {
    const graph::Node& node = graph.node(group.nodes[i]);
    if (graph::op_class(node.op) == graph::OpClass::kElementwise) text += " + " + member_text(graph, node);
  }
  return fmt::format("{} {}", text, graph::dtype_name(graph.value(group.output).dtype));
}

}  // namespace

std::string workload_text(const graph::Graph& graph, const graph::FusionGroup& group) {
  if (is_attention(graph, group)) return attention_text(graph, group);
  std::string text;
  for (graph::NodeId id : group.nodes) {
    if (!text.empty()) text += " + ";
    text += id == group.anchor ? anchor_text(graph, graph.node(id)) : member_text(graph, graph.node(id));
  }
  return fmt::format("{} {}", text, graph::dtype_name(graph.value(group.output).dtype));
}

}  // namespace tcc::task
