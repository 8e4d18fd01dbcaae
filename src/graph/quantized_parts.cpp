#include "quantized_parts.h"

#include "rewrite.h"

namespace tcc::graph {

Roles product_roles(const Graph& graph, const Node& node) {
  Roles r;
  const Shape &a = graph.value(node.inputs[0]).shape, &b = graph.value(node.inputs[1]).shape;
  if (node.op == Op::kConv) {
    r.columns = 0;
    r.by_column = Shape(a.size() - 1, 1);
    r.by_column[0] = b[0];
    r.terms = static_cast<double>(element_count(b) / std::max<int64_t>(b[0], 1));
    return r;
  }
  const auto left = static_cast<int64_t>(a.size()), right = static_cast<int64_t>(b.size());
  r.rows = left - 2, r.a_sum = left - 1, r.columns = right - 1, r.b_sum = right - 2;
  if (node.op == Op::kGemm) {
    if (node.as<GemmAttrs>().trans_a) std::swap(r.rows, r.a_sum);
    if (node.as<GemmAttrs>().trans_b) std::swap(r.columns, r.b_sum);
  }
  r.by_row = {a[static_cast<size_t>(r.rows)], 1};
  r.by_column = {b[static_cast<size_t>(r.columns)]};
  r.terms = static_cast<double>(a[static_cast<size_t>(r.a_sum)]);
  return r;
}

std::vector<std::byte> bytes_of(const Value& v) {
  std::vector<std::byte> bytes;
  if (auto dense = dense_bytes(*v.constant, v.dtype, v.elements(), bytes); bytes.empty())
    bytes.assign(dense.begin(), dense.end());
  return bytes;
}

std::optional<std::vector<double>> column_sums(const Graph& graph, ValueId id, const Roles& r, bool conv) {
  const Value& w = graph.value(id);
  if (!w.is_constant()) return std::nullopt;
  const auto axis = static_cast<size_t>(r.columns);
  if (!conv && element_count(w.shape) != w.shape[axis] * w.shape[static_cast<size_t>(r.b_sum)]) return std::nullopt;
  const std::vector<std::byte> bytes = bytes_of(w);
  const Shape strides = dense_strides(w.shape);
  std::vector<double> sums(static_cast<size_t>(w.shape[axis]), 0.0);
  for (size_t i = 0; i < bytes.size(); ++i)
    sums[static_cast<size_t>(static_cast<int64_t>(i) / strides[axis] % w.shape[axis])] += static_cast<int8_t>(bytes[i]);
  return sums;
}

void add_constant_part(std::vector<double>& bias, const Zero& za, const Zero& zb, const std::vector<double>& sums,
                       double terms) {
  bias.resize(sums.size(), 0.0);
  for (size_t i = 0; i < sums.size(); ++i)
    bias[i] += za.known[0] * (terms * zb.known[zb.known.size() == 1 ? 0 : i] - sums[i]);
}

}  // namespace tcc::graph
