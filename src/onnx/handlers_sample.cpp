// Operators that read an image between its elements, at places that are computed: GridSample, RoiAlign and DeformConv.
// Images become rows of channels, a gather reads one row for each tap, and the taps' weighted sum is a reduction. Where
// GridSample reads few elements of a large image, it reads them from where they are.
#include <algorithm>
#include <cmath>
#include <utility>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

// Expressions over values of one type.
class Numbers {
 public:
  Numbers(NodeContext& c, DType dtype) : c_(c), dtype_(dtype) {}
  Made add(const Made& x, const Made& y) { return c_.arithmetic(Op::kAdd, x, y); }
  Made sub(const Made& x, const Made& y) { return c_.arithmetic(Op::kSub, x, y); }
  Made mul(const Made& x, const Made& y) { return c_.arithmetic(Op::kMul, x, y); }
  Made div(const Made& x, const Made& y) { return c_.arithmetic(Op::kDiv, x, y); }
  Made number(double v) { return c_.scalar(dtype_, v); }
  Made floor(const Made& x) { return c_.unary(UnaryFn::kFloor, x); }
  Made abs(const Made& x) { return c_.unary(UnaryFn::kAbs, x); }
  Made clamp(const Made& x, double low, double high) { return c_.emit(Op::kClip, graph::ClipAttrs{low, high}, {x}); }
  Made vector(const std::vector<double>& values) {
    return c_.constant(dtype_, {static_cast<int64_t>(values.size())},
                       graph::make_constant_from_doubles(dtype_, values));
  }
  // Back and forth between both bounds.
  Made reflected(const Made& x, double low, double high) {
    const double range = high - low;
    if (range <= 0) return clamp(x, low, low);
    Made from = sub(x, number(low));
    Made turns = floor(div(from, number(2 * range)));
    Made within = sub(from, mul(turns, number(2 * range)));
    return sub(number(low + range), abs(sub(within, number(range))));
  }

 private:
  NodeContext& c_;
  DType dtype_;
};

// An element that is read alone takes as long as this many that are rearranged on the way.
constexpr int64_t kReadsOfRearranging = 3;

enum class Padding { kZeros, kBorder, kReflection };

struct Sampling {
  int64_t taps = 1;  // 1 nearest, 2 linear, 4 cubic; along each axis
  Padding padding = Padding::kZeros;
  bool align_corners = false;
};

Result<Sampling> read_sampling(NodeContext& c) {
  Sampling s;
  TCC_TRY(const std::string mode, c.get_string("mode", c.opset() >= 20 ? "linear" : "bilinear"));
  if (mode == "nearest") {
    s.taps = 1;
  } else if (mode == "linear" || mode == "bilinear") {
    s.taps = 2;
  } else if (mode == "cubic" || mode == "bicubic") {
    s.taps = 4;
  } else {
    return input_error("mode is '{}', expected linear, nearest or cubic", sanitize(mode));
  }
  TCC_TRY(const std::string padding, c.get_string("padding_mode", "zeros"));
  if (padding == "border") {
    s.padding = Padding::kBorder;
  } else if (padding == "reflection") {
    s.padding = Padding::kReflection;
  } else if (padding != "zeros") {
    return input_error("padding_mode is '{}', expected zeros, border or reflection", sanitize(padding));
  }
  TCC_TRY(s.align_corners, c.get_flag("align_corners", false));
  return s;
}

// Positions (i64) and weights along one axis, of shape N, P, taps.
struct Taps {
  Made positions, weights;
};

// Weights of cubic convolution with a = -0.75 for taps at -1, 0, 1, 2: polynomials of the fraction.
Made cubic_weights(Numbers& n, const Made& f) {
  constexpr double a = -0.75;
  Made sum = n.vector({0, 1, 0, 0});
  const std::vector<double> powers[] = {{a, 0, -a, 0}, {-2 * a, -(a + 3), 2 * a + 3, a}, {a, a + 2, -(a + 2), -a}};
  Made power = f;
  for (const std::vector<double>& factors : powers) {
    sum = n.add(sum, n.mul(n.vector(factors), power));
    power = n.mul(power, f);
  }
  return sum;
}

// `place`: where to read, in elements, of shape N, P, 1.
Taps taps_along(NodeContext& c, Numbers& n, const Sampling& s, const Made& place, int64_t extent) {
  const double last = static_cast<double>(extent - 1);
  const double low = s.align_corners ? 0 : -0.5, high = s.align_corners ? last : last + 0.5;
  Made x = place;
  if (s.padding == Padding::kBorder) {
    x = n.clamp(x, 0, last);
    // Up to the border, half an element beyond the last one, cubic weights are those of the place itself. Linear ones
    // multiply the same element there.
    if (s.taps == 4 && !s.align_corners) {
      Made within = c.binary(BinaryFn::kAnd, c.binary(BinaryFn::kLessOrEqual, n.number(low), place),
                             c.binary(BinaryFn::kLessOrEqual, place, n.number(high)));
      x = c.where(within, place, x);
    }
  }
  if (s.padding == Padding::kReflection) x = n.reflected(x, low, high);
  Made at, weights;
  if (s.taps == 1) {
    at = c.unary(UnaryFn::kRound, x);
    weights = n.number(1);
  } else {
    Made base = n.floor(x), fraction = n.sub(x, base);
    at = n.add(base, s.taps == 2 ? n.vector({0, 1}) : n.vector({-1, 0, 1, 2}));
    weights = s.taps == 2 ? n.add(n.vector({1, 0}), n.mul(n.vector({-1, 1}), fraction)) : cubic_weights(n, fraction);
  }
  if (s.padding == Padding::kReflection) at = n.reflected(at, low, high);
  Made inside = n.clamp(at, 0, last);
  if (s.padding == Padding::kZeros) {
    Made hit = c.binary(BinaryFn::kEqual, at, inside);
    weights = c.where(hit, weights, n.number(0));
  }
  return {c.cast(inside, DType::kI64), weights};
}

// Positions and weights of all taps of all axes, in one last axis: the products of those along the axes.
Taps joined_taps(NodeContext& c, const std::vector<Taps>& along, const Shape& extents, int64_t batch, int64_t places,
                 int64_t taps) {
  const size_t axes = along.size();
  Made position, weight;
  int64_t all = 1;
  for (size_t i = 0; i < axes; ++i) {
    Shape shape{batch, places};
    for (size_t k = 0; k < axes; ++k) shape.push_back(k == i ? taps : 1);
    all *= taps;
    Made p = c.emit_reshape(along[i].positions, shape), w = along[i].weights;
    if (w && !c.value(*w).shape.empty()) w = c.emit_reshape(w, shape);
    if (i == 0) {
      position = p;
      weight = w;
      continue;
    }
    position = c.arithmetic(Op::kMul, position, c.scalar(DType::kI64, static_cast<double>(extents[i])));
    position = c.arithmetic(Op::kAdd, position, p);
    weight = c.arithmetic(Op::kMul, weight, w);
  }
  position = c.emit_reshape(position, {batch, places, all, 1});
  if (weight && !c.value(*weight).shape.empty()) weight = c.emit_reshape(weight, {batch, places, all, 1});
  return {position, weight};
}

}  // namespace

Result<void> import_grid_sample(NodeContext& c) {
  TCC_TRY(const Sampling s, read_sampling(c));
  const Shape x = c.input_value(0).shape, grid = c.input_value(1).shape;
  const size_t axes = x.size() < 3 ? 0 : x.size() - 2;
  if (axes == 0 || grid.size() != x.size() || grid.front() != x.front() || grid.back() != static_cast<int64_t>(axes))
    return input_error("grid {} does not fit {}", graph::shape_text(grid), graph::shape_text(x));
  if (axes > 3) return refuse(Refusal::kTooLarge, "has {} spatial axes; at most 3 are supported", axes);
  const DType dtype = c.input_value(0).dtype;
  if (!graph::is_float(dtype))
    return refuse(Refusal::kElementType, "GridSample does not take {}", graph::dtype_name(dtype));
  const Shape extents(x.begin() + 2, x.end());
  const int64_t batch = x[0], channels = x[1], elements = graph::element_count(extents);
  Shape out{batch, channels};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  const int64_t places = graph::element_count(Shape(grid.begin() + 1, grid.end() - 1));
  if (graph::element_count(out) == 0) return c.finish(c.constant(dtype, out, graph::make_constant({})));
  if (elements == 0) return input_error("there is nothing to sample in {}", graph::shape_text(x));
  // Places need the digits of f32.
  const DType place_type = dtype == DType::kF64 || c.input_value(1).dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  Numbers n(c, place_type);
  Made coordinates = c.emit_reshape(c.cast(c.input(1), place_type), {batch, places, static_cast<int64_t>(axes)});
  std::vector<Taps> along;
  for (size_t i = 0; i < axes; ++i) {
    // The grid's last axis counts from the innermost spatial axis outwards.
    Made g = c.slice(coordinates, 2, static_cast<int64_t>(axes - 1 - i), 1);
    const double extent = static_cast<double>(extents[i]);
    Made place = s.align_corners ? n.mul(n.add(g, n.number(1)), n.number((extent - 1) / 2))
                                 : n.sub(n.mul(n.add(g, n.number(1)), n.number(extent / 2)), n.number(0.5));
    along.push_back(taps_along(c, n, s, place, extents[i]));
  }
  const Taps taps = joined_taps(c, along, extents, batch, places, s.taps);
  int64_t reads = places;
  for (size_t i = 0; i < axes; ++i) reads *= s.taps;
  if (kReadsOfRearranging * reads < elements) {
    const Made positions = c.emit(Op::kExpand, graph::ReshapeAttrs{{batch, channels, reads}},
                                  {c.emit_reshape(taps.positions, {batch, 1, reads})});
    Made weights = taps.weights;
    if (weights && !c.value(*weights).shape.empty())
      weights = c.emit_reshape(weights, {batch, 1, places, reads / places});
    const Made image = c.emit_reshape(c.input(0), {batch, channels, elements});
    const Made read = c.emit_reshape(c.emit(Op::kGatherElements, graph::AxisAttrs{2}, {image, positions}),
                                     {batch, channels, places, reads / places});
    const Made sum = c.reduce(Op::kReduceSum, c.arithmetic(Op::kMul, c.cast(read, place_type), weights), {3}, false);
    return c.finish(c.emit_reshape(c.cast(sum, dtype), out));
  }
  // N, elements, C: a tap reads the channels of one element.
  Made rows = c.rearrange(c.input(0), {batch, channels, elements}, {0, 2, 1}, {batch, elements, channels});
  Made read = c.emit(Op::kGatherNd, graph::GatherNdAttrs{1}, {rows, taps.positions});  // N, P, taps, C
  Made sum = c.reduce(Op::kReduceSum, c.arithmetic(Op::kMul, c.cast(read, place_type), taps.weights), {2}, false);
  return c.finish(c.rearrange(c.cast(sum, dtype), {batch, places, channels}, {0, 2, 1}, out));
}

namespace {

struct RoiAxis {
  int64_t bins = 1, samples = 1, extent = 1;
  Made start, size;  // R x 1
};

// Positions (i64) and weights of both taps of all samples along one axis: R x (bins * samples) x 2. No weight where the
// sample is beyond the image by more than one element.
Taps roi_taps(NodeContext& c, Numbers& n, const RoiAxis& axis, int64_t rois) {
  const int64_t count = axis.bins * axis.samples;
  std::vector<double> steps;  // sample k is at start + size * steps[k]
  for (int64_t k = 0; k < count; ++k) steps.push_back((static_cast<double>(k) + 0.5) / static_cast<double>(count));
  const double last = static_cast<double>(axis.extent - 1);
  Made place = n.add(axis.start, n.mul(axis.size, n.vector(steps)));
  Made near = c.binary(BinaryFn::kAnd, c.binary(BinaryFn::kLessOrEqual, n.number(-1), place),
                       c.binary(BinaryFn::kLessOrEqual, place, n.number(last + 1)));
  Made x = n.clamp(place, 0, last), base = n.floor(x);
  Made fraction = c.emit_reshape(n.sub(x, base), {rois, count, 1});
  Made weights = n.add(n.vector({1, 0}), n.mul(n.vector({-1, 1}), fraction));
  weights = c.where(c.emit_reshape(near, {rois, count, 1}), weights, n.number(0));
  Made at = n.clamp(n.add(c.emit_reshape(base, {rois, count, 1}), n.vector({0, 1})), 0, last);
  return {c.cast(at, DType::kI64), weights};
}

Result<void> check_roi_shapes(NodeContext& c) {
  const Shape x = c.input_value(0).shape, rois = c.input_value(1).shape, batch = c.input_value(2).shape;
  const bool fits = x.size() == 4 && rois.size() == 2 && rois[1] == 4 && batch == Shape{rois[0]};
  if (!fits) {
    return input_error("rois {} and batch indices {} do not fit {}", graph::shape_text(rois), graph::shape_text(batch),
                       graph::shape_text(x));
  }
  if (!graph::is_float(c.input_value(0).dtype))
    return refuse(Refusal::kElementType, "RoiAlign does not take {}", graph::dtype_name(c.input_value(0).dtype));
  return {};
}

}  // namespace

Result<void> import_roi_align(NodeContext& c) {
  TCC_TRY_VOID(check_roi_shapes(c));
  TCC_TRY(const std::string mode, c.get_string("mode", "avg"));
  TCC_TRY(const int64_t height, c.get_int("output_height", 1));
  TCC_TRY(const int64_t width, c.get_int("output_width", 1));
  TCC_TRY(const int64_t ratio, c.get_int("sampling_ratio", 0));
  TCC_TRY(const double scale, c.get_float("spatial_scale", 1));
  const char* otherwise = c.opset() >= 16 ? "half_pixel" : "output_half_pixel";
  TCC_TRY(const std::string coordinates, c.get_string("coordinate_transformation_mode", otherwise, 16));
  if (mode != "avg" && mode != "max") return input_error("mode is '{}', expected avg or max", sanitize(mode));
  const bool half = (c.opset() >= 16 ? coordinates : otherwise) == std::string("half_pixel");
  if (height < 1 || width < 1 || ratio < 0 || height * width > kMaxTable || ratio > 1024)
    return input_error("output {}x{} with {} samples", height, width, ratio);
  if (ratio == 0)
    return refuse(Refusal::kRunTimeShape, "sampling_ratio = 0 makes the number of samples depend on each region");
  const Shape x = c.input_value(0).shape;
  const int64_t rois = c.input_value(1).shape[0], channels = x[1];
  const DType dtype = c.input_value(0).dtype;
  const Shape out{rois, channels, height, width};
  if (graph::element_count(out) == 0) return c.finish(c.constant(dtype, out, graph::make_constant({})));
  if (x[2] == 0 || x[3] == 0) return input_error("there is nothing to sample in {}", graph::shape_text(x));
  Numbers n(c, dtype);
  auto axis = [&](int64_t first, int64_t bins, int64_t extent) {
    const double offset = half ? 0.5 : 0;
    Made start = n.sub(n.mul(c.slice(c.input(1), 1, first, 1), n.number(scale)), n.number(offset));
    Made end = n.sub(n.mul(c.slice(c.input(1), 1, first + 2, 1), n.number(scale)), n.number(offset));
    Made size = n.sub(end, start);
    if (!half) size = c.binary(BinaryFn::kMax, size, n.number(1));
    return RoiAxis{bins, ratio, extent, start, size};
  };
  const Taps rows = roi_taps(c, n, axis(1, height, x[2]), rois), columns = roi_taps(c, n, axis(0, width, x[3]), rois);
  const int64_t h = height * ratio, w = width * ratio;
  auto whole = [&](double v) { return c.scalar(DType::kI64, v); };
  auto spread = [&](const Made& v, bool is_row) {
    return c.emit_reshape(v, is_row ? Shape{rois, h, 2, 1, 1} : Shape{rois, 1, 1, w, 2});
  };
  // (image * H + row) * W + column
  Made image = c.emit_reshape(c.cast(c.input(2), DType::kI64), {rois, 1, 1, 1, 1});
  Made position = c.arithmetic(Op::kAdd, c.arithmetic(Op::kMul, image, whole(static_cast<double>(x[2]))),
                               spread(rows.positions, true));
  position = c.arithmetic(Op::kAdd, c.arithmetic(Op::kMul, position, whole(static_cast<double>(x[3]))),
                          spread(columns.positions, false));
  Made weight = n.mul(spread(rows.weights, true), spread(columns.weights, false));
  Made pixels = c.rearrange(c.input(0), {x[0], channels, x[2] * x[3]}, {0, 2, 1}, {x[0] * x[2] * x[3], channels});
  const Shape samples{rois, height, ratio, 2, width, ratio, 2, channels};
  Made read = c.emit(Op::kGather, graph::AxisAttrs{0}, {pixels, position});  // rois, h, 2, w, 2, C
  Made product = c.emit_reshape(n.mul(read, c.emit_reshape(weight, {rois, h, 2, w, 2, 1})), samples);
  Made pooled = c.reduce(mode == "avg" ? Op::kReduceSum : Op::kReduceMax, product, {2, 3, 5, 6}, false);
  if (mode == "avg") pooled = n.mul(pooled, n.number(1 / static_cast<double>(ratio * ratio)));
  return c.finish(c.rearrange(pooled, {rois, height, width, channels}, {0, 3, 1, 2}, out));
}

namespace {

struct DeformShape {
  Shape x, extents, kernel, out, strides, pads, dilations;  // spatial axes only, but for x
  int64_t group = 1, offset_group = 1;
  int64_t taps() const { return graph::element_count(kernel); }
  int64_t places() const { return graph::element_count(out); }
};

// A list of the attribute, or `otherwise` everywhere.
Result<Shape> numbers_of(NodeContext& c, const char* name, size_t count, int64_t otherwise, int64_t least) {
  TCC_TRY(const auto listed, c.get_ints(name));
  const Shape numbers = listed ? *listed : Shape(count, otherwise);
  if (numbers.size() != count ||
      std::any_of(numbers.begin(), numbers.end(), [&](int64_t n) { return n < least || n > graph::kMaxElements; }))
    return input_error("{} is {}, expected {} numbers from {} on", name, graph::shape_text(numbers), count, least);
  return numbers;
}

Result<DeformShape> read_deform_shape(NodeContext& c) {
  DeformShape s;
  s.x = c.input_value(0).shape;
  const Shape w = c.input_value(1).shape, offset = c.input_value(2).shape;
  if (s.x.size() < 3 || w.size() != s.x.size() || offset.size() != s.x.size())
    return input_error("image {}, weight {} and offset {} do not fit", graph::shape_text(s.x), graph::shape_text(w),
                       graph::shape_text(offset));
  const size_t axes = s.x.size() - 2;
  if (axes > 3) return refuse(Refusal::kTooLarge, "has {} spatial axes; at most 3 are supported", axes);
  s.extents.assign(s.x.begin() + 2, s.x.end());
  s.out.assign(offset.begin() + 2, offset.end());
  TCC_TRY(s.strides, numbers_of(c, "strides", axes, 1, 1));
  TCC_TRY(s.pads, numbers_of(c, "pads", 2 * axes, 0, 0));
  TCC_TRY(s.dilations, numbers_of(c, "dilations", axes, 1, 1));
  TCC_TRY(const auto kernel, c.get_ints("kernel_shape"));
  s.kernel.assign(w.begin() + 2, w.end());
  if (kernel && *kernel != s.kernel)
    return input_error("kernel_shape {} is not that of the weight {}", graph::shape_text(*kernel),
                       graph::shape_text(w));
  TCC_TRY(s.group, c.get_int("group", 1));
  TCC_TRY(s.offset_group, c.get_int("offset_group", 1));
  const int64_t channels = s.x[1];
  if (s.group < 1 || s.offset_group < 1 || channels % s.group != 0 || channels % s.offset_group != 0 ||
      w[0] % s.group != 0 || w[1] != channels / s.group)
    return input_error("{} channels and the weight {} do not fit {} groups and {} groups of offsets", channels,
                       graph::shape_text(w), s.group, s.offset_group);
  Shape wanted{s.x[0], s.offset_group * s.taps() * static_cast<int64_t>(axes)};
  for (size_t i = 0; i < axes; ++i) {
    const int64_t room = s.extents[i] + s.pads[i] + s.pads[i + axes] - s.dilations[i] * (s.kernel[i] - 1) - 1;
    wanted.push_back(room < 0 ? 0 : room / s.strides[i] + 1);
  }
  if (offset != wanted)
    return input_error("offset has shape {}, expected {}", graph::shape_text(offset), graph::shape_text(wanted));
  wanted[1] = s.offset_group * s.taps();
  if (c.has_input(4) && c.input_value(4).shape != wanted)
    return input_error("mask has shape {}, expected {}", graph::shape_text(c.input_value(4).shape),
                       graph::shape_text(wanted));
  if (c.has_input(3) && c.input_value(3).shape != Shape{w[0]})
    return input_error("bias has shape {}, expected {} numbers", graph::shape_text(c.input_value(3).shape), w[0]);
  if (!graph::is_float(c.input_value(0).dtype))
    return refuse(Refusal::kElementType, "DeformConv does not take {}", graph::dtype_name(c.input_value(0).dtype));
  if (graph::element_count(offset) == 0 || graph::element_count(s.x) == 0 || w[0] == 0)
    return refuse(Refusal::kNoElements, "nothing is sampled from {}", graph::shape_text(s.x));
  return s;
}

// Where each tap of the kernel reads along one axis without an offset, of shape 1, taps, places.
std::vector<double> grid_along(const DeformShape& s, size_t axis) {
  std::vector<double> places;
  auto digit = [](int64_t index, const Shape& extents, size_t at) {
    for (size_t d = extents.size(); d-- > at + 1;) index /= extents[d];
    return index % extents[at];
  };
  for (int64_t k = 0; k < s.taps(); ++k)
    for (int64_t p = 0; p < s.places(); ++p)
      places.push_back(static_cast<double>(digit(p, s.out, axis) * s.strides[axis] - s.pads[axis] +
                                           digit(k, s.kernel, axis) * s.dilations[axis]));
  return places;
}

}  // namespace

// Dai et al., Deformable Convolutional Networks, 2017; Zhu et al., Deformable ConvNets v2, 2019 (the mask). The image
// is read at the grid of a convolution plus the offsets, and a product with the weights follows.
Result<void> import_deform_conv(NodeContext& c) {
  TCC_TRY(const DeformShape s, read_deform_shape(c));
  const DType dtype = c.input_value(0).dtype, place_type = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const auto axes = static_cast<int64_t>(s.extents.size());
  const int64_t images = s.x[0] * s.offset_group, channels = s.x[1] / s.offset_group, taps = s.taps(),
                places = s.places(), elements = graph::element_count(s.extents), filters = c.input_value(1).shape[0];
  Numbers n(c, place_type);
  Made offsets = c.emit_reshape(c.cast(c.input(2), place_type), {images, taps, axes, places});
  std::vector<Taps> along;
  for (size_t i = 0; i < s.extents.size(); ++i) {
    Made moved = c.emit_reshape(c.slice(offsets, 2, static_cast<int64_t>(i), 1), {images, taps, places});
    Made grid =
        c.constant(place_type, {1, taps, places}, graph::make_constant_from_doubles(place_type, grid_along(s, i)));
    Made place = c.emit_reshape(n.add(grid, moved), {images, taps * places, 1});
    along.push_back(taps_along(c, n, {.taps = 2, .align_corners = true}, place, s.extents[i]));
  }
  const Taps all = joined_taps(c, along, s.extents, images, taps * places, 2);
  Made rows = c.rearrange(c.input(0), {images, channels, elements}, {0, 2, 1}, {images, elements, channels});
  Made read = c.emit(Op::kGatherNd, graph::GatherNdAttrs{1}, {rows, all.positions});  // images, taps places, corners, C
  Made sum = c.reduce(Op::kReduceSum, c.arithmetic(Op::kMul, c.cast(read, place_type), all.weights), {2}, false);
  if (c.has_input(4)) sum = n.mul(sum, c.emit_reshape(c.cast(c.input(4), place_type), {images, taps * places, 1}));
  const int64_t terms = s.x[1] / s.group * taps;
  Made columns =
      c.rearrange(c.cast(sum, dtype), {images, taps, places, channels}, {0, 3, 1, 2}, {s.x[0], s.group, terms, places});
  Made weights = c.emit_reshape(c.input(1), {s.group, filters / s.group, terms});
  Made y = c.emit(Op::kMatMul, graph::MatMulAttrs{}, {weights, columns});
  if (c.has_input(3)) y = c.arithmetic(Op::kAdd, y, c.emit_reshape(c.input(3), {s.group, filters / s.group, 1}));
  Shape out{s.x[0], filters};
  out.insert(out.end(), s.out.begin(), s.out.end());
  return c.finish(c.emit_reshape(y, out));
}

}  // namespace tcc::onnx
