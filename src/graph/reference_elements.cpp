// Reference of the operators of one element, the gathers, and the operators that cut or repeat.
#include <algorithm>
#include <cmath>

#include "passes_internal.h"
#include "tcc/support/check.h"

namespace tcc::graph {
namespace {

using Inputs = std::vector<const HostTensor*>;

// The position that an index means: negative ones count from the end, those out of range are moved inside.
int64_t pick(double index, int64_t extent) {
  auto i = static_cast<int64_t>(index);
  return std::clamp<int64_t>(i < 0 ? i + extent : i, 0, extent - 1);
}

double cast_value(double x, DType from, DType to) {
  if (to == DType::kBool) return x != 0;
  if (is_float(to)) return to == DType::kF32 ? static_cast<float>(x) : x;
  if (!is_float(from)) return wrap_integer(x, to);
  if (std::isnan(x)) return 0;
  double top = std::ldexp(1.0, static_cast<int>(8 * dtype_size(to)) - (to == DType::kU8 ? 0 : 1));
  return std::clamp(std::trunc(x), to == DType::kU8 ? 0 : -top, top - 1);
}

void where(const Inputs& inputs, HostTensor& out) {
  std::vector<int64_t> strides[3];
  for (size_t i = 0; i < 3; ++i) strides[i] = broadcast_strides(inputs[i]->shape, out.shape);
  IndexWalk walk(out.shape);
  for (double& y : out.data) {
    size_t chosen = inputs[0]->data[static_cast<size_t>(walk.offset(strides[0]))] != 0 ? 1 : 2;
    y = inputs[chosen]->data[static_cast<size_t>(walk.offset(strides[chosen]))];
    walk.next();
  }
}

void gather(const Node& node, const Inputs& inputs, HostTensor& out) {
  auto axis = static_cast<size_t>(node.as<AxisAttrs>().axis);
  const Shape& data = inputs[0]->shape;
  auto strides = dense_strides(data), index_strides = dense_strides(inputs[1]->shape);
  size_t index_rank = inputs[1]->shape.size();
  IndexWalk walk(out.shape);
  for (double& y : out.data) {
    const auto& at = walk.index();
    int64_t from = 0, index = 0;
    for (size_t i = 0; i < axis; ++i) from += at[i] * strides[i];
    for (size_t i = 0; i < index_rank; ++i) index += at[axis + i] * index_strides[i];
    for (size_t i = axis + 1; i < data.size(); ++i) from += at[i - 1 + index_rank] * strides[i];
    from += pick(inputs[1]->data[static_cast<size_t>(index)], data[axis]) * strides[axis];
    y = inputs[0]->data[static_cast<size_t>(from)];
    walk.next();
  }
}

void gather_elements(const Node& node, const Inputs& inputs, HostTensor& out) {
  auto axis = static_cast<size_t>(node.as<AxisAttrs>().axis);
  auto strides = dense_strides(inputs[0]->shape);
  IndexWalk walk(out.shape);
  for (size_t k = 0; k < out.data.size(); ++k, walk.next()) {
    int64_t from = walk.offset(strides) - walk.index()[axis] * strides[axis];
    from += pick(inputs[1]->data[k], inputs[0]->shape[axis]) * strides[axis];
    out.data[k] = inputs[0]->data[static_cast<size_t>(from)];
  }
}

void gather_nd(const Node& node, const Inputs& inputs, HostTensor& out) {
  auto batch = static_cast<size_t>(node.as<GatherNdAttrs>().batch_dims);
  const Shape &data = inputs[0]->shape, &indices = inputs[1]->shape;
  auto depth = static_cast<size_t>(indices.back());
  auto strides = dense_strides(data), index_strides = dense_strides(indices);
  IndexWalk walk(out.shape);
  for (double& y : out.data) {
    const auto& at = walk.index();
    int64_t from = 0, row = 0;
    for (size_t i = 0; i < batch; ++i) from += at[i] * strides[i];
    for (size_t i = 0; i + 1 < indices.size(); ++i) row += at[i] * index_strides[i];
    for (size_t i = 0; i < depth; ++i)
      from += pick(inputs[1]->data[static_cast<size_t>(row) + i], data[batch + i]) * strides[batch + i];
    for (size_t i = batch + depth; i < data.size(); ++i)
      from += at[indices.size() - 1 + i - batch - depth] * strides[i];
    y = inputs[0]->data[static_cast<size_t>(from)];
    walk.next();
  }
}

void slice(const Node& node, const Inputs& inputs, HostTensor& out) {
  const auto& a = node.as<SliceAttrs>();
  auto strides = dense_strides(inputs[0]->shape);
  int64_t base = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    base += a.starts[i] * strides[i];
    strides[i] *= a.steps[i];
  }
  read_strided(*inputs[0], base, strides, out);
}

void layer_norm(const Node& node, const Inputs& inputs, HostTensor& out) {
  const auto& a = node.as<LayerNormAttrs>();
  Shape row_shape(out.shape.begin() + a.axis, out.shape.end());
  int64_t row = element_count(row_shape), rows = static_cast<int64_t>(out.data.size()) / row;
  auto scale = broadcast_strides(inputs[1]->shape, row_shape);
  auto bias = inputs.size() == 3 ? broadcast_strides(inputs[2]->shape, row_shape) : scale;
  for (int64_t r = 0; r < rows; ++r) {
    const double* x = inputs[0]->data.data() + r * row;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < row; ++i) mean += x[i] / static_cast<double>(row);
    for (int64_t i = 0; i < row; ++i) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(row);
    IndexWalk walk(row_shape);
    for (int64_t i = 0; i < row; ++i, walk.next()) {
      double y =
          (x[i] - mean) / std::sqrt(variance + a.epsilon) * inputs[1]->data[static_cast<size_t>(walk.offset(scale))];
      if (inputs.size() == 3) y += inputs[2]->data[static_cast<size_t>(walk.offset(bias))];
      out.data[static_cast<size_t>(r * row + i)] = y;
    }
  }
}

}  // namespace

std::vector<int64_t> dense_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) strides[i] = stride;
  return strides;
}

void read_strided(const HostTensor& x, int64_t base, const std::vector<int64_t>& strides, HostTensor& out) {
  IndexWalk walk(out.shape);
  for (double& y : out.data) {
    y = x.data[static_cast<size_t>(base + walk.offset(strides))];
    walk.next();
  }
}

// Integer results truncate and wrap to their width; x / 0, undefined in the model, gives 0.
double wrap_integer(double v, DType dtype) {
  if (!std::isfinite(v)) return 0;
  v = std::trunc(v);
  double range = std::ldexp(1.0, static_cast<int>(8 * dtype_size(dtype)));
  double low = dtype == DType::kU8 || is_wide_unsigned(dtype) ? 0 : -range / 2;
  return v - range * std::floor((v - low) / range);
}

void run_element_operator(const Graph& graph, const Node& node, const Inputs& inputs, HostTensor& out) {
  DType dtype = graph.value(node.output).dtype;
  bool wraps = !is_float(dtype) && dtype != DType::kBool;
  auto settle = [&](double y) { return wraps ? wrap_integer(y, dtype) : y; };
  switch (node.op) {
    case Op::kUnary: {
      const auto& a = node.as<UnaryAttrs>();
      for (size_t i = 0; i < out.data.size(); ++i)
        out.data[i] = settle(apply_unary(a.fn, a.alpha, a.beta, inputs[0]->data[i]));
      return;
    }
    case Op::kBinary:
      return combine(*inputs[0], *inputs[1], out,
                     [&](double x, double y) { return settle(apply_binary(node.as<BinaryAttrs>().fn, x, y)); });
    case Op::kWhere:
      return where(inputs, out);
    case Op::kCast:
      for (size_t i = 0; i < out.data.size(); ++i)
        out.data[i] = cast_value(inputs[0]->data[i], graph.value(node.inputs[0]).dtype, dtype);
      return;
    case Op::kSlice:
      return slice(node, inputs, out);
    case Op::kExpand:
      return read_strided(*inputs[0], 0, broadcast_strides(inputs[0]->shape, out.shape), out);
    case Op::kGather:
      return gather(node, inputs, out);
    case Op::kGatherElements:
      return gather_elements(node, inputs, out);
    case Op::kGatherNd:
      return gather_nd(node, inputs, out);
    case Op::kLayerNorm:
      return layer_norm(node, inputs, out);
    default:
      break;
  }
  TCC_UNREACHABLE("{}", op_name(node.op));
}

}  // namespace tcc::graph
