// ConvTranspose: convolutions of the input as it is for each phase of the strides, woven into each other.
#include <algorithm>
#include <numeric>

#include "handlers.h"
#include "tcc/support/text.h"
#include "window_attributes.h"

namespace tcc::onnx {

namespace {

constexpr double kWorthSplitting = 1.25;  // times the work of what is used
constexpr int64_t kMaxPhases = 16;        // with a convolution each

// With strides, most products over a stretched input are with its zeros. Output position o of an axis, counted from
// before the cut, is o = stride * i + dilation * t for input i and tap t. With g the greatest common divisor of stride
// and dilation, and t = (stride / g) * j + u,
//
//   o = stride * (i + (dilation / g) * j) + dilation * u
//
// So the taps of one u make the outputs of one phase o mod stride, as a convolution of the input as it is, which is
// dilated by dilation / g. Of the stride phases, stride / g have taps.
struct TransposedAxis {
  int64_t in, kernel, stride, dilation, before, after;  // pads of the stretched input; negative: cut
  int64_t phases = 1;                                   // that the convolution of all phases computes
  int64_t classes() const { return stride / std::gcd(stride, dilation); }  // of taps: the values of u
  int64_t spread() const { return dilation / std::gcd(stride, dilation); }
  int64_t taps() const { return (kernel + classes() - 1) / classes(); }  // of one class, at most
  int64_t positions() const { return in + spread() * (taps() - 1); }     // of one phase
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  // The first output, counted from before the cut, and the number of outputs.
  int64_t first() const { return reach() - 1 - before; }
  int64_t extent() const { return (in - 1) * stride + 2 + before + after - reach(); }
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
    TransposedAxis axis{in, k, s, d, reach - 1 - begin, reach - 1 - end + extra[i]};
    axis.phases = writes_zeros ? std::min(k, axis.classes()) : axis.classes();
    axes.push_back(axis);
  }
  return axes;
}

// The input with stride - 1 zeros between its elements, and cut where pads are negative.
Result<graph::ValueId> stretch(NodeContext& c, const std::vector<TransposedAxis>& axes) {
  Shape shape = c.input_value(0).shape, split(shape.begin(), shape.begin() + 2), joined = split;
  graph::PadAttrs zeros{{0, 0}, {0, 0}, 0};
  for (const TransposedAxis& a : axes) {
    split.insert(split.end(), {a.in, 1});
    zeros.begin.insert(zeros.begin.end(), {0, 0});
    zeros.end.insert(zeros.end.end(), {0, a.stride - 1});
    joined.push_back(a.in * a.stride);
  }
  Made x = c.input(0);
  if (zeros.begin != zeros.end) x = c.emit_reshape(c.emit(Op::kPad, zeros, {c.emit_reshape(x, split)}), joined);
  for (size_t i = 0; i < axes.size(); ++i) {
    // The zeros behind the last element are cut, with what negative pads cut.
    int64_t first = std::max<int64_t>(0, -axes[i].before), last = std::max<int64_t>(0, -axes[i].after);
    int64_t extent = (axes[i].in - 1) * axes[i].stride + 1 - first - last;
    if (extent < 1) return refuse(Refusal::kAttribute, "pads cut away the whole spatial axis {}", i);
    x = c.slice(x, static_cast<int64_t>(i) + 2, first, extent);
  }
  return x;
}

// All phases are channels of one convolution, and are then woven into each other (sub-pixel convolution, Shi et al.,
// CVPR 2016). That needs phases that begin at one position: there is one, or they are the first ones.
bool has_phases(const std::vector<TransposedAxis>& axes) {
  bool strided = false;
  for (const TransposedAxis& a : axes) {
    if (a.dilation != 1 && a.classes() != 1) return false;
    // The cuts at both ends must be inside the elements that the phases make.
    if (a.first() < 0 || a.extent() < 1 || a.first() + a.extent() > a.stride * a.positions()) return false;
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
  Shape phases{batch, filters}, woven = phases;
  std::vector<int64_t> perm{0, 1};
  graph::SliceAttrs cut{{0, 0}, {1, 1}, phases};
  for (const TransposedAxis& a : axes) {
    conv.kernel.push_back(a.taps());
    conv.dilations.push_back(a.spread());
    conv.pads_begin.push_back(a.positions() - a.in);
    conv.pads_end.push_back(a.positions() - a.in);
    phases.push_back(a.phases);
    woven.push_back(a.stride * a.positions());
    cut.starts.push_back(a.first());
    cut.steps.push_back(1);
    cut.extents.push_back(a.extent());
  }
  for (size_t i = 0; i < spatial; ++i) {
    phases.push_back(axes[i].positions());
    perm.push_back(static_cast<int64_t>(2 + spatial + i));
    perm.push_back(static_cast<int64_t>(2 + i));
  }
  // Where no phase is zero, the bias goes with the convolution: of each filter, once for each phase.
  const bool all_have_taps =
      std::all_of(axes.begin(), axes.end(), [](const TransposedAxis& a) { return a.phases == a.stride; });
  const int64_t repeats = c.value(w).shape[0] / filters;
  std::vector<Made> inputs{c.input(0), w};
  if (c.has_input(2) && all_have_taps) {
    const Made each = c.emit_reshape(c.input(2), {filters, 1});
    inputs.push_back(
        c.emit_reshape(c.emit(Op::kExpand, graph::ReshapeAttrs{{filters, repeats}}, {each}), {filters * repeats}));
  }
  Made all = c.emit_reshape(c.emit(Op::kConv, conv, inputs), phases);
  // Woven before zeros are added: one phase of each axis is where it belongs already.
  Shape places{batch, filters}, made = places;
  graph::PadAttrs empty{{0, 0}, {0, 0}, 0};
  for (const TransposedAxis& a : axes) {
    made.push_back(a.positions() * a.phases);
    places.insert(places.end(), {a.positions(), a.phases});
    empty.begin.insert(empty.begin.end(), {0, 0});
    empty.end.insert(empty.end.end(), {0, a.stride - a.phases});
  }
  all = c.rearrange(all, phases, perm, made);
  if (empty.end != empty.begin) all = c.emit_reshape(c.emit(Op::kPad, empty, {c.emit_reshape(all, places)}), woven);
  Made y = c.emit(Op::kSlice, cut, {all});
  if (!c.has_input(2) || all_have_taps) return c.finish(y);
  Shape channels(spatial + 1, 1);
  channels[0] = filters;
  return c.finish(c.arithmetic(Op::kAdd, y, c.emit_reshape(c.input(2), channels)));
}

// A convolution of all phases makes taps - 1 outputs more of each phase than are used: of small images that is much.
// Then each phase has a convolution of its own, of the part of the padded input that it sees.
bool phases_apart(const std::vector<TransposedAxis>& axes) {
  double waste = 1;
  int64_t count = 1;
  for (const TransposedAxis& a : axes) {
    if (a.extent() % a.stride != 0 || a.phases != a.stride || a.stride > kMaxPhases) return false;
    count *= a.stride;
    waste *= static_cast<double>(a.positions()) / static_cast<double>(a.extent() / a.stride);
  }
  return waste > kWorthSplitting && count <= kMaxPhases;
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
  conv.pads_begin.assign(spatial, 0);
  conv.pads_end.assign(spatial, 0);
  graph::PadAttrs pad{{0, 0}, {0, 0}, 0};
  int64_t phases = 1;
  std::vector<int64_t> first, made;
  for (size_t i = 0; i < spatial; ++i) {
    const TransposedAxis& a = axes[i];
    const int64_t reach = a.positions() - a.in;
    first.push_back(a.first());
    made.push_back(a.extent() / a.stride);
    const int64_t last = (first[i] + a.stride - 1) / a.stride + made[i] + reach;
    pad.begin.push_back(reach);
    pad.end.push_back(std::max<int64_t>(0, last - a.in - reach));
    conv.kernel.push_back(a.taps());
    conv.dilations.push_back(a.spread());
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
      window.extents.push_back(made[i] + axes[i].positions() - axes[i].in);
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

// The taps of the phase that an output is of, and the inputs that it and the outputs a stride behind it see.
struct PhaseAxis {
  int64_t class_of_taps, taps, start, extent, before, after;
};
std::optional<PhaseAxis> phase_of(const TransposedAxis& a, int64_t output, int64_t outputs) {
  const int64_t from = a.first() + output;
  for (int64_t u = 0; u < std::min(a.classes(), a.kernel); ++u) {
    if (a.dilation * u % a.stride != from % a.stride) continue;
    PhaseAxis p{};
    p.class_of_taps = u;
    p.taps = (a.kernel - 1 - u) / a.classes() + 1;
    const int64_t reach = a.spread() * (p.taps - 1);
    const int64_t low = from / a.stride - a.dilation * u / a.stride - reach, high = low + outputs + reach;
    p.start = std::max<int64_t>(0, low);
    p.extent = std::min(high, a.in) - p.start;
    p.before = std::max<int64_t>(0, -low);
    p.after = std::max<int64_t>(0, high - a.in);
    if (p.extent > 0) return p;
  }
  return std::nullopt;  // no tap, or only padding
}

// Phases that begin at positions of their own have a convolution each. nullopt: a phase is zero, or they are many.
std::optional<std::vector<std::vector<PhaseAxis>>> phases_of_dilated(const std::vector<TransposedAxis>& axes) {
  std::vector<std::vector<PhaseAxis>> phases(1);
  int64_t count = 1;
  for (const TransposedAxis& a : axes) {
    count *= a.stride;
    if (a.first() < 0 || a.extent() < 1 || a.stride > kMaxPhases || count > kMaxPhases) return std::nullopt;
    std::vector<std::vector<PhaseAxis>> more;
    for (const std::vector<PhaseAxis>& outer : phases)
      for (int64_t p = 0; p < a.stride; ++p) {
        const std::optional<PhaseAxis> phase = phase_of(a, p, (a.extent() + a.stride - 1) / a.stride);
        if (!phase) return std::nullopt;
        more.push_back(outer);
        more.back().push_back(*phase);
      }
    phases = std::move(more);
  }
  return count > 1 ? std::optional(std::move(phases)) : std::nullopt;
}

// Classes of fewer taps than others have zeros in a convolution of all phases: 3 taps with a stride of 2 are 2 and 1.
// Convolutions of their own multiply by none, and pay for being several where the image is large.
bool taps_are_uneven(const std::vector<TransposedAxis>& axes, double products) {
  constexpr double kLeastProducts = 4e6;
  double waste = 1;
  for (const TransposedAxis& a : axes)
    waste *= static_cast<double>(a.taps() * a.phases) / static_cast<double>(a.kernel);
  return waste > kWorthSplitting && products >= kLeastProducts;
}

// Output o = i * stride + p of each axis is output i of phase p.
Result<void> import_dilated_phases(NodeContext& c, const std::vector<TransposedAxis>& axes, int64_t group,
                                   const std::vector<std::vector<PhaseAxis>>& phases) {
  const size_t spatial = axes.size();
  const Shape in = c.input_value(0).shape, weight = c.input_value(1).shape;
  const int64_t batch = in[0], filters = group * weight[1];
  Shape plane{batch, filters, 1}, split{batch, filters}, woven = split, cut = split;
  graph::ConvAttrs conv;
  conv.group = group;
  conv.strides.assign(spatial, 1);
  for (const TransposedAxis& a : axes) {
    conv.dilations.push_back(a.spread());
    plane.push_back((a.extent() + a.stride - 1) / a.stride);
    split.push_back(a.stride);
    woven.push_back(plane.back() * a.stride);
    cut.push_back(a.extent());
  }
  std::vector<Made> parts;
  for (const std::vector<PhaseAxis>& phase : phases) {
    graph::SliceAttrs window{{0, 0}, {1, 1}, {batch, in[1]}};
    // C x M/g x kernel -> M x C/g x taps, mirrored.
    graph::SliceAttrs taps{{0, 0}, {1, 1}, {weight[0], weight[1]}};
    Shape grouped{group, weight[0] / group, weight[1]}, kernel{filters, weight[0] / group};
    std::vector<int64_t> perm{0, 2, 1};
    conv.kernel.clear(), conv.pads_begin.clear(), conv.pads_end.clear();
    for (size_t i = 0; i < spatial; ++i) {
      const PhaseAxis& p = phase[i];
      window.starts.push_back(p.start);
      window.steps.push_back(1);
      window.extents.push_back(p.extent);
      taps.starts.push_back(p.class_of_taps + axes[i].classes() * (p.taps - 1));
      taps.steps.push_back(-axes[i].classes());
      taps.extents.push_back(p.taps);
      grouped.push_back(p.taps);
      kernel.push_back(p.taps);
      perm.push_back(static_cast<int64_t>(i) + 3);
      conv.kernel.push_back(p.taps);
      conv.pads_begin.push_back(p.before);
      conv.pads_end.push_back(p.after);
    }
    Made x = window.extents == in ? Made(c.input(0)) : c.emit(Op::kSlice, window, {c.input(0)});
    Made w = c.rearrange(c.emit(Op::kSlice, taps, {c.input(1)}), grouped, perm, kernel);
    std::vector<Made> inputs{x, w};
    if (c.has_input(2)) inputs.push_back(c.input(2));
    parts.push_back(c.emit_reshape(c.emit(Op::kConv, conv, inputs), plane));
  }
  std::vector<int64_t> order{0, 1};
  split.insert(split.end(), plane.begin() + 3, plane.end());
  for (size_t i = 0; i < spatial; ++i) {
    order.push_back(static_cast<int64_t>(2 + spatial + i));
    order.push_back(static_cast<int64_t>(2 + i));
  }
  Made y = c.rearrange(c.emit(Op::kConcat, graph::AxisAttrs{2}, parts), split, order, woven);
  if (cut == woven) return c.finish(y);
  return c.finish(c.emit(Op::kSlice, graph::SliceAttrs{Shape(cut.size(), 0), Shape(cut.size(), 1), cut}, {y}));
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
  const auto apart = phases_of_dilated(axes);
  const double products =
      static_cast<double>(c.input_value(0).elements()) * static_cast<double>(c.input_value(1).elements() / weight[0]);
  if (has_phases(axes) && apart && group == 1 && taps_are_uneven(axes, products))
    return import_dilated_phases(c, axes, group, *apart);
  if (has_phases(axes) && phases_apart(axes)) return import_phases_apart(c, axes, group);
  if (has_phases(axes)) return import_phases(c, axes, group);
  if (apart) return import_dilated_phases(c, axes, group, *apart);
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
  for (const TransposedAxis& a : axes) {
    attrs.dilations.push_back(a.dilation);
    attrs.pads_begin.push_back(std::max<int64_t>(0, a.before));
    attrs.pads_end.push_back(std::max<int64_t>(0, a.after));
  }
  attrs.group = group;
  std::vector<Made> inputs{x, w};
  if (c.has_input(2)) inputs.push_back(c.input(2));
  return c.finish(Op::kConv, attrs, inputs);
}

}  // namespace tcc::onnx
