// Types of the operators of one element, the gathers, and the operators that cut or repeat.
#include <fmt/ranges.h>

#include <cmath>

#include "passes_internal.h"
#include "tcc/graph/refusal.h"
#include "tcc/support/check.h"

namespace tcc::graph {
namespace {

const Value& in(const Graph& graph, const Node& node, size_t i) {
  return graph.value(node.inputs[i]);
}

Result<void> need_domain(const Node& node, Domain domain, DType dtype) {
  if (accepts(domain, dtype)) return {};
  return refuse(Refusal::kElementType, "{} does not take {}", node_name(node), dtype_name(dtype));
}

Result<void> need_indices(const Value& indices) {
  if (indices.dtype == DType::kI64 || indices.dtype == DType::kI32) return {};
  return input_error("indices must be i32 or i64, not {}", dtype_name(indices.dtype));
}

Result<TensorType> infer_unary(const Graph& graph, const Node& node) {
  const auto& a = node.as<UnaryAttrs>();
  const Value& x = in(graph, node, 0);
  TCC_TRY_VOID(need_domain(node, unary_row(a.fn).domain, x.dtype));
  if (!std::isfinite(a.alpha) || !std::isfinite(a.beta)) return input_error("alpha and beta must be finite");
  if (a.fn == UnaryFn::kCelu && a.alpha == 0) return input_error("alpha must not be 0");
  return TensorType{gives_bool(unary_row(a.fn).domain) ? DType::kBool : x.dtype, x.shape};
}

Result<TensorType> infer_binary(const Graph& graph, const Node& node) {
  const Value &x = in(graph, node, 0), &y = in(graph, node, 1);
  Domain domain = binary_domain(node.as<BinaryAttrs>().fn);
  if (x.dtype != y.dtype) {
    return input_error("inputs have different types: {} and {}", dtype_name(x.dtype), dtype_name(y.dtype));
  }
  TCC_TRY_VOID(need_domain(node, domain, x.dtype));
  auto out = broadcast_shapes(x.shape, y.shape);
  if (!out) return input_error("shapes {} and {} do not broadcast", shape_text(x.shape), shape_text(y.shape));
  return TensorType{gives_bool(domain) ? DType::kBool : x.dtype, *out};
}

Result<TensorType> infer_where(const Graph& graph, const Node& node) {
  const Value &c = in(graph, node, 0), &x = in(graph, node, 1), &y = in(graph, node, 2);
  if (c.dtype != DType::kBool) return input_error("the condition must be bool, not {}", dtype_name(c.dtype));
  if (x.dtype != y.dtype) {
    return input_error("inputs have different types: {} and {}", dtype_name(x.dtype), dtype_name(y.dtype));
  }
  auto values = broadcast_shapes(x.shape, y.shape);
  auto out = values ? broadcast_shapes(c.shape, *values) : std::nullopt;
  if (!out) {
    return input_error("shapes {}, {} and {} do not broadcast", shape_text(c.shape), shape_text(x.shape),
                       shape_text(y.shape));
  }
  return TensorType{x.dtype, *out};
}

Result<TensorType> infer_slice(const Graph& graph, const Node& node) {
  const auto& a = node.as<SliceAttrs>();
  const Value& x = in(graph, node, 0);
  size_t rank = x.shape.size();
  if (a.starts.size() != rank || a.steps.size() != rank || a.extents.size() != rank) {
    return input_error("starts, steps and extents have {}, {} and {} entries for rank {}", a.starts.size(),
                       a.steps.size(), a.extents.size(), rank);
  }
  for (size_t i = 0; i < rank; ++i) {
    int64_t extent = a.extents[i];
    if (extent < 0 || extent > x.shape[i] || a.steps[i] == 0)
      return input_error("cannot take {} elements with step {} of {} on axis {}", extent, a.steps[i], x.shape[i], i);
    if (extent == 0) continue;
    int64_t last = 0, reach = 0;
    bool overflow =
        __builtin_mul_overflow(extent - 1, a.steps[i], &reach) || __builtin_add_overflow(a.starts[i], reach, &last);
    if (overflow || a.starts[i] < 0 || a.starts[i] >= x.shape[i] || last < 0 || last >= x.shape[i]) {
      return input_error("{} elements from {} with step {} leave axis {} of {}", extent, a.starts[i], a.steps[i], i,
                         x.shape[i]);
    }
  }
  return TensorType{x.dtype, a.extents};
}

Result<TensorType> infer_expand(const Graph& graph, const Node& node) {
  const Value& x = in(graph, node, 0);
  const Shape& to = node.as<ReshapeAttrs>().shape;
  TCC_TRY_VOID(check_shape(to, "the result"));
  if (broadcast_shapes(x.shape, to) != to) {
    return input_error("shape {} does not broadcast to {}", shape_text(x.shape), shape_text(to));
  }
  return TensorType{x.dtype, to};
}

Result<TensorType> infer_gather(const Graph& graph, const Node& node) {
  const Value &data = in(graph, node, 0), &indices = in(graph, node, 1);
  int64_t axis = node.as<AxisAttrs>().axis;
  TCC_TRY_VOID(need_indices(indices));
  TCC_TRY_VOID(need_axis(axis, data.shape));
  if (data.shape[static_cast<size_t>(axis)] == 0 && indices.elements() > 0)
    return input_error("axis {} of {} has nothing to pick from", axis, shape_text(data.shape));
  Shape out(data.shape.begin(), data.shape.begin() + axis);
  out.insert(out.end(), indices.shape.begin(), indices.shape.end());
  out.insert(out.end(), data.shape.begin() + axis + 1, data.shape.end());
  return TensorType{data.dtype, out};
}

Result<TensorType> infer_gather_elements(const Graph& graph, const Node& node) {
  const Value &data = in(graph, node, 0), &indices = in(graph, node, 1);
  int64_t axis = node.as<AxisAttrs>().axis;
  TCC_TRY_VOID(need_indices(indices));
  TCC_TRY_VOID(need_axis(axis, data.shape));
  bool fits = data.shape.size() == indices.shape.size();
  for (size_t i = 0; fits && i < data.shape.size(); ++i)
    fits = static_cast<int64_t>(i) == axis ? data.shape[i] > 0 : indices.shape[i] <= data.shape[i];
  if (!fits)
    return input_error("indices {} do not fit data {} on axis {}", shape_text(indices.shape), shape_text(data.shape),
                       axis);
  return TensorType{data.dtype, indices.shape};
}

Result<TensorType> infer_gather_nd(const Graph& graph, const Node& node) {
  const Value &data = in(graph, node, 0), &indices = in(graph, node, 1);
  int64_t batch = node.as<GatherNdAttrs>().batch_dims;
  TCC_TRY_VOID(need_indices(indices));
  auto data_rank = static_cast<int64_t>(data.shape.size()), index_rank = static_cast<int64_t>(indices.shape.size());
  bool fits = batch >= 0 && data_rank > batch && index_rank > batch;
  for (int64_t i = 0; fits && i < batch; ++i)
    fits = data.shape[static_cast<size_t>(i)] == indices.shape[static_cast<size_t>(i)];
  int64_t depth = fits ? indices.shape.back() : 0;
  fits = fits && depth >= 1 && depth <= data_rank - batch;
  for (int64_t i = batch; fits && i < batch + depth; ++i) fits = data.shape[static_cast<size_t>(i)] > 0;
  if (!fits) {
    return input_error("indices {} do not fit data {} with batch_dims {}", shape_text(indices.shape),
                       shape_text(data.shape), batch);
  }
  Shape out(indices.shape.begin(), indices.shape.end() - 1);
  out.insert(out.end(), data.shape.begin() + batch + depth, data.shape.end());
  return TensorType{data.dtype, out};
}

Result<TensorType> infer_layer_norm(const Graph& graph, const Node& node) {
  const auto& a = node.as<LayerNormAttrs>();
  const Value& x = in(graph, node, 0);
  if (!is_float(x.dtype)) return refuse(Refusal::kElementType, "LayerNorm does not take {}", dtype_name(x.dtype));
  TCC_TRY_VOID(need_axis(a.axis, x.shape));
  if (x.elements() == 0) return refuse(Refusal::kNoElements, "input of shape {} has no elements", shape_text(x.shape));
  if (!(a.epsilon >= 0) || !std::isfinite(a.epsilon))
    return input_error("epsilon {} must be finite and >= 0", a.epsilon);
  Shape row(x.shape.begin() + a.axis, x.shape.end());
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const Value& p = in(graph, node, i);
    if (p.dtype != x.dtype) return input_error("inputs have different types");
    if (broadcast_shapes(p.shape, row) != row)
      return input_error("{} of shape {} does not broadcast to {}", i == 1 ? "scale" : "bias", shape_text(p.shape),
                         shape_text(row));
  }
  return TensorType{x.dtype, x.shape};
}

}  // namespace

Result<void> need_axis(int64_t axis, const Shape& shape) {
  if (axis >= 0 && axis < static_cast<int64_t>(shape.size())) return {};
  return input_error("axis {} is out of range for shape {}", axis, shape_text(shape));
}

Result<TensorType> infer_element_operator(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::kUnary:
      return infer_unary(graph, node);
    case Op::kBinary:
      return infer_binary(graph, node);
    case Op::kWhere:
      return infer_where(graph, node);
    case Op::kCast:
      if (is_wide_unsigned(node.as<CastAttrs>().to) && in(graph, node, 0).dtype != node.as<CastAttrs>().to) {
        return refuse(Refusal::kElementType, "conversion from {} to {} is not supported",
                      dtype_name(in(graph, node, 0).dtype), dtype_name(node.as<CastAttrs>().to));
      }
      return TensorType{node.as<CastAttrs>().to, in(graph, node, 0).shape};
    case Op::kSlice:
      return infer_slice(graph, node);
    case Op::kExpand:
      return infer_expand(graph, node);
    case Op::kGather:
      return infer_gather(graph, node);
    case Op::kGatherElements:
      return infer_gather_elements(graph, node);
    case Op::kGatherNd:
      return infer_gather_nd(graph, node);
    case Op::kLayerNorm:
      return infer_layer_norm(graph, node);
    default:
      break;
  }
  TCC_UNREACHABLE("{}", op_name(node.op));
}

}  // namespace tcc::graph
