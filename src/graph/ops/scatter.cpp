// Data with updates at indices that are a tensor: Scatter, in both forms of ONNX.
#include <cmath>

#include "op.h"

namespace tcc::graph {
namespace {

double combined(ScatterReduction reduction, double old, double update) {
  switch (reduction) {
    case ScatterReduction::kNone:
      return update;
    case ScatterReduction::kAdd:
      return old + update;
    case ScatterReduction::kMul:
      return old * update;
    case ScatterReduction::kMax:
      return apply_binary(BinaryFn::kMax, old, update);
    case ScatterReduction::kMin:
      return apply_binary(BinaryFn::kMin, old, update);
  }
  TCC_UNREACHABLE();
}

}  // namespace

Result<TensorType> Typing::scatter() const {
  const auto& a = node_.as<ScatterAttrs>();
  const Value &data = in(0), &indices = in(1), &updates = in(2);
  TCC_TRY_VOID(need_indices(indices));
  if (updates.dtype != data.dtype)
    return input_error("data and updates have different types: {} and {}", dtype_name(data.dtype),
                       dtype_name(updates.dtype));
  if (a.reduction != ScatterReduction::kNone && !is_wide_unsigned(data.dtype)) TCC_TRY_VOID(need_arithmetic());
  bool fits = true;
  if (a.axis >= 0) {
    TCC_TRY_VOID(need_axis(a.axis, data.shape));
    fits = indices.shape == updates.shape && indices.shape.size() == data.shape.size();
    for (size_t i = 0; fits && i < data.shape.size(); ++i)
      fits = static_cast<int64_t>(i) == a.axis || indices.shape[i] <= data.shape[i];
  } else {
    const auto depth = indices.shape.empty() ? 0 : indices.shape.back();
    fits = indices.shape.size() >= 2 && depth >= 1 && depth <= static_cast<int64_t>(data.shape.size());
    if (fits) {
      Shape expected(indices.shape.begin(), indices.shape.end() - 1);
      expected.insert(expected.end(), data.shape.begin() + depth, data.shape.end());
      fits = updates.shape == expected;
    }
  }
  if (!fits) {
    return input_error("indices {} and updates {} do not fit data {}", shape_text(indices.shape),
                       shape_text(updates.shape), shape_text(data.shape));
  }
  return same();
}

void Runner::scatter() {
  const auto& a = node_.as<ScatterAttrs>();
  out_.data = in(0).data;
  const Shape& data = in(0).shape;
  const std::vector<int64_t> strides = dense_strides(data);
  auto put = [&](int64_t at, double update) {
    double& y = out_.data[static_cast<size_t>(at)];
    y = combined(a.reduction, y, update);
    if (!is_float(dtype_) && a.reduction != ScatterReduction::kNone) y = wrap_integer(y, dtype_);
  };
  auto position = [](double index, int64_t extent) {
    const auto i = static_cast<int64_t>(index);
    const int64_t at = i < 0 ? i + extent : i;
    return at < 0 || at >= extent ? -1 : at;
  };
  IndexWalk walk(in(2).shape);
  const size_t depth = a.axis >= 0 ? 0 : static_cast<size_t>(in(1).shape.back());
  for (size_t u = 0; u < in(2).data.size(); ++u, walk.next()) {
    int64_t at = 0;
    bool inside = true;
    if (a.axis >= 0) {
      for (size_t i = 0; i < data.size(); ++i) {
        const int64_t p = static_cast<int64_t>(i) == a.axis ? position(in(1).data[u], data[i]) : walk.index()[i];
        inside = inside && p >= 0;
        at += p * strides[i];
      }
    } else {
      const size_t rows = in(1).shape.size() - 1;
      int64_t row = 0;
      for (size_t i = 0; i < rows; ++i) row = row * in(1).shape[i] + walk.index()[i];
      for (size_t i = 0; i < data.size(); ++i) {
        const int64_t p = i < depth ? position(in(1).data[static_cast<size_t>(row) * depth + i], data[i])
                                    : walk.index()[rows + i - depth];
        inside = inside && p >= 0;
        at += p * strides[i];
      }
    }
    if (inside) put(at, in(2).data[u]);
  }
}

}  // namespace tcc::graph
