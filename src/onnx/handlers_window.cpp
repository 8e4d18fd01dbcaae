// Conv and the pools: automatic padding and defaults become explicit numbers here.
#include <algorithm>
#include <array>
#include <cmath>

#include "handlers.h"
#include "tcc/support/text.h"
#include "window_attributes.h"

namespace tcc::onnx {

Result<std::vector<int64_t>> list_of(NodeContext& c, const char* name, size_t entries, int64_t otherwise,
                                     int64_t least) {
  TCC_TRY(auto list, c.get_ints(name));
  // Some exporters write an empty list where they mean the default.
  if (!list || list->empty()) return std::vector<int64_t>(entries, otherwise);
  if (list->size() != entries)
    return input_error("attribute '{}' has {} entries, {} are needed", name, list->size(), entries);
  for (int64_t v : *list) {
    if (v < least || v > kMaxAttribute)
      return input_error("attribute '{}' has the entry {}; it must be at least {}", name, v, least);
  }
  return *list;
}

Result<size_t> spatial_axes(const NodeContext& c) {
  if (c.rank(0) < 3)
    return input_error("needs an input of rank 3 or more, got {}", graph::shape_text(c.input_value(0).shape));
  return static_cast<size_t>(c.rank(0) - 2);
}

Made channels_moved(NodeContext& c, const Made& x, bool to_second) {
  if (!x) return x;
  const auto rank = static_cast<int64_t>(c.value(*x).shape.size());
  graph::TransposeAttrs order{axes_from(0, rank)};
  if (to_second) std::rotate(order.perm.begin() + 1, order.perm.end() - 1, order.perm.end());
  if (!to_second) std::rotate(order.perm.begin() + 1, order.perm.begin() + 2, order.perm.end());
  return c.emit(Op::kTranspose, order, {x});
}

namespace {

struct WindowAttributes {
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;
};

// Reads strides, dilations, pads and auto_pad for the window `kernel` over the spatial axes of `input`.
Result<WindowAttributes> read_window(NodeContext& c, const Shape& input, std::vector<int64_t> kernel, bool dilations) {
  WindowAttributes w;
  size_t spatial = kernel.size();
  w.kernel = std::move(kernel);
  for (int64_t k : w.kernel) {
    if (k < 1 || k > kMaxAttribute) return input_error("kernel extent {} must be at least 1", k);
  }
  TCC_TRY(w.strides, list_of(c, "strides", spatial, 1, 1));
  w.dilations.assign(spatial, 1);
  if (dilations) TCC_TRY_SET(w.dilations, list_of(c, "dilations", spatial, 1, 1));
  TCC_TRY(std::string mode, c.get_string("auto_pad", "NOTSET"));
  TCC_TRY(auto pads, list_of(c, "pads", 2 * spatial, 0, 0));
  w.pads_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(spatial));
  w.pads_end.assign(pads.begin() + static_cast<int64_t>(spatial), pads.end());
  if (mode == "NOTSET" || mode.empty()) return w;
  if (mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    return input_error("auto_pad is '{}', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", sanitize(mode));
  }
  if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; })) {
    return input_error("auto_pad {} and explicit pads exclude each other", mode);
  }
  if (mode == "VALID") return w;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t out = (input[i + 2] + w.strides[i] - 1) / w.strides[i];
    int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    int64_t total = std::max<int64_t>(0, (out - 1) * w.strides[i] + reach - input[i + 2]);
    w.pads_begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.pads_end[i] = total - w.pads_begin[i];
  }
  return w;
}

Result<graph::PoolAttrs> read_pool(NodeContext& c, const Shape& input, bool dilations) {
  TCC_TRY(size_t spatial, spatial_axes(c));
  TCC_TRY(auto kernel, c.get_ints("kernel_shape"));
  if (!kernel || kernel->size() != spatial)
    return input_error("attribute 'kernel_shape' must have {} entries", spatial);
  TCC_TRY(WindowAttributes w, read_window(c, input, *kernel, dilations));
  graph::PoolAttrs attrs{w.kernel, w.strides, w.dilations, w.pads_begin, w.pads_end, false, false};
  TCC_TRY(attrs.ceil_mode, c.get_flag("ceil_mode", false, 10));
  return attrs;
}

}  // namespace

Result<graph::ValueId> emit_convolution(NodeContext& c, graph::ValueId x, graph::ValueId weights,
                                        std::optional<graph::ValueId> bias) {
  const Shape input = c.value(x).shape, weight = c.value(weights).shape;
  if (input.size() < 3) return input_error("needs an input of rank 3 or more, got {}", graph::shape_text(input));
  if (weight.size() != input.size())
    return input_error("weight {} and input {} differ in rank", graph::shape_text(weight), graph::shape_text(input));
  std::vector<int64_t> kernel(weight.begin() + 2, weight.end());
  TCC_TRY(auto declared, c.get_ints("kernel_shape"));
  if (declared && *declared != kernel) {
    return input_error("kernel_shape [{}] differs from the weight's shape {}", fmt::join(*declared, ", "),
                       graph::shape_text(weight));
  }
  TCC_TRY(WindowAttributes w, read_window(c, input, kernel, true));
  TCC_TRY(int64_t group, c.get_int("group", 1));
  graph::ConvAttrs attrs{w.kernel, w.strides, w.dilations, w.pads_begin, w.pads_end, group};
  std::vector<Made> operands{x, weights};
  if (bias) operands.emplace_back(*bias);
  return c.emit(Op::kConv, attrs, operands);
}

Result<void> import_conv(NodeContext& c) {
  std::optional<graph::ValueId> bias;
  if (c.has_input(2)) bias = c.input(2);
  return c.finish(emit_convolution(c, c.input(0), c.input(1), bias));
}

namespace {

constexpr int64_t kMaxTaps = 64;                     // of a pool that tells positions
constexpr int64_t kMaxPositions = int64_t{1} << 22;  // elements of its result

// The next place of a window, the last axis first.
void advance(std::vector<int64_t>& tap, const std::vector<int64_t>& kernel) {
  for (size_t i = tap.size(); i-- > 0 && ++tap[i] == kernel[i];) tap[i] = 0;
}

// Maxima with their positions in the flattened input: every tap of the window is compared in turn.
Result<void> max_pool_positions(NodeContext& c, const graph::PoolAttrs& a, bool column_major) {
  TCC_TRY(graph::ValueId pooled, c.emit(Op::kMaxPool, a, {c.input(0)}));
  const Shape in = c.input_value(0).shape, out = c.value(pooled).shape;
  size_t spatial = a.kernel.size();
  int64_t taps = graph::element_count(a.kernel), pixels = graph::element_count(Shape(in.begin() + 2, in.end()));
  graph::DType dtype = c.input_value(0).dtype;
  // Bytes are compared as wider integers, which have a number below all of them for what is beyond the input.
  const bool bytes = dtype == graph::DType::kI8 || dtype == graph::DType::kU8;
  if (!bytes && !graph::is_float(dtype))
    return refuse(Refusal::kElementType, "positions are found for floats and bytes only");
  if (taps > kMaxTaps || graph::element_count(out) > kMaxPositions)
    return refuse(Refusal::kTooLarge, "positions are found for windows of at most {} elements", kMaxTaps);
  std::vector<int64_t> strides(spatial, 1);  // of a position within its plane
  for (size_t i = 1; i < spatial; ++i) {
    if (column_major) strides[i] = strides[i - 1] * in[i + 1];
    if (!column_major) strides[spatial - 1 - i] = strides[spatial - i] * in[spatial + 2 - i];
  }
  graph::PadAttrs pad{{0, 0}, {0, 0}, bytes ? -1000 : -HUGE_VAL};
  for (size_t i = 0; i < spatial; ++i) {
    int64_t last = (out[i + 2] - 1) * a.strides[i] + (a.kernel[i] - 1) * a.dilations[i] - a.pads_begin[i];
    pad.begin.push_back(a.pads_begin[i]);
    pad.end.push_back(std::max<int64_t>(0, last - in[i + 2] + 1));
  }
  graph::ValueId data = c.input(0);
  if (bytes) TCC_TRY_SET(data, c.cast(data, graph::DType::kI32));
  TCC_TRY(graph::ValueId padded, c.emit(Op::kPad, pad, {data}));
  graph::ValueId best = graph::kNone, where = graph::kNone;
  std::vector<int64_t> tap(spatial, 0);
  for (int64_t k = 0; k < taps; ++k) {
    graph::SliceAttrs cut{{0, 0}, {1, 1}, out};
    int64_t offset = 0;
    for (size_t i = 0; i < spatial; ++i) {
      cut.starts.push_back(tap[i] * a.dilations[i]);
      cut.steps.push_back(a.strides[i]);
      offset += (tap[i] * a.dilations[i] - a.pads_begin[i]) * strides[i];
    }
    TCC_TRY(graph::ValueId x, c.emit(Op::kSlice, cut, {padded}));
    graph::ValueId here = c.constant(graph::DType::kI64, {}, graph::make_constant_i64(std::array{offset}));
    if (k == 0) {
      best = x;
      where = here;
    } else {
      TCC_TRY(graph::ValueId above, c.binary(graph::BinaryFn::kGreater, x, best));
      TCC_TRY(best, c.where(above, x, best));
      TCC_TRY(where, c.where(above, here, where));
    }
    advance(tap, a.kernel);
  }
  // Plus the position of the window's first element, a sum of one number for each axis.
  for (size_t axis = 0; axis < out.size(); ++axis) {
    int64_t step = axis == 0 ? in[1] * pixels : pixels;
    if (axis >= 2) step = a.strides[axis - 2] * strides[axis - 2];
    std::vector<int64_t> starts;
    for (int64_t at = 0; at < out[axis]; ++at) starts.push_back(at * step);
    Shape along(out.size(), 1);
    along[axis] = out[axis];
    TCC_TRY_SET(where,
                c.arithmetic(Op::kAdd, where, c.constant(graph::DType::kI64, along, graph::make_constant_i64(starts))));
  }
  c.set_output(0, pooled);
  c.set_output(1, where);
  return {};
}

}  // namespace

Result<void> import_max_pool(NodeContext& c) {
  TCC_TRY(auto attrs, read_pool(c, c.input_value(0).shape, c.opset() >= 10));
  TCC_TRY(bool column_major, c.get_flag("storage_order", false, 8));
  if (c.opset() >= 8 && c.wants_output(1)) return max_pool_positions(c, attrs, column_major);
  return c.finish(Op::kMaxPool, attrs, {c.input(0)});
}

namespace {

// Maxima of bytes whose channels are last: of each place of the window a slice, which has vectors of channels.
Made maxima_of_slices(NodeContext& c, const graph::PoolAttrs& a) {
  graph::ValueId x = c.input(0);
  const graph::DType dtype = c.value(x).dtype;
  const size_t spatial = a.kernel.size();
  graph::PadAttrs pad{{0}, {0}, dtype == graph::DType::kI8 ? -128.0 : 0.0};
  pad.begin.insert(pad.begin.end(), a.pads_begin.begin(), a.pads_begin.end());
  pad.end.insert(pad.end.end(), a.pads_end.begin(), a.pads_end.end());
  pad.begin.push_back(0);
  pad.end.push_back(0);
  const auto is_zero = [](int64_t n) { return n == 0; };
  if (!std::all_of(pad.begin.begin(), pad.begin.end(), is_zero) ||
      !std::all_of(pad.end.begin(), pad.end.end(), is_zero))
    TCC_TRY_SET(x, c.emit(Op::kPad, pad, {x}));
  graph::SliceAttrs cut{std::vector<int64_t>(spatial + 2, 0), {1}, c.value(x).shape};
  cut.steps.insert(cut.steps.end(), a.strides.begin(), a.strides.end());
  cut.steps.push_back(1);
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t reach = (a.kernel[i] - 1) * a.dilations[i] + 1;
    if (cut.extents[i + 1] < reach) return input_error("a window of {} is longer than axis {}", reach, i + 1);
    cut.extents[i + 1] = (cut.extents[i + 1] - reach) / a.strides[i] + 1;
  }
  std::optional<graph::ValueId> greatest;
  std::vector<int64_t> tap(spatial, 0);
  for (int64_t k = graph::element_count(a.kernel); k > 0; --k) {
    for (size_t i = 0; i < spatial; ++i) cut.starts[i + 1] = tap[i] * a.dilations[i];
    TCC_TRY(graph::ValueId here, c.emit(Op::kSlice, cut, {x}));
    if (greatest) TCC_TRY_SET(here, c.binary(graph::BinaryFn::kMax, *greatest, here));
    greatest = here;
    advance(tap, a.kernel);
  }
  return *greatest;
}

}  // namespace

Result<void> import_nhwc_max_pool(NodeContext& c) {
  constexpr int64_t kMostSlices = 16;
  TCC_TRY_VOID(spatial_axes(c));
  const graph::DType dtype = c.input_value(0).dtype;
  if (dtype != graph::DType::kU8 && dtype != graph::DType::kI8)
    return input_error("needs integers of 8 bits, got {}", graph::dtype_name(dtype));
  Shape plain = c.input_value(0).shape;
  std::rotate(plain.begin() + 1, plain.end() - 1, plain.end());
  TCC_TRY(auto attrs, read_pool(c, plain, true));
  if (!attrs.ceil_mode && graph::element_count(attrs.kernel) <= kMostSlices)
    return c.finish(maxima_of_slices(c, attrs));
  TCC_TRY(const graph::ValueId x, channels_moved(c, c.input(0), true));
  return c.finish(channels_moved(c, c.emit(Op::kMaxPool, attrs, {x}), false));
}

Made emit_average_pool(NodeContext& c, graph::ValueId x) {
  TCC_TRY(auto attrs, read_pool(c, c.value(x).shape, false));
  TCC_TRY(attrs.count_include_pad, c.get_flag("count_include_pad", false));
  return c.emit(Op::kAveragePool, attrs, {x});
}

Result<void> import_average_pool(NodeContext& c) {
  TCC_TRY(auto attrs, read_pool(c, c.input_value(0).shape, c.opset() >= 19));
  TCC_TRY(attrs.count_include_pad, c.get_flag("count_include_pad", false, 7));
  return c.finish(Op::kAveragePool, attrs, {c.input(0)});
}

namespace {

// (sum of |x|^p)^(1 / p); `sum` adds up what it is given.
template <class Sum>
Made norm_of(NodeContext& c, int64_t p, Sum sum) {
  TCC_TRY(const graph::ValueId x, c.widened(c.input(0)));
  const graph::DType dtype = c.value(x).dtype;
  auto number = [&](double v) { return c.scalar(dtype, v); };
  auto narrow = [&](const Made& y) { return c.cast(y, c.input_value(0).dtype); };
  Made power = p == 2 ? c.arithmetic(Op::kMul, x, x) : c.unary(graph::UnaryFn::kAbs, x);
  if (p > 2) power = c.binary(graph::BinaryFn::kPow, power, number(static_cast<double>(p)));
  Made all = sum(power);
  if (p == 1) return narrow(all);
  if (p == 2) return narrow(c.unary(graph::UnaryFn::kSqrt, all));
  return narrow(c.binary(graph::BinaryFn::kPow, all, number(1 / static_cast<double>(p))));
}

Result<int64_t> read_norm(NodeContext& c) {
  TCC_TRY(int64_t p, c.get_int("p", 2));
  if (p < 1) return input_error("p is {}, expected 1 or more", p);
  return p;
}

}  // namespace

namespace {

// How many elements of each window of a pool are inside the padded input: with ceil_mode the last may end after it.
std::vector<double> window_elements(const graph::PoolAttrs& a, const Shape& input, const Shape& output) {
  std::vector<double> counts{1};
  for (size_t i = 0; i < a.kernel.size(); ++i) {
    std::vector<double> longer;
    const int64_t end = input[i + 2] + a.pads_begin[i] + a.pads_end[i];
    for (double before : counts) {
      for (int64_t o = 0; o < output[i + 2]; ++o) {
        int64_t taps = 0;
        for (int64_t k = 0; k < a.kernel[i]; ++k) taps += o * a.strides[i] + k * a.dilations[i] < end;
        longer.push_back(before * static_cast<double>(taps));
      }
    }
    counts = std::move(longer);
  }
  return counts;
}

}  // namespace

// A sum over a window is its average, zeros of padding counted, times its elements.
Result<void> import_lp_pool(NodeContext& c) {
  TCC_TRY(graph::PoolAttrs attrs, read_pool(c, c.input_value(0).shape, c.opset() >= 18));
  TCC_TRY(int64_t p, read_norm(c));
  attrs.count_include_pad = true;
  const auto elements = static_cast<double>(graph::element_count(attrs.kernel));
  return c.finish(norm_of(c, p, [&](const Made& power) -> Made {
    Made average = c.emit(Op::kAveragePool, attrs, {power});
    if (!average) return average;
    const DType dtype = c.value(*average).dtype;
    if (!attrs.ceil_mode) return c.arithmetic(Op::kMul, average, c.scalar(dtype, elements));
    Shape shape = c.value(*average).shape;
    const std::vector<double> counts = window_elements(attrs, c.input_value(0).shape, shape);
    shape[0] = shape[1] = 1;
    return c.arithmetic(Op::kMul, average, c.constant(dtype, shape, graph::make_constant_from_doubles(dtype, counts)));
  }));
}

Result<void> import_global_lp_pool(NodeContext& c) {
  TCC_TRY([[maybe_unused]] size_t spatial, spatial_axes(c));
  TCC_TRY(int64_t p, read_norm(c));
  return c.finish(
      norm_of(c, p, [&](const Made& power) { return c.reduce(Op::kReduceSum, power, axes_from(2, c.rank(0)), true); }));
}

Result<void> import_global_pool(NodeContext& c) {
  TCC_TRY_VOID(spatial_axes(c));
  Op op = c.op() == "GlobalMaxPool" ? Op::kReduceMax : Op::kReduceMean;
  return c.finish(c.reduce(op, c.input(0), axes_from(2, c.rank(0)), true));
}

Result<void> import_lrn(NodeContext& c) {
  graph::LrnAttrs attrs;
  TCC_TRY(attrs.alpha, c.get_float("alpha", 1e-4));
  TCC_TRY(attrs.beta, c.get_float("beta", 0.75));
  TCC_TRY(attrs.bias, c.get_float("bias", 1));
  if (!c.has_attribute("size")) return input_error("attribute 'size' is missing");
  TCC_TRY(attrs.size, c.get_int("size", 1));
  return c.finish(Op::kLrn, attrs, {c.input(0)});
}

}  // namespace tcc::onnx
