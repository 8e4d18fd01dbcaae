// Operators of one element. What they compute is a formula of scalar_formulas.h.
#include <algorithm>
#include <cmath>

#include "op.h"
#include "tcc/graph/scalar_formulas.h"

namespace tcc::graph {

namespace {

Result<void> need_domain(const Node& node, Domain domain, DType dtype) {
  if (accepts(domain, dtype)) return {};
  return refuse(Refusal::kElementType, "{} does not take {}", node_name(node), dtype_name(dtype));
}

double cast_value(double x, DType from, DType to) {
  if (to == DType::kBool) return x != 0;
  if (is_float(to)) return to == DType::kF32 ? static_cast<float>(x) : x;
  if (!is_float(from)) return wrap_integer(x, to);
  if (std::isnan(x)) return 0;
  // Types of 8 and 16 bits take the low bits of the 32-bit integer, as the standard's reference does. Others saturate.
  if (dtype_size(to) < 4) {
    return wrap_integer(std::clamp(std::trunc(x), -0x1p31, 0x1p31 - 1), to);
  }
  if (is_wide_unsigned(to)) {
    // The low bits of the 64-bit integer, in which u64 has its upper half as well.
    return wrap_integer(std::clamp(std::trunc(x), -0x1p63, to == DType::kU64 ? 0x1.fffffffffffffp63 : 0x1p63 - 1024),
                        to);
  }
  const double top = std::ldexp(1.0, static_cast<int>(8 * dtype_size(to)) - 1);
  return std::clamp(std::trunc(x), -top, top - 1);
}

}  // namespace

// Integer results truncate and wrap to their width; x / 0, undefined in the model, gives 0.
double wrap_integer(double v, DType dtype) {
  if (!std::isfinite(v)) return 0;
  v = std::trunc(v);
  double range = std::ldexp(1.0, static_cast<int>(8 * dtype_size(dtype)));
  double low = is_unsigned(dtype) ? 0 : -range / 2;
  return v - range * std::floor((v - low) / range);
}

Result<TensorType> Typing::batch_norm() const {
  TCC_TRY_VOID(need_float());
  TCC_TRY_VOID(need_one_type());
  if (shape(0).size() < 2) return input_error("needs an input of rank 2 or more, got {}", shape_text(shape(0)));
  double epsilon = node_.as<BatchNormAttrs>().epsilon;
  if (!(epsilon >= 0) || !std::isfinite(epsilon)) return input_error("epsilon {} must be finite and >= 0", epsilon);
  const char* names[] = {"", "scale", "bias", "mean", "variance"};
  for (size_t i = 1; i < 5; ++i) TCC_TRY_VOID(need_channels(i, shape(0)[1], names[i]));
  return same();
}

Result<TensorType> Typing::number_unary() const {
  TCC_TRY_VOID(need_arithmetic());
  return same();
}

Result<TensorType> Typing::float_unary() const {
  TCC_TRY_VOID(need_float());
  return same();
}

Result<TensorType> Typing::leaky_relu() const {
  if (!std::isfinite(node_.as<LeakyAttrs>().alpha)) return input_error("alpha must be finite");
  return float_unary();
}

Result<TensorType> Typing::clip() const {
  const auto& a = node_.as<ClipAttrs>();
  if (!(a.min <= a.max)) return input_error("min {} is above max {}", a.min, a.max);
  return number_unary();
}

Result<TensorType> Typing::arithmetic() const {
  TCC_TRY_VOID(need_one_type());
  if (!is_wide_unsigned(in(0).dtype)) TCC_TRY_VOID(need_arithmetic());
  auto out = broadcast_shapes(shape(0), shape(1));
  if (!out) return input_error("shapes {} and {} do not broadcast", shape_text(shape(0)), shape_text(shape(1)));
  return done(*out);
}

Result<TensorType> Typing::unary() const {
  const auto& a = node_.as<UnaryAttrs>();
  const Value& x = in(0);
  TCC_TRY_VOID(need_domain(node_, unary_row(a.fn).domain, x.dtype));
  if (!std::isfinite(a.alpha) || !std::isfinite(a.beta)) return input_error("alpha and beta must be finite");
  if (a.fn == UnaryFn::kCelu && a.alpha == 0) return input_error("alpha must not be 0");
  return TensorType{gives_bool(unary_row(a.fn).domain) ? DType::kBool : x.dtype, x.shape};
}

Result<TensorType> Typing::binary() const {
  const Value &x = in(0), &y = in(1);
  Domain domain = binary_domain(node_.as<BinaryAttrs>().fn);
  if (x.dtype != y.dtype) {
    return input_error("inputs have different types: {} and {}", dtype_name(x.dtype), dtype_name(y.dtype));
  }
  TCC_TRY_VOID(need_domain(node_, domain, x.dtype));
  auto out = broadcast_shapes(x.shape, y.shape);
  if (!out) return input_error("shapes {} and {} do not broadcast", shape_text(x.shape), shape_text(y.shape));
  return TensorType{gives_bool(domain) ? DType::kBool : x.dtype, *out};
}

Result<TensorType> Typing::where() const {
  const Value &c = in(0), &x = in(1), &y = in(2);
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

Result<TensorType> Typing::cast() const {
  return TensorType{node_.as<CastAttrs>().to, shape(0)};
}

void Runner::elementwise() {
  const bool wraps = !is_float(dtype_) && dtype_ != DType::kBool;
  auto settle = [&](double y) { return wraps ? wrap_integer(y, dtype_) : y; };
  if (inputs_.size() == 2) {
    return combine(in(0), in(1), out_, [&](double x, double y) { return settle(formulas::element(node_, x, y)); });
  }
  for (size_t i = 0; i < out_.data.size(); ++i) out_.data[i] = settle(formulas::element(node_, in(0).data[i], 0.0));
}

void Runner::batch_norm() {
  double epsilon = node_.as<BatchNormAttrs>().epsilon;
  int64_t channels = out_.shape[1];
  int64_t inner = element_count(Shape(out_.shape.begin() + 2, out_.shape.end()));
  for (size_t i = 0; i < out_.data.size(); ++i) {
    auto c = static_cast<size_t>(static_cast<int64_t>(i) / inner % channels);
    out_.data[i] = (in(0).data[i] - in(3).data[c]) / std::sqrt(in(4).data[c] + epsilon) * in(1).data[c] + in(2).data[c];
  }
}

void Runner::where() {
  std::vector<int64_t> strides[3];
  for (size_t i = 0; i < 3; ++i) strides[i] = broadcast_strides(inputs_[i]->shape, out_.shape);
  IndexWalk walk(out_.shape);
  for (double& y : out_.data) {
    size_t chosen = inputs_[0]->data[static_cast<size_t>(walk.offset(strides[0]))] != 0 ? 1 : 2;
    y = inputs_[chosen]->data[static_cast<size_t>(walk.offset(strides[chosen]))];
    walk.next();
  }
}

void Runner::cast() {
  const DType from = graph_.value(node_.inputs[0]).dtype;
  for (size_t i = 0; i < out_.data.size(); ++i) out_.data[i] = cast_value(in(0).data[i], from, dtype_);
}

}  // namespace tcc::graph
