// Operators that look at whole rows: reductions, Softmax, LogSoftmax and LayerNorm.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "op.h"

namespace tcc::graph {
namespace {

double first_of(const Node& node) {
  const Op op = node.op;
  if (op == Op::kReduceMax) return -std::numeric_limits<double>::infinity();
  if (op == Op::kReduceMin) return std::numeric_limits<double>::infinity();
  return op == Op::kReduceProd ? 1 : 0;
}

double next_of(const Node& node, double y, double x) {
  const Op op = node.op;
  const bool nan = node.as<ReduceAttrs>().keeps_nan;
  if (op == Op::kReduceMax) return nan ? apply_binary(BinaryFn::kMax, y, x) : std::fmax(y, x);
  if (op == Op::kReduceMin) return nan ? apply_binary(BinaryFn::kMin, y, x) : std::fmin(y, x);
  return op == Op::kReduceProd ? y * x : y + x;
}

}  // namespace

Result<TensorType> Typing::reduce() const {
  const auto& a = node_.as<ReduceAttrs>();
  if (node_.op == Op::kReduceMean) TCC_TRY_VOID(need_float());
  if (!is_wide_unsigned(in(0).dtype)) TCC_TRY_VOID(need_arithmetic());
  const bool extremum = node_.op == Op::kReduceMax || node_.op == Op::kReduceMin;
  TCC_CHECK(!a.keeps_nan || (extremum && is_float(in(0).dtype)), "keeps_nan of {}", op_name(node_.op));
  Shape out;
  auto rank = static_cast<int64_t>(shape(0).size());
  for (size_t i = 0; i < a.axes.size(); ++i) {
    if (a.axes[i] < 0 || a.axes[i] >= rank || (i > 0 && a.axes[i] <= a.axes[i - 1])) {
      return input_error("axes [{}] are out of range or repeated for rank {}", fmt::join(a.axes, ", "), rank);
    }
  }
  for (int64_t i = 0; i < rank; ++i) {
    bool reduced = std::binary_search(a.axes.begin(), a.axes.end(), i);
    if (!reduced) out.push_back(shape(0)[static_cast<size_t>(i)]);
    if (reduced && a.keep_dims) out.push_back(1);
  }
  return done(out);
}

Result<TensorType> Typing::softmax() const {
  TCC_TRY_VOID(need_float());
  TCC_TRY_VOID(need_axis(node_.as<AxisAttrs>().axis, shape(0)));
  return same();
}

Result<TensorType> Typing::layer_norm() const {
  const auto& a = node_.as<LayerNormAttrs>();
  const Value& x = in(0);
  if (!is_float(x.dtype)) return refuse(Refusal::kElementType, "LayerNorm does not take {}", dtype_name(x.dtype));
  TCC_TRY_VOID(need_axis(a.axis, x.shape));
  if (!(a.epsilon >= 0) || !std::isfinite(a.epsilon))
    return input_error("epsilon {} must be finite and >= 0", a.epsilon);
  Shape row(x.shape.begin() + a.axis, x.shape.end());
  for (size_t i = 1; i < node_.inputs.size(); ++i) {
    const Value& p = in(i);
    if (p.dtype != x.dtype) return input_error("inputs have different types");
    if (broadcast_shapes(p.shape, row) != row)
      return input_error("{} of shape {} does not broadcast to {}", i == 1 ? "scale" : "bias", shape_text(p.shape),
                         shape_text(row));
  }
  return TensorType{x.dtype, x.shape};
}

void Runner::reduce() {
  const auto& a = node_.as<ReduceAttrs>();
  // Strides that send each input index to its output element.
  Shape kept = in(0).shape;
  for (int64_t axis : a.axes) kept[static_cast<size_t>(axis)] = 1;
  auto strides = broadcast_strides(kept, in(0).shape);
  std::fill(out_.data.begin(), out_.data.end(), first_of(node_));
  IndexWalk walk(in(0).shape);
  for (double x : in(0).data) {
    double& y = out_.data[static_cast<size_t>(walk.offset(strides))];
    y = next_of(node_, y, x);
    walk.next();
  }
  if (!is_float(dtype_)) {
    // Of no elements: the least or greatest number of the type.
    for (double& y : out_.data)
      y = std::isinf(y) ? constant_element(make_splat(dtype_, y), dtype_, 0) : wrap_integer(y, dtype_);
  }
  if (node_.op == Op::kReduceMean) {
    const double count =
        static_cast<double>(in(0).data.size()) / std::max<double>(1, static_cast<double>(out_.data.size()));
    for (double& y : out_.data) y /= count;
  }
}

void Runner::softmax() {
  auto axis = static_cast<size_t>(node_.as<AxisAttrs>().axis);
  int64_t extent = out_.shape[axis];
  int64_t inner = element_count(Shape(out_.shape.begin() + static_cast<int64_t>(axis) + 1, out_.shape.end()));
  int64_t rows = extent == 0 ? 0 : static_cast<int64_t>(out_.data.size()) / extent;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t base = row / inner * extent * inner + row % inner;
    double greatest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < extent; ++i)
      greatest = std::max(greatest, in(0).data[static_cast<size_t>(base + i * inner)]);
    for (int64_t i = 0; i < extent; ++i) {
      auto at = static_cast<size_t>(base + i * inner);
      sum += out_.data[at] = std::exp(in(0).data[at] - greatest);
    }
    for (int64_t i = 0; i < extent; ++i) {
      auto at = static_cast<size_t>(base + i * inner);
      out_.data[at] = node_.op == Op::kLogSoftmax ? in(0).data[at] - greatest - std::log(sum) : out_.data[at] / sum;
    }
  }
}

void Runner::layer_norm() {
  const auto& a = node_.as<LayerNormAttrs>();
  Shape row_shape(out_.shape.begin() + a.axis, out_.shape.end());
  int64_t row = element_count(row_shape), rows = row == 0 ? 0 : static_cast<int64_t>(out_.data.size()) / row;
  auto scale = broadcast_strides(inputs_[1]->shape, row_shape);
  auto bias = inputs_.size() == 3 ? broadcast_strides(inputs_[2]->shape, row_shape) : scale;
  for (int64_t r = 0; r < rows; ++r) {
    const double* x = inputs_[0]->data.data() + r * row;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < row; ++i) mean += x[i] / static_cast<double>(row);
    for (int64_t i = 0; i < row; ++i) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(row);
    IndexWalk walk(row_shape);
    for (int64_t i = 0; i < row; ++i, walk.next()) {
      double y =
          (x[i] - mean) / std::sqrt(variance + a.epsilon) * inputs_[1]->data[static_cast<size_t>(walk.offset(scale))];
      if (inputs_.size() == 3) y += inputs_[2]->data[static_cast<size_t>(walk.offset(bias))];
      out_.data[static_cast<size_t>(r * row + i)] = y;
    }
  }
}

}  // namespace tcc::graph
