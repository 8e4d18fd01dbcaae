// Conv and the pools: automatic padding and defaults become explicit numbers here.
#include <algorithm>
#include <cmath>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

constexpr int64_t kMaxAttribute = int64_t{1} << 20;

struct WindowAttributes {
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;
};

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

Result<size_t> spatial_axes(const NodeContext& c) {
  if (c.rank(0) < 3)
    return input_error("needs an input of rank 3 or more, got {}", graph::shape_text(c.input_value(0).shape));
  return static_cast<size_t>(c.rank(0) - 2);
}

Result<graph::PoolAttrs> read_pool(NodeContext& c, bool dilations) {
  TCC_TRY(size_t spatial, spatial_axes(c));
  TCC_TRY(auto kernel, c.get_ints("kernel_shape"));
  if (!kernel || kernel->size() != spatial)
    return input_error("attribute 'kernel_shape' must have {} entries", spatial);
  TCC_TRY(WindowAttributes w, read_window(c, c.input_value(0).shape, *kernel, dilations));
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
    for (size_t i = 0; i < spatial; ++i) {
      cut.starts.push_back(tap[i] * a.dilations[i]);
      cut.steps.push_back(a.strides[i]);
    }
    std::vector<int64_t> positions;
    std::vector<int64_t> at(out.size(), 0);
    for (int64_t e = 0; e < graph::element_count(out); ++e) {
      int64_t position = (at[0] * in[1] + at[1]) * pixels;
      for (size_t i = 0; i < spatial; ++i)
        position += (at[i + 2] * a.strides[i] + tap[i] * a.dilations[i] - a.pads_begin[i]) * strides[i];
      positions.push_back(position);
      for (size_t i = out.size(); i-- > 0 && ++at[i] == out[i];) at[i] = 0;
    }
    TCC_TRY(graph::ValueId x, c.emit(Op::kSlice, cut, {padded}));
    graph::ValueId here = c.constant(graph::DType::kI64, out, graph::make_constant_i64(positions));
    if (k == 0) {
      best = x;
      where = here;
    } else {
      TCC_TRY(graph::ValueId above, c.binary(graph::BinaryFn::kGreater, x, best));
      TCC_TRY(best, c.where(above, x, best));
      TCC_TRY(where, c.where(above, here, where));
    }
    for (size_t i = spatial; i-- > 0 && ++tap[i] == a.kernel[i];) tap[i] = 0;
  }
  c.set_output(0, pooled);
  c.set_output(1, where);
  return {};
}

}  // namespace

Result<void> import_max_pool(NodeContext& c) {
  TCC_TRY(auto attrs, read_pool(c, c.opset() >= 10));
  TCC_TRY(bool column_major, c.get_flag("storage_order", false, 8));
  if (c.opset() >= 8 && c.wants_output(1)) return max_pool_positions(c, attrs, column_major);
  return c.finish(Op::kMaxPool, attrs, {c.input(0)});
}

Result<void> import_average_pool(NodeContext& c) {
  TCC_TRY(auto attrs, read_pool(c, c.opset() >= 19));
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
  TCC_TRY(graph::PoolAttrs attrs, read_pool(c, c.opset() >= 18));
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

namespace {

constexpr double kWorthSplitting = 1.25;  // times the work of what is used

struct TransposedAxis {
  int64_t in, kernel, stride, dilation, before, after;             // pads of the stretched input; negative: cut
  int64_t phases;                                                  // that the convolution computes
  int64_t taps() const { return (kernel + stride - 1) / stride; }  // of one phase
  // The outputs without dilation: the first, counted from before the cut, and their number.
  int64_t first() const { return kernel - 1 - before; }
  int64_t extent() const { return (in - 1) * stride + 2 + before + after - kernel; }
};

// Strides, pads and output shape of a transposed convolution, as a plain convolution over the stretched input.
Result<std::vector<TransposedAxis>> read_transposed(NodeContext& c, const std::vector<int64_t>& kernel, int64_t group) {
  // Phases without a tap are zero. A product with zeros takes longer than writing them where it sums over channels.
  const bool writes_zeros = c.input_value(0).shape[1] > group;
  size_t spatial = kernel.size();
  TCC_TRY(auto strides, list_of(c, "strides", spatial, 1, 1));
  TCC_TRY(auto dilations, list_of(c, "dilations", spatial, 1, 1));
  TCC_TRY(auto pads, list_of(c, "pads", 2 * spatial, 0, 0));
  TCC_TRY(auto extra, list_of(c, "output_padding", spatial, 0, 0));
  TCC_TRY(auto shape, c.get_ints("output_shape"));
  TCC_TRY(std::string mode, c.get_string("auto_pad", "NOTSET"));
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER" && !mode.empty())
    return input_error("auto_pad is '{}', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", sanitize(mode));
  bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  // Some exporters give the shape with batch and channels.
  if (shape && shape->size() == spatial + 2) shape->erase(shape->begin(), shape->begin() + 2);
  if (shape && shape->size() != spatial) return input_error("output_shape has {} entries", shape->size());
  std::vector<TransposedAxis> axes;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t in = c.input_value(0).shape[i + 2], k = kernel[i], s = strides[i], d = k > 1 ? dilations[i] : 1;
    if (k < 1 || k > kMaxAttribute || in > graph::kMaxElements / kMaxAttribute)
      return input_error("kernel extent {} or input extent {} is out of range", k, in);
    int64_t reach = (k - 1) * d + 1, begin = pads[i], end = pads[i + spatial];
    int64_t full = (in - 1) * s + reach + extra[i];
    if (shape || same) {
      int64_t out = shape ? (*shape)[i] : in * s;
      if (out < 1 || out > full + kMaxAttribute) return input_error("output extent {} is out of range", out);
      int64_t total = full - out;
      begin = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      if (total < 0) begin = 0;
      end = total - begin;
    }
    axes.push_back({in, k, s, d, reach - 1 - begin, reach - 1 - end + extra[i], writes_zeros ? std::min(k, s) : s});
  }
  return axes;
}

// The input with stride - 1 zeros between its elements, padded or cut.
Result<graph::ValueId> stretch(NodeContext& c, const std::vector<TransposedAxis>& axes) {
  Shape shape = c.input_value(0).shape, split(shape.begin(), shape.begin() + 2), joined = split;
  graph::PadAttrs zeros{{0, 0}, {0, 0}, 0}, pads = zeros;
  std::vector<int64_t> cuts;
  for (const TransposedAxis& a : axes) {
    split.insert(split.end(), {a.in, 1});
    zeros.begin.insert(zeros.begin.end(), {0, 0});
    zeros.end.insert(zeros.end.end(), {0, a.stride - 1});
    joined.push_back(a.in * a.stride);
    pads.begin.push_back(std::max<int64_t>(0, a.before));
    // The zeros behind the last element are cut, with what negative pads cut.
    pads.end.push_back(std::max<int64_t>(0, a.after));
  }
  Made x = c.emit_reshape(c.emit(Op::kPad, zeros, {c.emit_reshape(c.input(0), split)}), joined);
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t first = std::max<int64_t>(0, -axes[i].before), last = std::max<int64_t>(0, -axes[i].after);
    int64_t extent = (axes[i].in - 1) * axes[i].stride + 1 - first - last;
    if (extent < 1) return refuse(Refusal::kAttribute, "pads cut away the whole spatial axis {}", i);
    x = c.slice(x, static_cast<int64_t>(i) + 2, first, extent);
  }
  return c.emit(Op::kPad, pads, {x});
}

// With strides, most products over a stretched input are with its zeros. Output position o of an axis, counted from
// before the cut, is o = i * stride + t for input i and tap t: outputs of one phase o mod stride see only every
// stride-th tap. So each phase is a convolution of the input as it is with a kernel of ceil(kernel / stride) taps; all
// phases are channels of one convolution, and are then woven into each other (sub-pixel convolution, Shi et al.,
// CVPR 2016).
bool has_phases(const std::vector<TransposedAxis>& axes) {
  bool strided = false;
  for (const TransposedAxis& a : axes) {
    // The cuts at both ends must be inside the elements that the phases make.
    const int64_t made = a.stride * (a.in + a.taps() - 1);
    if (a.dilation != 1 || a.first() < 0 || a.extent() < 1 || a.first() + a.extent() > made) return false;
    strided |= a.stride > 1;
  }
  return strided;
}

// C x M/g x kernel -> (M x phases) x C/g x taps, mirrored.
Result<graph::ValueId> phase_weights(NodeContext& c, const std::vector<TransposedAxis>& axes, int64_t group) {
  const Shape weight = c.input_value(1).shape;
  const size_t spatial = axes.size();
  const int64_t filters = weight[1];
  graph::PadAttrs pad{std::vector<int64_t>(weight.size(), 0), std::vector<int64_t>(weight.size(), 0), 0};
  Shape split{group, weight[0] / group, filters}, joined{group * filters, weight[0] / group};
  std::vector<int64_t> perm{0, 2};
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t taps = axes[i].taps();
    pad.end[i + 2] = taps * axes[i].phases - axes[i].kernel;
    split.insert(split.end(), {taps, axes[i].phases});
    joined[0] *= axes[i].phases;
    joined.push_back(taps);
    perm.push_back(static_cast<int64_t>(4 + 2 * i));
  }
  perm.push_back(1);
  for (size_t i = 0; i < spatial; ++i) perm.push_back(static_cast<int64_t>(3 + 2 * i));
  graph::SliceAttrs mirror{std::vector<int64_t>(split.size(), 0), std::vector<int64_t>(split.size(), 1), split};
  for (size_t i = 0; i < spatial; ++i) {
    mirror.starts[3 + 2 * i] = split[3 + 2 * i] - 1;
    mirror.steps[3 + 2 * i] = -1;
  }
  Made padded = c.emit_reshape(c.emit(Op::kPad, pad, {c.input(1)}), split);
  return c.rearrange(c.emit(Op::kSlice, mirror, {padded}), split, perm, joined);
}

Result<void> import_phases(NodeContext& c, const std::vector<TransposedAxis>& axes, int64_t group) {
  const size_t spatial = axes.size();
  const int64_t batch = c.input_value(0).shape[0], filters = group * c.input_value(1).shape[1];
  TCC_TRY(graph::ValueId w, phase_weights(c, axes, group));
  graph::ConvAttrs conv;
  conv.group = group;
  conv.strides.assign(spatial, 1);
  conv.dilations.assign(spatial, 1);
  Shape phases{batch, filters}, woven = phases;
  std::vector<int64_t> perm{0, 1};
  graph::SliceAttrs cut{{0, 0}, {1, 1}, phases};
  for (const TransposedAxis& a : axes) {
    conv.kernel.push_back(a.taps());
    conv.pads_begin.push_back(a.taps() - 1);
    conv.pads_end.push_back(a.taps() - 1);
    phases.push_back(a.phases);
    woven.push_back(a.stride * (a.in + a.taps() - 1));
    cut.starts.push_back(a.first());
    cut.steps.push_back(1);
    cut.extents.push_back(a.extent());
  }
  for (size_t i = 0; i < spatial; ++i) {
    phases.push_back(axes[i].in + conv.kernel[i] - 1);
    perm.push_back(static_cast<int64_t>(2 + spatial + i));
    perm.push_back(static_cast<int64_t>(2 + i));
  }
  Made all = c.emit_reshape(c.emit(Op::kConv, conv, {c.input(0), w}), phases);
  graph::PadAttrs empty{Shape(phases.size(), 0), Shape(phases.size(), 0), 0};
  for (size_t i = 0; i < spatial; ++i) empty.end[i + 2] = axes[i].stride - axes[i].phases;
  for (size_t i = 0; i < phases.size(); ++i) phases[i] += empty.end[i];
  if (empty.end != empty.begin) all = c.emit(Op::kPad, empty, {all});
  all = c.rearrange(all, phases, perm, woven);
  Made y = c.emit(Op::kSlice, cut, {all});
  if (!c.has_input(2)) return c.finish(y);
  Shape channels(spatial + 1, 1);
  channels[0] = filters;
  return c.finish(c.arithmetic(Op::kAdd, y, c.emit_reshape(c.input(2), channels)));
}

// A convolution of all phases makes taps - 1 outputs more of each phase than are used: of small images that is much.
// Then each phase has a convolution of its own, of the part of the padded input that it sees.
bool phases_apart(const std::vector<TransposedAxis>& axes) {
  double waste = 1;
  for (const TransposedAxis& a : axes) {
    if (a.extent() % a.stride != 0) return false;
    waste *= static_cast<double>(a.in + a.taps() - 1) / static_cast<double>(a.extent() / a.stride);
  }
  return waste > kWorthSplitting;
}

// Output o of an axis is the phase (first + o) % stride of position (first + o) / stride. With o = i * stride + p all
// outputs of one p are of one phase, at consecutive positions.
Result<void> import_phases_apart(NodeContext& c, const std::vector<TransposedAxis>& axes, int64_t group) {
  const size_t spatial = axes.size();
  const int64_t batch = c.input_value(0).shape[0], filters = group * c.input_value(1).shape[1];
  TCC_TRY(graph::ValueId weights, phase_weights(c, axes, group));
  Shape kernel = c.value(weights).shape, by_phase = kernel;
  graph::ConvAttrs conv;
  conv.group = group;
  conv.strides.assign(spatial, 1);
  conv.dilations.assign(spatial, 1);
  conv.pads_begin.assign(spatial, 0);
  conv.pads_end.assign(spatial, 0);
  graph::PadAttrs pad{{0, 0}, {0, 0}, 0};
  int64_t phases = 1;
  std::vector<int64_t> first, made;
  for (size_t i = 0; i < spatial; ++i) {
    const TransposedAxis& a = axes[i];
    const int64_t taps = kernel[i + 2];
    first.push_back(a.first());
    made.push_back(a.extent() / a.stride);
    const int64_t last = (first[i] + a.stride - 1) / a.stride + made[i] + taps - 1;
    pad.begin.push_back(taps - 1);
    pad.end.push_back(std::max<int64_t>(0, last - a.in - (taps - 1)));
    conv.kernel.push_back(taps);
    phases *= a.stride;
  }
  by_phase[0] = filters;
  by_phase.insert(by_phase.begin() + 1, phases);
  kernel[0] = filters;
  TCC_TRY(graph::ValueId padded, c.emit(Op::kPad, pad, {c.input(0)}));
  TCC_TRY(weights, c.emit_reshape(weights, by_phase));
  Shape plane{batch, filters, 1};
  plane.insert(plane.end(), made.begin(), made.end());
  std::vector<Made> parts;
  for (int64_t p = 0; p < phases; ++p) {
    int64_t phase = 0, rest = p;
    std::vector<int64_t> digits(spatial);
    for (size_t i = spatial; i-- > 0;) digits[i] = rest % axes[i].stride, rest /= axes[i].stride;
    graph::SliceAttrs window{{0, 0}, {1, 1}, {batch, c.input_value(0).shape[1]}};
    for (size_t i = 0; i < spatial; ++i) {
      const int64_t from = first[i] + digits[i];
      phase = phase * axes[i].stride + from % axes[i].stride;
      window.starts.push_back(from / axes[i].stride);
      window.steps.push_back(1);
      window.extents.push_back(made[i] + conv.kernel[i] - 1);
    }
    Made x = c.emit(Op::kSlice, window, {padded});
    std::vector<Made> inputs{x, c.emit_reshape(c.slice(weights, 1, phase, 1), kernel)};
    if (c.has_input(2)) inputs.push_back(c.input(2));
    parts.push_back(c.emit_reshape(c.emit(Op::kConv, conv, inputs), plane));
  }
  Shape split{batch, filters}, woven = split;
  std::vector<int64_t> perm{0, 1};
  for (const TransposedAxis& a : axes) split.push_back(a.stride);
  split.insert(split.end(), made.begin(), made.end());
  for (size_t i = 0; i < spatial; ++i) {
    perm.push_back(static_cast<int64_t>(2 + spatial + i));
    perm.push_back(static_cast<int64_t>(2 + i));
    woven.push_back(made[i] * axes[i].stride);
  }
  return c.finish(c.rearrange(c.emit(Op::kConcat, graph::AxisAttrs{2}, parts), split, perm, woven));
}

}  // namespace

// A convolution for each phase of the strides where that serves, else one of the stretched input with the mirrored
// kernel.
Result<void> import_conv_transpose(NodeContext& c) {
  TCC_TRY(size_t spatial, spatial_axes(c));
  const Shape weight = c.input_value(1).shape;
  if (weight.size() != spatial + 2 || c.input_value(0).elements() == 0 || c.input_value(1).elements() == 0) {
    return input_error("weight {} and input {} do not fit", graph::shape_text(weight),
                       graph::shape_text(c.input_value(0).shape));
  }
  std::vector<int64_t> kernel(weight.begin() + 2, weight.end());
  TCC_TRY(auto declared, c.get_ints("kernel_shape"));
  if (declared && *declared != kernel) return input_error("kernel_shape differs from the weight's shape");
  TCC_TRY(int64_t group, c.get_int("group", 1));
  if (group < 1 || weight[0] % group != 0) return input_error("group {} must divide {}", group, weight[0]);
  TCC_TRY(auto axes, read_transposed(c, kernel, group));
  if (has_phases(axes) && phases_apart(axes)) return import_phases_apart(c, axes, group);
  if (has_phases(axes)) return import_phases(c, axes, group);
  TCC_TRY(graph::ValueId x, stretch(c, axes));

  // C x M/g x kernel -> M x C/g x kernel, mirrored.
  graph::SliceAttrs mirror{std::vector<int64_t>(weight.size(), 0), std::vector<int64_t>(weight.size(), 1), weight};
  Shape split{group, weight[0] / group, weight[1]}, joined{group * weight[1], weight[0] / group};
  std::vector<int64_t> perm{0, 2, 1};
  for (size_t i = 0; i < spatial; ++i) {
    mirror.starts[i + 2] = kernel[i] - 1;
    mirror.steps[i + 2] = -1;
    split.push_back(kernel[i]);
    joined.push_back(kernel[i]);
    perm.push_back(static_cast<int64_t>(i) + 3);
  }
  Made w = c.rearrange(c.emit(Op::kSlice, mirror, {c.input(1)}), split, perm, joined);
  graph::ConvAttrs attrs;
  attrs.kernel = kernel;
  attrs.strides.assign(spatial, 1);
  attrs.pads_begin.assign(spatial, 0);
  attrs.pads_end.assign(spatial, 0);
  for (const TransposedAxis& a : axes) attrs.dilations.push_back(a.dilation);
  attrs.group = group;
  std::vector<Made> inputs{x, w};
  if (c.has_input(2)) inputs.push_back(c.input(2));
  return c.finish(Op::kConv, attrs, inputs);
}

}  // namespace tcc::onnx
