// Text form of a graph: inputs, constants, one line per node, outputs.
#pragma once

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/support/text.h"

namespace tcc::graph {

inline std::string list_text(const std::vector<int64_t>& v) {
  return fmt::format("[{}]", fmt::join(v, ","));
}

struct AttributePrinter {
  std::string operator()(const NoAttrs&) const { return ""; }
  std::string operator()(const ConvAttrs& a) const {
    std::string text =
        fmt::format("kernel={} strides={} dilations={} pads={}{} group={}", list_text(a.kernel), list_text(a.strides),
                    list_text(a.dilations), list_text(a.pads_begin), list_text(a.pads_end), a.group);
    if (a.block_in > 1 || a.block_out > 1) text += fmt::format(" blocks={}->{}", a.block_in, a.block_out);
    if (a.winograd > 0) text += fmt::format(" winograd={}", a.winograd);
    return text;
  }
  std::string operator()(const PoolAttrs& a) const {
    return fmt::format("kernel={} strides={} dilations={} pads={}{}{}{}{}", list_text(a.kernel), list_text(a.strides),
                       list_text(a.dilations), list_text(a.pads_begin), list_text(a.pads_end),
                       a.ceil_mode ? " ceil" : "", a.count_include_pad ? " count_include_pad" : "",
                       a.block > 1 ? fmt::format(" block={}", a.block) : "");
  }
  std::string operator()(const MatMulAttrs& a) const {
    std::string text;
    auto add = [&](const char* name, const std::vector<int64_t>& perm) {
      if (!perm.empty()) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, list_text(perm));
    };
    add("perm_a", a.perm_a);
    add("perm_b", a.perm_b);
    add("perm_out", a.perm_out);
    return text;
  }
  std::string operator()(const GemmAttrs& a) const {
    return fmt::format("alpha={} beta={}{}{}", a.alpha, a.beta, a.trans_a ? " trans_a" : "",
                       a.trans_b ? " trans_b" : "");
  }
  std::string operator()(const BatchNormAttrs& a) const { return fmt::format("epsilon={}", a.epsilon); }
  std::string operator()(const AxisAttrs& a) const { return fmt::format("axis={}", a.axis); }
  std::string operator()(const LrnAttrs& a) const {
    return fmt::format("alpha={} beta={} bias={} size={}", a.alpha, a.beta, a.bias, a.size);
  }
  std::string operator()(const ClipAttrs& a) const { return fmt::format("min={} max={}", a.min, a.max); }
  std::string operator()(const LeakyAttrs& a) const { return fmt::format("alpha={}", a.alpha); }
  std::string operator()(const TransposeAttrs& a) const { return fmt::format("perm={}", list_text(a.perm)); }
  std::string operator()(const PadAttrs& a) const {
    return fmt::format("pads={}{} value={}", list_text(a.begin), list_text(a.end), a.value);
  }
  std::string operator()(const ReduceAttrs& a) const {
    return fmt::format("axes={}{}", list_text(a.axes), a.keep_dims ? " keep_dims" : "") +
           (a.keeps_nan ? " keeps_nan" : "");
  }
  std::string operator()(const ReshapeAttrs& a) const { return fmt::format("shape={}", list_text(a.shape)); }
  std::string operator()(const UnaryAttrs& a) const {
    std::string text(unary_row(a.fn).name);
    if (a.alpha != 0 || a.beta != 0) text += fmt::format(" alpha={}", a.alpha);
    if (a.beta != 0) text += fmt::format(" beta={}", a.beta);
    return text;
  }
  std::string operator()(const BinaryAttrs& a) const { return std::string(binary_name(a.fn)); }
  std::string operator()(const CastAttrs& a) const { return fmt::format("to={}", dtype_name(a.to)); }
  std::string operator()(const SliceAttrs& a) const {
    return fmt::format("starts={} steps={} extents={}", list_text(a.starts), list_text(a.steps), list_text(a.extents));
  }
  std::string operator()(const GatherNdAttrs& a) const { return fmt::format("batch_dims={}", a.batch_dims); }
  std::string operator()(const ResampleAttrs& a) const { return fmt::format("axes={}", list_text(a.axes)); }
  std::string operator()(const FoldAttrs& a) const {
    return fmt::format("image={} strides={} dilations={} pads={}", list_text(a.image), list_text(a.strides),
                       list_text(a.dilations), list_text(a.pads));
  }
  std::string operator()(const ScanAttrs& a) const {
    return fmt::format("axis={}{}{}{}", a.axis, a.exclusive ? " exclusive" : "", a.reverse ? " reverse" : "",
                       a.product ? " product" : "");
  }
  std::string operator()(const ScatterAttrs& a) const {
    return fmt::format("axis={} reduction={}", a.axis, static_cast<int>(a.reduction));
  }
  std::string operator()(const TopKAttrs& a) const {
    return fmt::format("axis={} k={}{}", a.axis, a.k, a.largest ? " largest" : "");
  }
  std::string operator()(const ArgAttrs& a) const {
    return fmt::format("axis={}{}{}", a.axis, a.greatest ? " greatest" : "", a.last ? " last" : "");
  }
  std::string operator()(const FindAttrs& a) const { return fmt::format("extent={}", a.extent); }
  std::string operator()(const PackedMatMulAttrs& a) const {
    return fmt::format("columns={} block={}", a.columns, a.block);
  }
  std::string operator()(const SuppressAttrs& a) const {
    return fmt::format("most={} most_overlap={} least_score={}", a.most, a.most_overlap, a.least_score);
  }
  std::string operator()(const LayerNormAttrs& a) const { return fmt::format("axis={} epsilon={}", a.axis, a.epsilon); }
};

inline std::string attributes_text(const Node& node) {
  return std::visit(AttributePrinter{}, node.attrs);
}

inline std::string type_text(const Value& value) {
  return fmt::format("{}[{}]", dtype_name(value.dtype), shape_text(value.shape));
}

inline std::string print_graph(const Graph& graph) {
  std::string text = fmt::format("graph \"{}\"\n", sanitize(graph.name));
  std::vector<char> used(graph.values.size(), 0);
  for (NodeId id : graph.order) {
    for (ValueId input : graph.node(id).inputs) used[static_cast<size_t>(input)] = 1;
  }
  for (ValueId id : graph.outputs) used[static_cast<size_t>(id)] = 1;
  for (ValueId id : graph.inputs) {
    text += fmt::format("  input %{} : {}  \"{}\"\n", id, type_text(graph.value(id)), sanitize(graph.value(id).name));
  }
  for (const Value& value : graph.values) {
    if (!value.is_constant() || !used[static_cast<size_t>(value.id)]) continue;
    text += fmt::format("  const %{} : {}", value.id, type_text(value));
    if (value.constant->splat || value.elements() == 1) {
      text += fmt::format(" = {}", constant_element(*value.constant, value.dtype, 0));
    }
    text += fmt::format("  \"{}\"\n", sanitize(value.name));
  }
  for (NodeId id : graph.order) {
    const Node& node = graph.node(id);
    text += fmt::format("  %{} : {} = {}(", node.output, type_text(graph.value(node.output)), op_name(node.op));
    for (size_t i = 0; i < node.inputs.size(); ++i) text += fmt::format("{}%{}", i ? ", " : "", node.inputs[i]);
    std::string attributes = attributes_text(node);
    text += fmt::format("){}{}  \"{}\"\n", attributes.empty() ? "" : " ", attributes, sanitize(node.name));
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    text += fmt::format("  output %{}  \"{}\"\n", graph.outputs[i], sanitize(graph.output_names[i]));
  }
  return text;
}

}  // namespace tcc::graph
