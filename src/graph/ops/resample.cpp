// Elements between those of the input: Resample.
#include <cmath>

#include "op.h"

namespace tcc::graph {

Result<TensorType> Typing::resample() const {
  const auto& axes = node_.as<ResampleAttrs>().axes;
  TCC_TRY_VOID(need_float());
  if (axes.empty() || node_.inputs.size() != 1 + 2 * axes.size())
    return input_error("{} axes need positions and weights each, got {} inputs", axes.size(), node_.inputs.size());
  Shape out = shape(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    TCC_TRY_VOID(need_axis(axes[i], out));
    if (i > 0 && axes[i] <= axes[i - 1]) return input_error("axes must be sorted and distinct");
    const Value &positions = in(1 + 2 * i), &weights = in(2 + 2 * i);
    TCC_TRY_VOID(need_indices(positions));
    const bool narrow = in(0).dtype == DType::kF16 || in(0).dtype == DType::kBF16;
    if (weights.dtype != in(0).dtype && !(narrow && weights.dtype == DType::kF32))
      return input_error("weights of {} do not fit {}", dtype_name(weights.dtype), dtype_name(in(0).dtype));
    int64_t& extent = out[static_cast<size_t>(axes[i])];
    const bool fits = positions.shape.size() == 2 && positions.shape == weights.shape && positions.shape[1] >= 1;
    if (!fits || extent < 1) {
      return input_error("positions {} and weights {} do not fit axis {} of {}", shape_text(positions.shape),
                         shape_text(weights.shape), axes[i], shape_text(shape(0)));
    }
    extent = positions.shape[0];
  }
  return done(out);
}

void Runner::resample() {
  const auto& axes = node_.as<ResampleAttrs>().axes;
  Shape taps;
  for (size_t i = 0; i < axes.size(); ++i) taps.push_back(in(1 + 2 * i).shape[1]);
  const std::vector<int64_t> strides = dense_strides(in(0).shape);
  IndexWalk walk(out_.shape);
  for (double& y : out_.data) {
    int64_t base = walk.offset(strides);
    for (int64_t axis : axes) base -= walk.index()[static_cast<size_t>(axis)] * strides[static_cast<size_t>(axis)];
    IndexWalk tap(taps);
    y = 0;
    for (int64_t t = 0; t < element_count(taps); ++t, tap.next()) {
      double weight = 1;
      int64_t from = base;
      for (size_t i = 0; i < axes.size(); ++i) {
        const auto axis = static_cast<size_t>(axes[i]);
        const auto entry = static_cast<size_t>(walk.index()[axis] * taps[i] + tap.index()[i]);
        weight *= in(2 + 2 * i).data[entry];
        from += picked_position(in(1 + 2 * i).data[entry], in(0).shape[axis]) * strides[axis];
      }
      // A weight of 0 takes part as the kernel's does: 0 * NaN is NaN.
      y += weight * in(0).data[static_cast<size_t>(from)];
    }
    walk.next();
  }
}

}  // namespace tcc::graph
