// Positions that depend on the elements: TopK, ArgMax and ArgMin, Find and Suppress.
#include <algorithm>
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

Result<TensorType> Typing::find() const {
  const int64_t extent = node_.as<FindAttrs>().extent;
  if (in(0).dtype != DType::kBool || shape(0).size() != 1)
    return input_error("needs bools of one axis, got {} {}", dtype_name(in(0).dtype), shape_text(shape(0)));
  if (extent < 0 || extent > shape(0)[0])
    return input_error("room for {} positions of {} elements", extent, shape(0)[0]);
  return TensorType{DType::kI64, {extent}};
}

void Runner::find() {
  std::fill(out_.data.begin(), out_.data.end(), 0.0);
  size_t found = 0;
  for (size_t i = 0; i < in(0).data.size() && found < out_.data.size(); ++i)
    if (in(0).data[i] != 0) out_.data[found++] = static_cast<double>(i);
}

Result<TensorType> Typing::suppress() const {
  const auto& a = node_.as<SuppressAttrs>();
  const Shape &boxes = shape(0), &scores = shape(1);
  if (in(0).dtype != DType::kF32 || in(1).dtype != DType::kF32 || boxes.size() != 3 || boxes[2] != 4 ||
      scores.size() != 3 || scores[0] != boxes[0] || scores[2] != boxes[1])
    return input_error("needs boxes f32 BxNx4 and scores f32 BxCxN, got {} {} and {} {}", dtype_name(in(0).dtype),
                       shape_text(boxes), dtype_name(in(1).dtype), shape_text(scores));
  if (a.most < 0 || !(a.most_overlap >= 0 && a.most_overlap <= 1) || std::isnan(a.least_score))
    return input_error("at most {} boxes above {} that share {} of their area", a.most, a.least_score, a.most_overlap);
  return TensorType{DType::kI64, {scores[0], scores[1], std::min(a.most, scores[2])}};
}

void Runner::suppress() {
  const auto& a = node_.as<SuppressAttrs>();
  const int64_t classes = in(1).shape[1], extent = in(1).shape[2], rows = in(1).shape[0] * classes;
  const int64_t most = out_.shape[2];
  std::vector<int64_t> order, kept;
  for (int64_t row = 0; row < rows; ++row) {
    auto box = [&](int64_t i, int64_t corner) {
      return in(0).data[static_cast<size_t>((row / classes * extent + i) * 4 + corner)];
    };
    auto area = [&](int64_t i) { return (box(i, 2) - box(i, 0)) * (box(i, 3) - box(i, 1)); };
    auto hides = [&](int64_t i, int64_t j) {
      const double height = std::min(box(i, 2), box(j, 2)) - std::max(box(i, 0), box(j, 0));
      const double width = std::min(box(i, 3), box(j, 3)) - std::max(box(i, 1), box(j, 1));
      if (!(height > 0 && width > 0)) return false;
      return height * width / (area(i) + area(j) - height * width) > a.most_overlap;
    };
    auto score = [&](int64_t i) { return in(1).data[static_cast<size_t>(row * extent + i)]; };
    order.clear(), kept.clear();
    for (int64_t i = 0; i < extent; ++i)
      if (score(i) > a.least_score) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return score(i) > score(j); });
    for (int64_t i : order) {
      if (std::ssize(kept) == most) break;
      if (std::none_of(kept.begin(), kept.end(), [&](int64_t k) { return hides(k, i); })) kept.push_back(i);
    }
    kept.resize(static_cast<size_t>(most), -1);
    std::copy(kept.begin(), kept.end(), out_.data.begin() + static_cast<std::ptrdiff_t>(row * most));
  }
}

}  // namespace tcc::graph
