// Resize and Upsample: positions and weights along each axis are constants, so that the rest is a Gather (nearest) or a
// Resample. Names and formulas are those of the operator's text and of its reference implementation.
#include <algorithm>
#include <cmath>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

constexpr int64_t kMostJointTaps = 8;  // more are resampled one axis after the other

struct ResizeOptions {
  std::string mode = "nearest", coordinates = "half_pixel", nearest = "round_prefer_floor", policy = "stretch";
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

// One axis of the result: where its elements come from.
struct AxisTable {
  int64_t axis = 0, in = 0, out = 0;
  double scale = 1, roi_start = 0, roi_end = 1;
  std::string nearest;  // instead of the operator's
  int64_t taps = 1;
  std::vector<int64_t> positions;  // out x taps, inside the input
  std::vector<double> weights;     // out x taps
  std::vector<char> outside;       // out: the element is extrapolated

  // Each element of the result is that of the input, and its other taps weigh nothing.
  bool is_identity() const {
    if (in != out) return false;
    for (size_t i = 0; i < weights.size(); ++i) {
      const bool own = positions[i] == static_cast<int64_t>(i) / taps && weights[i] != 0;
      if (weights[i] != (own ? 1 : 0)) return false;
    }
    return true;
  }
  // Each element of the input `out / in` times, in order?
  bool repeats() const {
    if (in == 0 || out % in != 0 || taps != 1) return false;
    for (int64_t i = 0; i < out; ++i)
      if (positions[static_cast<size_t>(i)] != i / (out / in)) return false;
    return true;
  }
};

// The place in the input that element `x` of the result means, rounded to T after each operation.
template <class T>
T original_place(const AxisTable& t, const std::string& mode, T x) {
  const T in = static_cast<T>(t.in), scale = static_cast<T>(t.scale), width = scale * in, whole = static_cast<T>(t.out);
  const T half = static_cast<T>(0.5);
  if (mode == "asymmetric") return x / scale;
  if (mode == "tf_half_pixel_for_nn") return (x + half) / scale;
  if (mode == "align_corners") return t.out == 1 ? 0 : x * (in - 1) / (width - 1);
  if (mode == "tf_crop_and_resize") {
    const T begin = static_cast<T>(t.roi_start), end = static_cast<T>(t.roi_end);
    if (t.out == 1) return (end - begin) * (in - 1) / 2 + begin * (in - 1);
    return x * (end - begin) * (in - 1) / (width - 1) + begin * (in - 1);
  }
  if (mode == "pytorch_half_pixel" && t.out == 1) return 0;
  if (mode != "half_pixel_symmetric") return (x + half) / scale - half;
  const T adjustment = whole / width, offset = in / 2 * (1 - adjustment);
  return static_cast<T>(static_cast<double>(offset) + (static_cast<double>(x) + 0.5) / static_cast<double>(scale) -
                        0.5);
}

// Which element is the nearest depends on the last digit where a place is between two. Programs compute places in
// single precision: models were checked with these elements.
double place_of(const AxisTable& t, const ResizeOptions& o, bool smooth, int64_t i) {
  const bool exact = smooth || o.coordinates == "align_corners" || o.coordinates == "tf_crop_and_resize";
  return exact ? original_place(t, o.coordinates, static_cast<double>(i))
               : original_place(t, o.coordinates, static_cast<float>(i));
}

int64_t nearest_place(const std::string& mode, double x) {
  // Places this close to the middle of two elements are there, as for ONNX Runtime: the rest is a rounding error.
  constexpr double kOfTheMiddle = 1e-6;
  double place = 0;
  const bool middle = std::fabs(x - std::floor(x) - 0.5) < kOfTheMiddle;
  if (mode == "round_prefer_floor") place = middle ? std::floor(x) : std::ceil(x - 0.5);
  if (mode == "round_prefer_ceil") place = middle ? std::ceil(x) : std::floor(x + 0.5);
  if (mode == "floor") place = std::floor(x);
  if (mode == "ceil") place = std::ceil(x);
  return static_cast<int64_t>(place);
}

double cubic_weight(double distance, double a) {
  const double x = std::fabs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

void fill_table(AxisTable& t, const ResizeOptions& o) {
  const bool linear = o.mode == "linear", smooth = linear || o.mode == "cubic";
  // With antialias a kernel grows with the step between elements of the result.
  const double stretch = o.antialias ? std::min(t.scale, 1.0) : 1.0;
  const double reach = linear ? 1 : 2;
  const auto first = smooth ? static_cast<int64_t>(std::floor(-reach / stretch)) + 1 : 0;
  t.taps = smooth ? 2 - 2 * first : 1;
  const bool crops = o.coordinates == "tf_crop_and_resize";
  for (int64_t i = 0; i < t.out; ++i) {
    const double x = place_of(t, o, smooth, i);
    t.outside.push_back(crops && (x < 0 || x > static_cast<double>(t.in - 1)));
    if (!smooth) {
      t.positions.push_back(
          std::clamp<int64_t>(nearest_place(t.nearest.empty() ? o.nearest : t.nearest, x), 0, t.in - 1));
      t.weights.push_back(1);
      continue;
    }
    const auto base = static_cast<int64_t>(std::ceil(x)) - 1;
    double sum = 0;
    const size_t begin = t.weights.size();
    for (int64_t k = first; k < first + t.taps; ++k) {
      const double distance = (static_cast<double>(base + k) - x) * stretch;
      double w = linear ? std::max(0.0, 1 - std::fabs(distance)) : cubic_weight(distance, o.cubic_a);
      if (o.exclude_outside && (base + k < 0 || base + k >= t.in)) w = 0;
      t.positions.push_back(std::clamp<int64_t>(base + k, 0, t.in - 1));
      t.weights.push_back(w);
      sum += w;
    }
    if (o.exclude_outside || o.antialias)
      for (size_t k = begin; k < t.weights.size(); ++k) t.weights[k] /= sum;
  }
}

// Nearest: axes that repeat elements do it together, by views around one Expand. The others pick.
Made pick_nearest(NodeContext& c, Made x, const std::vector<AxisTable>& tables) {
  for (const AxisTable& t : tables) {
    if (t.repeats()) continue;
    ValueId from = c.constant(DType::kI64, {t.out}, graph::make_constant_i64(t.positions));
    x = c.emit(Op::kGather, graph::AxisAttrs{t.axis}, {x, from});
  }
  if (!x) return x;
  Shape once, often, joined = c.value(*x).shape;
  for (size_t i = 0; i < joined.size(); ++i) {
    const auto t = std::find_if(tables.begin(), tables.end(), [&](const AxisTable& table) {
      return table.axis == static_cast<int64_t>(i) && table.repeats() && table.in != table.out;
    });
    once.push_back(joined[i]);
    often.push_back(joined[i]);
    if (t == tables.end()) continue;
    once.push_back(1);
    often.push_back(t->out / t->in);
    joined[i] = t->out;
  }
  if (once.size() == joined.size()) return x;
  if (static_cast<int64_t>(once.size()) > graph::kMaxRank)
    return refuse(Refusal::kTooLarge, "resizes {} axes at once", once.size() - joined.size());
  x = c.emit(Op::kExpand, graph::ReshapeAttrs{often}, {c.emit_reshape(x, once)});
  return c.emit_reshape(x, joined);
}

Made resample(NodeContext& c, const Made& x, const std::vector<const AxisTable*>& tables, DType weights) {
  graph::ResampleAttrs attrs;
  std::vector<Made> inputs{x};
  for (const AxisTable* t : tables) {
    attrs.axes.push_back(t->axis);
    inputs.push_back(c.constant(DType::kI64, {t->out, t->taps}, graph::make_constant_i64(t->positions)));
    inputs.push_back(c.constant(weights, {t->out, t->taps}, graph::make_constant_from_doubles(weights, t->weights)));
  }
  return c.emit(Op::kResample, attrs, inputs);
}

Made interpolate(NodeContext& c, Made x, const std::vector<AxisTable>& tables) {
  const DType own = c.input_value(0).dtype;
  const DType through = graph::is_float(own) ? own : DType::kF32;
  const DType weights = through == DType::kF64 ? DType::kF64 : DType::kF32;
  x = c.cast(x, through);
  std::vector<const AxisTable*> open;
  int64_t taps = 1;
  for (const AxisTable& t : tables) {
    if (t.is_identity()) continue;
    open.push_back(&t);
    taps *= t.taps;
  }
  if (!open.empty() && taps <= kMostJointTaps) return c.cast(resample(c, x, open, weights), own);
  // The axis that shrinks most comes first: it leaves the others the least work. Of axes that grow alike the last one
  // comes first, whose neighbors have to be gathered into vectors.
  std::sort(open.begin(), open.end(), [](const AxisTable* a, const AxisTable* b) {
    if (a->scale != b->scale) return a->scale < b->scale;
    return a->scale > 1 ? a->axis > b->axis : a->axis < b->axis;
  });
  for (const AxisTable* t : open) x = resample(c, x, {t}, weights);
  return c.cast(x, own);
}

Made extrapolate(NodeContext& c, const Made& y, const std::vector<AxisTable>& tables, double value) {
  Made result = y;
  for (const AxisTable& t : tables) {
    if (!result || std::none_of(t.outside.begin(), t.outside.end(), [](char o) { return o != 0; })) continue;
    Shape shape(c.value(*result).shape.size(), 1);
    shape[static_cast<size_t>(t.axis)] = t.out;
    std::vector<double> outside(t.outside.begin(), t.outside.end());
    ValueId mask = c.constant(DType::kBool, shape, graph::make_constant_from_doubles(DType::kBool, outside));
    result = c.where(mask, c.scalar(c.value(*result).dtype, value), result);
  }
  return result;
}

Result<void> resized(NodeContext& c, std::vector<AxisTable> tables, const ResizeOptions& o) {
  Shape out = c.input_value(0).shape;
  for (AxisTable& t : tables) {
    if (t.out < 0 || t.out > kMaxTable)
      return refuse(Refusal::kTooLarge, "axis {} of {} elements becomes {}", t.axis, t.in, t.out);
    out[static_cast<size_t>(t.axis)] = t.out;
  }
  TCC_TRY_VOID(graph::check_shape(out, "the result"));
  if (graph::element_count(out) == 0)
    return c.finish(c.constant(c.input_value(0).dtype, out, graph::make_constant({})));
  for (AxisTable& t : tables) {
    if (t.in == 0) return input_error("axis {} has no elements to resize", t.axis);
    fill_table(t, o);
    if (static_cast<int64_t>(t.weights.size()) > kMaxTable)
      return refuse(Refusal::kTooLarge, "axis {} needs a table of {} weights", t.axis, t.weights.size());
  }
  const bool nearest = o.mode == "nearest";
  Made y = nearest ? pick_nearest(c, c.input(0), tables) : interpolate(c, c.input(0), tables);
  y = extrapolate(c, y, tables, o.extrapolation);
  if (y && *y == c.input(0)) return c.finish(Op::kIdentity, graph::NoAttrs{}, {y});
  return c.finish(y);
}

Result<std::vector<double>> constant_floats(NodeContext& c, size_t i, const char* what) {
  if (!c.has_input(i)) return std::vector<double>();
  TCC_TRY(const graph::Value* v, c.known_input(i, what));
  if (v->shape.size() > 1)
    return input_error("{} must have one dimension, not shape {}", what, graph::shape_text(v->shape));
  return graph::constant_doubles(*v->constant, v->dtype, v->elements());
}

Result<void> check_scales(const std::vector<double>& scales) {
  for (double s : scales)
    if (!(s > 0) || !std::isfinite(s)) return input_error("scale {} must be finite and above 0", s);
  return {};
}

int64_t floored_extent(int64_t in, double scale) {
  // Scales are f32, and so is the product: 3 * 5/3 is 5.
  return static_cast<int64_t>(std::floor(static_cast<float>(in) * static_cast<float>(scale)));
}

Result<void> check_word(const char* attribute, const std::string& word, std::initializer_list<const char*> known) {
  if (std::any_of(known.begin(), known.end(), [&](const char* k) { return word == k; })) return {};
  return input_error("{} is '{}', which ONNX does not define", attribute, sanitize(word));
}

Result<ResizeOptions> read_options(NodeContext& c) {
  ResizeOptions o;
  TCC_TRY(o.mode, c.get_string("mode", "nearest"));
  TCC_TRY(o.coordinates, c.get_string("coordinate_transformation_mode", "half_pixel"));
  TCC_TRY(o.nearest, c.get_string("nearest_mode", "round_prefer_floor"));
  TCC_TRY(o.cubic_a, c.get_float("cubic_coeff_a", -0.75));
  TCC_TRY(o.extrapolation, c.get_float("extrapolation_value", 0));
  TCC_TRY(o.exclude_outside, c.get_flag("exclude_outside", false));
  TCC_TRY(o.antialias, c.get_flag("antialias", false, 18));
  TCC_TRY(o.policy, c.get_string("keep_aspect_ratio_policy", "stretch", 18));
  TCC_TRY_VOID(check_word("mode", o.mode, {"nearest", "linear", "cubic"}));
  TCC_TRY_VOID(check_word("coordinate_transformation_mode", o.coordinates,
                          {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                           "tf_crop_and_resize", "tf_half_pixel_for_nn"}));
  TCC_TRY_VOID(check_word("nearest_mode", o.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  TCC_TRY_VOID(check_word("keep_aspect_ratio_policy", o.policy, {"stretch", "not_larger", "not_smaller"}));
  return o;
}

}  // namespace

Result<void> import_resize(NodeContext& c) {
  const Shape shape = c.input_value(0).shape;
  TCC_TRY(ResizeOptions o, read_options(c));
  std::vector<int64_t> axes = axes_from(0, c.rank(0));
  if (c.opset() >= 18) {
    TCC_TRY(auto listed, c.get_ints("axes"));
    if (listed) axes = *listed;
    for (int64_t& axis : axes) TCC_TRY_SET(axis, c.normalize_axis(axis, c.rank(0)));
  }
  TCC_TRY(const std::vector<double> scales, constant_floats(c, 2, "scales"));
  TCC_TRY(const std::vector<int64_t> sizes, c.optional_integers(3, "sizes"));
  if (scales.empty() == sizes.empty()) return input_error("needs either scales or sizes");
  if (scales.size() + sizes.size() != axes.size())
    return input_error("{} scales or sizes for {} axes", scales.size() + sizes.size(), axes.size());
  TCC_TRY_VOID(check_scales(scales));
  std::vector<double> roi;
  if (o.coordinates == "tf_crop_and_resize") {
    TCC_TRY(roi, constant_floats(c, 1, "roi"));
    if (roi.size() != 2 * axes.size()) return input_error("roi has {} numbers for {} axes", roi.size(), axes.size());
  }
  std::vector<AxisTable> tables(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisTable& t = tables[i];
    t.axis = axes[i];
    t.in = shape[static_cast<size_t>(t.axis)];
    t.scale =
        sizes.empty() ? scales[i] : static_cast<double>(sizes[i]) / static_cast<double>(std::max<int64_t>(t.in, 1));
    t.out = sizes.empty() ? floored_extent(t.in, t.scale) : sizes[i];
    if (!roi.empty()) t.roi_start = roi[i], t.roi_end = roi[i + axes.size()];
  }
  if (!sizes.empty() && o.policy != "stretch") {
    double scale = tables.front().scale;
    for (const AxisTable& t : tables)
      scale = o.policy == "not_larger" ? std::min(scale, t.scale) : std::max(scale, t.scale);
    for (AxisTable& t : tables) {
      t.scale = scale;
      t.out = static_cast<int64_t>(std::floor(scale * static_cast<double>(t.in) + 0.5));
    }
  }
  // The nodes that it becomes want their axes in order.
  std::sort(tables.begin(), tables.end(), [](const AxisTable& a, const AxisTable& b) { return a.axis < b.axis; });
  for (size_t i = 1; i < tables.size(); ++i)
    if (tables[i].axis == tables[i - 1].axis) return input_error("axis {} is listed twice", tables[i].axis);
  return resized(c, std::move(tables), o);
}

// Resize of opset 10 and Upsample: scales only, places without an offset, and elements cut to integers.
Result<void> import_upsample(NodeContext& c) {
  ResizeOptions o;
  TCC_TRY(o.mode, c.get_string("mode", "nearest"));
  if (o.mode == "bilinear" || o.mode == "trilinear") o.mode = "linear";
  TCC_TRY_VOID(check_word("mode", o.mode, {"nearest", "linear"}));
  o.coordinates = "asymmetric";
  const Shape shape = c.input_value(0).shape;
  std::vector<double> scales;
  if (c.op() == "Resize" || c.opset() >= 9) {
    TCC_TRY(scales, constant_floats(c, 1, "scales"));
  } else if (c.opset() >= 7) {
    TCC_TRY(auto listed, c.get_floats("scales"));
    if (listed) scales = *listed;
  } else {
    TCC_TRY(const double height, c.get_float("height_scale", 1));
    TCC_TRY(const double width, c.get_float("width_scale", 1));
    if (shape.size() != 4) return input_error("needs an input of rank 4, got {}", graph::shape_text(shape));
    scales = {1, 1, height, width};
  }
  if (scales.size() != shape.size()) return input_error("{} scales for {}", scales.size(), graph::shape_text(shape));
  TCC_TRY_VOID(check_scales(scales));
  std::vector<AxisTable> tables;
  for (size_t i = 0; i < shape.size(); ++i) {
    AxisTable t;
    t.axis = static_cast<int64_t>(i);
    t.in = shape[i];
    t.scale = scales[i];
    t.out = floored_extent(t.in, t.scale);
    t.nearest = t.scale < 1 ? "ceil" : "floor";
    tables.push_back(t);
  }
  return resized(c, std::move(tables), o);
}

}  // namespace tcc::onnx
