// Sums and products so far along an axis: Scan.
#include "op.h"

namespace tcc::graph {

Result<TensorType> Typing::scan() const {
  TCC_TRY_VOID(need_product_type());
  TCC_TRY_VOID(need_axis(node_.as<ScanAttrs>().axis, shape(0)));
  return same();
}

void Runner::scan() {
  const auto& a = node_.as<ScanAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  const int64_t extent = out_.shape[axis], step = dense_strides(out_.shape)[axis];
  const int64_t rows = extent == 0 ? 0 : std::ssize(out_.data) / extent;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t base = row / step * extent * step + row % step;
    double so_far = a.product ? 1 : 0;
    for (int64_t i = 0; i < extent; ++i) {
      const auto at = static_cast<size_t>(base + (a.reverse ? extent - 1 - i : i) * step);
      const double x = in(0).data[at];
      double with = a.product ? so_far * x : so_far + x;
      if (!is_float(dtype_)) with = wrap_integer(with, dtype_);
      out_.data[at] = a.exclusive ? so_far : with;
      so_far = with;
    }
  }
}

}  // namespace tcc::graph
