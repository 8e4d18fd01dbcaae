// Positions in the order of a row's elements: TopK, ArgMax and ArgMin.
#include <cmath>
#include <numeric>

#include "op.h"

namespace tcc::graph {

Result<TensorType> Typing::top_k() const {
  const auto& a = node_.as<TopKAttrs>();
  if (!is_wide_unsigned(in(0).dtype)) TCC_TRY_VOID(need_arithmetic());
  TCC_TRY_VOID(need_axis(a.axis, shape(0)));
  Shape out = shape(0);
  int64_t& extent = out[static_cast<size_t>(a.axis)];
  if (a.k < 0 || a.k > extent) return input_error("k is {}, axis {} has {} elements", a.k, a.axis, extent);
  extent = a.k;
  return TensorType{DType::kI64, out};
}

void Runner::top_k() {
  const auto& a = node_.as<TopKAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  const int64_t extent = in(0).shape[axis], step = dense_strides(in(0).shape)[axis];
  const int64_t rows = a.k == 0 ? 0 : std::ssize(out_.data) / a.k;
  std::vector<int64_t> order(static_cast<size_t>(extent));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t outer = row / step, inner = row % step;
    auto x = [&](int64_t i) { return in(0).data[static_cast<size_t>((outer * extent + i) * step + inner)]; };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      const double p = x(a.largest ? i : j), q = x(a.largest ? j : i);
      return std::isnan(p) ? !std::isnan(q) : p > q;
    });
    for (int64_t i = 0; i < a.k; ++i)
      out_.data[static_cast<size_t>((outer * a.k + i) * step + inner)] =
          static_cast<double>(order[static_cast<size_t>(i)]);
  }
}

Result<TensorType> Typing::arg() const {
  const auto& a = node_.as<ArgAttrs>();
  if (!is_wide_unsigned(in(0).dtype)) TCC_TRY_VOID(need_arithmetic());
  TCC_TRY_VOID(need_axis(a.axis, shape(0)));
  Shape out = shape(0);
  int64_t& extent = out[static_cast<size_t>(a.axis)];
  if (extent == 0) return input_error("axis {} has no element to point to", a.axis);
  extent = 1;
  return TensorType{DType::kI64, out};
}

void Runner::arg() {
  const auto& a = node_.as<ArgAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  const int64_t extent = in(0).shape[axis], step = dense_strides(in(0).shape)[axis];
  for (int64_t row = 0; row < std::ssize(out_.data); ++row) {
    const int64_t first = row / step * extent * step + row % step;
    auto x = [&](int64_t i) { return in(0).data[static_cast<size_t>(first + i * step)]; };
    auto before = [&](double p, double q) {
      if (std::isnan(p) || std::isnan(q)) return std::isnan(p) && !std::isnan(q);
      return a.greatest ? p > q : p < q;
    };
    int64_t best = 0;
    for (int64_t i = 1; i < extent; ++i)
      if (before(x(i), x(best)) || (a.last && !before(x(best), x(i)))) best = i;
    out_.data[static_cast<size_t>(row)] = static_cast<double>(best);
  }
}

}  // namespace tcc::graph
