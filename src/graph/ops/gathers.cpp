// Operators that read elements at indices that are tensors.
#include <algorithm>
#include <cmath>

#include "op.h"

namespace tcc::graph {

int64_t picked_position(double index, int64_t extent) {
  auto i = static_cast<int64_t>(index);
  return std::clamp<int64_t>(i < 0 ? i + extent : i, 0, extent - 1);
}

Result<void> need_indices(const Value& indices) {
  if (indices.dtype == DType::kI64 || indices.dtype == DType::kI32) return {};
  return input_error("indices must be i32 or i64, not {}", dtype_name(indices.dtype));
}

Result<TensorType> Typing::gather() const {
  const Value &data = in(0), &indices = in(1);
  int64_t axis = node_.as<AxisAttrs>().axis;
  TCC_TRY_VOID(need_axis(axis, data.shape));
  // A table of bytes has a place for each.
  constexpr int64_t kBytes = 256;
  if (!is_byte(indices.dtype) || data.shape[static_cast<size_t>(axis)] != kBytes) TCC_TRY_VOID(need_indices(indices));
  if (data.shape[static_cast<size_t>(axis)] == 0 && indices.elements() > 0)
    return input_error("axis {} of {} has nothing to pick from", axis, shape_text(data.shape));
  Shape out(data.shape.begin(), data.shape.begin() + axis);
  out.insert(out.end(), indices.shape.begin(), indices.shape.end());
  out.insert(out.end(), data.shape.begin() + axis + 1, data.shape.end());
  return TensorType{data.dtype, out};
}

Result<TensorType> Typing::gather_elements() const {
  const Value &data = in(0), &indices = in(1);
  int64_t axis = node_.as<AxisAttrs>().axis;
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

Result<TensorType> Typing::gather_nd() const {
  const Value &data = in(0), &indices = in(1);
  int64_t batch = node_.as<GatherNdAttrs>().batch_dims;
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

void Runner::gather() {
  auto axis = static_cast<size_t>(node_.as<AxisAttrs>().axis);
  const Shape& data = inputs_[0]->shape;
  auto strides = dense_strides(data), index_strides = dense_strides(inputs_[1]->shape);
  size_t index_rank = inputs_[1]->shape.size();
  IndexWalk walk(out_.shape);
  for (double& y : out_.data) {
    const auto& at = walk.index();
    int64_t from = 0, index = 0;
    for (size_t i = 0; i < axis; ++i) from += at[i] * strides[i];
    for (size_t i = 0; i < index_rank; ++i) index += at[axis + i] * index_strides[i];
    for (size_t i = axis + 1; i < data.size(); ++i) from += at[i - 1 + index_rank] * strides[i];
    from += picked_position(inputs_[1]->data[static_cast<size_t>(index)], data[axis]) * strides[axis];
    y = inputs_[0]->data[static_cast<size_t>(from)];
    walk.next();
  }
}

void Runner::gather_elements() {
  auto axis = static_cast<size_t>(node_.as<AxisAttrs>().axis);
  auto strides = dense_strides(inputs_[0]->shape);
  IndexWalk walk(out_.shape);
  for (size_t k = 0; k < out_.data.size(); ++k, walk.next()) {
    int64_t from = walk.offset(strides) - walk.index()[axis] * strides[axis];
    from += picked_position(inputs_[1]->data[k], inputs_[0]->shape[axis]) * strides[axis];
    out_.data[k] = inputs_[0]->data[static_cast<size_t>(from)];
  }
}

void Runner::gather_nd() {
  auto batch = static_cast<size_t>(node_.as<GatherNdAttrs>().batch_dims);
  const Shape &data = inputs_[0]->shape, &indices = inputs_[1]->shape;
  auto depth = static_cast<size_t>(indices.back());
  auto strides = dense_strides(data), index_strides = dense_strides(indices);
  IndexWalk walk(out_.shape);
  for (double& y : out_.data) {
    const auto& at = walk.index();
    int64_t from = 0, row = 0;
    for (size_t i = 0; i < batch; ++i) from += at[i] * strides[i];
    for (size_t i = 0; i + 1 < indices.size(); ++i) row += at[i] * index_strides[i];
    for (size_t i = 0; i < depth; ++i)
      from += picked_position(inputs_[1]->data[static_cast<size_t>(row) + i], data[batch + i]) * strides[batch + i];
    for (size_t i = batch + depth; i < data.size(); ++i)
      from += at[indices.size() - 1 + i - batch - depth] * strides[i];
    y = inputs_[0]->data[static_cast<size_t>(from)];
    walk.next();
  }
}

}  // namespace tcc::graph
