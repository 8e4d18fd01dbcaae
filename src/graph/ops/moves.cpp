// Operators that move elements: views, transposes, pads, concatenations, slices and expansions.
#include <fmt/ranges.h>

#include <algorithm>

#include "op.h"

namespace tcc::graph {
namespace {

bool is_permutation(const std::vector<int64_t>& perm, size_t rank) {
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool valid = perm.size() == rank;
  for (size_t i = 0; valid && i < sorted.size(); ++i) valid = sorted[i] == static_cast<int64_t>(i);
  return valid;
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

HostTensor permuted(const HostTensor& x, const std::vector<int64_t>& perm) {
  if (perm.empty()) return x;
  const std::vector<int64_t> dense = dense_strides(x.shape);
  std::vector<int64_t> strides;
  HostTensor y;
  for (int64_t axis : perm) {
    y.shape.push_back(x.shape[static_cast<size_t>(axis)]);
    strides.push_back(dense[static_cast<size_t>(axis)]);
  }
  y.data.resize(x.data.size());
  read_strided(x, 0, strides, y);
  return y;
}

Result<Shape> Typing::permuted(const Shape& s, const std::vector<int64_t>& perm) const {
  if (perm.empty()) return s;
  if (!is_permutation(perm, s.size()))
    return input_error("perm [{}] is not a permutation of {} axes", fmt::join(perm, ", "), s.size());
  Shape out;
  for (int64_t axis : perm) out.push_back(s[static_cast<size_t>(axis)]);
  return out;
}

Result<TensorType> Typing::reshape() const {
  const Shape& target = node_.as<ReshapeAttrs>().shape;
  TCC_TRY_VOID(check_shape(target, "the new shape"));
  if (element_count(target) != in(0).elements()) {
    return input_error("cannot reshape {} to {}: the element counts differ", shape_text(shape(0)), shape_text(target));
  }
  return done(target);
}

Result<TensorType> Typing::transpose() const {
  const auto& perm = node_.as<TransposeAttrs>().perm;
  if (!is_permutation(perm, shape(0).size()))
    return input_error("perm [{}] is not a permutation of {} axes", fmt::join(perm, ", "), shape(0).size());
  TCC_TRY(Shape out, permuted(shape(0), perm));
  return done(out);
}

Result<TensorType> Typing::concat() const {
  TCC_TRY_VOID(need_one_type());
  int64_t axis = node_.as<AxisAttrs>().axis;
  TCC_TRY_VOID(need_axis(axis, shape(0)));
  Shape out = shape(0);
  for (size_t i = 1; i < node_.inputs.size(); ++i) {
    Shape other = shape(i);
    bool fits = other.size() == out.size();
    for (size_t k = 0; fits && k < out.size(); ++k) fits = static_cast<int64_t>(k) == axis || other[k] == out[k];
    if (!fits) {
      return input_error("inputs {} and {} differ outside axis {}", shape_text(shape(0)), shape_text(other), axis);
    }
    out[static_cast<size_t>(axis)] += other[static_cast<size_t>(axis)];  // both at most kMaxElements
    TCC_TRY_VOID(check_shape(out, "the result"));
  }
  return done(out);
}

Result<TensorType> Typing::pad() const {
  const auto& a = node_.as<PadAttrs>();
  if (a.begin.size() != shape(0).size() || a.end.size() != shape(0).size()) {
    return input_error("pads have {} + {} entries for rank {}", a.begin.size(), a.end.size(), shape(0).size());
  }
  Shape out = shape(0);
  for (size_t i = 0; i < out.size(); ++i) {
    if (a.begin[i] < 0 || a.end[i] < 0) {
      return refuse(Refusal::kAttribute, "negative pads ({}, {}) on axis {} (cropping) are not supported", a.begin[i],
                    a.end[i], i);
    }
    if (a.begin[i] > kMaxElements || a.end[i] > kMaxElements) return input_error("pads on axis {} are too large", i);
    out[i] += a.begin[i] + a.end[i];
  }
  return done(out);
}

Result<TensorType> Typing::slice() const {
  const auto& a = node_.as<SliceAttrs>();
  const Value& x = in(0);
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

Result<TensorType> Typing::expand() const {
  const Value& x = in(0);
  const Shape& to = node_.as<ReshapeAttrs>().shape;
  TCC_TRY_VOID(check_shape(to, "the result"));
  if (broadcast_shapes(x.shape, to) != to) {
    return input_error("shape {} does not broadcast to {}", shape_text(x.shape), shape_text(to));
  }
  return TensorType{x.dtype, to};
}

void Runner::copy() {
  out_.data = in(0).data;
}

void Runner::transpose() {
  out_ = permuted(in(0), node_.as<TransposeAttrs>().perm);
}

void Runner::concat() {
  auto axis = static_cast<size_t>(node_.as<AxisAttrs>().axis);
  int64_t outer = element_count(Shape(out_.shape.begin(), out_.shape.begin() + static_cast<int64_t>(axis)));
  if (out_.data.empty()) return;
  int64_t row = static_cast<int64_t>(out_.data.size()) / outer, at = 0;
  for (const HostTensor* input : inputs_) {
    int64_t part = static_cast<int64_t>(input->data.size()) / outer;
    for (int64_t o = 0; o < outer; ++o) {
      std::copy_n(input->data.begin() + o * part, part, out_.data.begin() + o * row + at);
    }
    at += part;
  }
}

void Runner::pad() {
  const auto& a = node_.as<PadAttrs>();
  std::fill(out_.data.begin(), out_.data.end(), a.value);
  const std::vector<int64_t> strides = dense_strides(out_.shape);
  int64_t base = 0;
  for (size_t i = 0; i < strides.size(); ++i) base += a.begin[i] * strides[i];
  IndexWalk walk(in(0).shape);
  for (double x : in(0).data) {
    out_.data[static_cast<size_t>(base + walk.offset(strides))] = x;
    walk.next();
  }
}

void Runner::slice() {
  const auto& a = node_.as<SliceAttrs>();
  auto strides = dense_strides(inputs_[0]->shape);
  int64_t base = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    base += a.starts[i] * strides[i];
    strides[i] *= a.steps[i];
  }
  read_strided(*inputs_[0], base, strides, out_);
}

void Runner::expand() {
  read_strided(in(0), 0, broadcast_strides(in(0).shape, out_.shape), out_);
}

}  // namespace tcc::graph
