// Signals and grids: windows, Fourier transforms as products with constant matrices, determinants, Col2Im.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

// Attribute "output_datatype".
Result<DType> output_type(NodeContext& c, DType otherwise) {
  if (!c.has_attribute("output_datatype")) return otherwise;
  TCC_TRY(int64_t number, c.get_int("output_datatype", 1));
  return dtype_of(static_cast<int32_t>(std::clamp<int64_t>(number, -1, 1000)));
}

Result<int64_t> constant_count(NodeContext& c, size_t input, const char* what) {
  TCC_TRY(auto values, c.constant_integers(input, what));
  if (values.size() != 1) return input_error("{} (input {}) must be one number", what, input);
  if (values[0] < 0 || values[0] > kMaxTable)
    return input_error("{} is {}, expected 0 to {}", what, values[0], kMaxTable);
  return values[0];
}

}  // namespace

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N); N is one less where the window is not periodic.
Result<void> import_window(NodeContext& c) {
  TCC_TRY(int64_t size, constant_count(c, 0, "the size"));
  TCC_TRY(bool periodic, c.get_flag("periodic", true));
  TCC_TRY(DType dtype, output_type(c, DType::kF32));
  double a0 = 0.5, a1 = 0.5, a2 = 0;
  if (c.op() == "HammingWindow") a0 = 25.0 / 46, a1 = 1 - a0;
  if (c.op() == "BlackmanWindow") a0 = 0.42, a2 = 0.08;
  const double period = static_cast<double>(periodic ? size : std::max<int64_t>(size - 1, 1));
  std::vector<double> values(static_cast<size_t>(size));
  for (size_t n = 0; n < values.size(); ++n) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(n) / period;
    values[n] = a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle);
  }
  return c.finish(c.constant(dtype, {size}, graph::make_constant_from_doubles(dtype, values)));
}

// Triangles over the bins of a spectrum, at equal distances on the mel scale.
Result<void> import_mel_weight_matrix(NodeContext& c) {
  TCC_TRY(int64_t bins, constant_count(c, 0, "num_mel_bins"));
  TCC_TRY(int64_t length, constant_count(c, 1, "dft_length"));
  TCC_TRY(int64_t rate, constant_count(c, 2, "sample_rate"));
  TCC_TRY(double low, c.constant_scalar(3, "lower_edge_hertz"));
  TCC_TRY(double high, c.constant_scalar(4, "upper_edge_hertz"));
  TCC_TRY(DType dtype, output_type(c, DType::kF32));
  const int64_t rows = length / 2 + 1;
  if (rate < 1 || bins < 1 || !(low >= 0) || !(high >= low) || high > static_cast<double>(rate))
    return input_error("{} bins from {} to {} Hz at {} samples a second do not describe filters", bins, low, high,
                       rate);
  if (rows * bins > kMaxTable) return refuse(Refusal::kTooLarge, "a matrix of {}x{}", rows, bins);
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + mel(low)) / 2595) - 1);
    edges.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  if (edges.back() > rows) return input_error("the upper edge {} Hz is above half of the sample rate {}", high, rate);
  std::vector<double> values(static_cast<size_t>(rows * bins), 0.0);
  auto set = [&](int64_t row, int64_t column, double value) {
    if (row < rows) values[static_cast<size_t>(row * bins + column)] = value;
  };
  for (int64_t i = 0; i < bins; ++i) {
    const auto k = static_cast<size_t>(i);
    const int64_t left = edges[k], center = edges[k + 1], right = edges[k + 2];
    if (center == left) set(center, i, 1);
    for (int64_t j = left; center > left && j <= center; ++j)
      set(j, i, static_cast<double>(j - left) / static_cast<double>(center - left));
    for (int64_t j = center; j < right; ++j)
      set(j, i, static_cast<double>(right - j) / static_cast<double>(right - center));
  }
  return c.finish(c.constant(dtype, {rows, bins}, graph::make_constant_from_doubles(dtype, values)));
}

namespace {

struct Fourier {
  int64_t steps = 0, parts = 1;  // of the input: positions, and 1 (real) or 2 (real, imaginary)
  int64_t length = 0;            // of the transform
  int64_t results = 0, result_parts = 2;
  bool inverse = false, onesided = false;
};

// Row (step, part), column (result, part). Steps from `length` on do not count.
Result<std::vector<double>> fourier_matrix(const Fourier& f) {
  const int64_t rows = f.steps * f.parts, columns = f.results * f.result_parts;
  if (rows > kMaxTable / std::max<int64_t>(columns, 1))
    return refuse(Refusal::kTooLarge,
                  "a transform of {} steps would be a matrix of {}x{}; at most {} elements are "
                  "supported",
                  f.length, rows, columns, kMaxTable);
  std::vector<double> m(static_cast<size_t>(rows * columns), 0.0);
  for (int64_t t = 0; t < f.steps; ++t) {
    if (!(f.inverse && f.onesided) && t >= f.length) break;
    for (int64_t k = 0; k < f.results; ++k) {
      const double angle =
          2 * std::numbers::pi * static_cast<double>((t * k) % f.length) / static_cast<double>(f.length);
      double re = std::cos(angle), im = f.inverse ? std::sin(angle) : -std::sin(angle);
      double weight = f.inverse ? 1.0 / static_cast<double>(f.length) : 1.0;
      // Half of a spectrum stands for its mirror image, too.
      if (f.inverse && f.onesided) {
        if (t > f.length / 2) weight = 0;
        if (t > 0 && !(f.length % 2 == 0 && t == f.length / 2)) weight *= 2;
      }
      double* at = m.data() + t * f.parts * columns + k * f.result_parts;
      at[0] = weight * re;
      if (f.result_parts == 2) at[1] = weight * im;
      if (f.parts == 2) {
        at[columns] = -weight * im;
        if (f.result_parts == 2) at[columns + 1] = weight * re;
      }
    }
  }
  return m;
}

}  // namespace

// Opset 17 has the axis as an attribute, 20 as an input. The last axis of X is its real and imaginary part.
Result<void> import_dft(NodeContext& c) {
  const Shape s = c.input_value(0).shape;
  if (s.size() < 2 || (s.back() != 1 && s.back() != 2))
    return input_error("X of shape {} must end in an axis of 1 (real) or 2 (complex)", graph::shape_text(s));
  Fourier f;
  TCC_TRY(f.inverse, c.get_flag("inverse", false));
  TCC_TRY(f.onesided, c.get_flag("onesided", false));
  int64_t axis = 1;
  if (c.opset() < 20) {
    TCC_TRY(axis, c.get_int("axis", 1));
  } else {
    TCC_TRY(double given, c.constant_scalar(2, "axis", -2));
    axis = static_cast<int64_t>(given);
  }
  TCC_TRY(axis, c.normalize_axis(axis, c.rank(0)));
  const auto at = static_cast<size_t>(axis);
  if (at + 1 == s.size()) return input_error("axis {} is that of real and imaginary parts", axis);
  f.steps = s[at];
  f.parts = s.back();
  const bool to_real = f.inverse && f.onesided;
  f.length = to_real ? 2 * (f.steps - 1) : f.steps;
  if (c.has_input(1)) TCC_TRY_SET(f.length, constant_count(c, 1, "dft_length"));
  if (f.length < 1 || f.steps < 1) return input_error("a transform of {} elements", f.length);
  if (f.onesided && !f.inverse && f.parts == 2) return input_error("onesided = 1 needs a real signal");
  f.results = f.onesided && !f.inverse ? f.length / 2 + 1 : f.length;
  f.result_parts = to_real ? 1 : 2;
  TCC_TRY(std::vector<double> matrix, fourier_matrix(f));
  const DType dtype = c.input_value(0).dtype;
  ValueId m = c.constant(dtype, {f.steps * f.parts, f.results * f.result_parts},
                         graph::make_constant_from_doubles(dtype, matrix));
  // The axis to the end, next to that of the parts.
  std::vector<int64_t> perm, back(s.size());
  Shape outer, out;
  for (int64_t i = 0; i + 1 < c.rank(0); ++i) {
    if (i == axis) continue;
    perm.push_back(i);
    out.push_back(s[static_cast<size_t>(i)]);
  }
  const int64_t rows = graph::element_count(out);
  perm.insert(perm.end(), {axis, c.rank(0) - 1});
  out.insert(out.end(), {f.results, f.result_parts});
  for (size_t i = 0; i < perm.size(); ++i) back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  Made x = c.emit(Op::kTranspose, graph::TransposeAttrs{perm}, {c.input(0)});
  x = c.emit(Op::kMatMul, graph::MatMulAttrs{}, {c.emit_reshape(x, {rows, f.steps * f.parts}), m});
  return c.finish(Op::kTranspose, graph::TransposeAttrs{back}, {c.emit_reshape(x, out)});
}

// Frames of a signal, times a window, transformed: a convolution whose kernels are the window times a column of the
// Fourier matrix.
Result<void> import_stft(NodeContext& c) {
  Shape s = c.input_value(0).shape;
  if (s.size() == 2) s.push_back(1);
  if (s.size() != 3 || (s[2] != 1 && s[2] != 2))
    return input_error("the signal has shape {}, expected batch, length and 1 or 2 parts", graph::shape_text(s));
  Fourier f;
  TCC_TRY(int64_t step, constant_count(c, 1, "frame_step"));
  TCC_TRY(f.onesided, c.get_flag("onesided", true));
  f.length = s[1];
  if (c.has_input(2)) f.length = c.input_value(2).elements();
  if (c.has_input(3)) TCC_TRY_SET(f.length, constant_count(c, 3, "frame_length"));
  if (step < 1 || f.length < 1 || f.length > s[1])
    return input_error("frames of {} every {} do not fit a signal of {}", f.length, step, s[1]);
  if (c.has_input(2) && c.input_value(2).shape != Shape{f.length})
    return input_error("the window has shape {}, expected {}", graph::shape_text(c.input_value(2).shape), f.length);
  f.steps = f.length;
  f.parts = s[2];
  if (f.onesided && f.parts == 2) return input_error("onesided = 1 needs a real signal");
  f.results = f.onesided ? f.length / 2 + 1 : f.length;
  TCC_TRY(std::vector<double> matrix, fourier_matrix(f));
  const DType dtype = c.input_value(0).dtype;
  // Kernels: result and part, part of the signal, step.
  std::vector<double> kernels(matrix.size());
  const int64_t columns = 2 * f.results;
  for (int64_t t = 0; t < f.steps; ++t) {
    for (int64_t part = 0; part < f.parts; ++part) {
      for (int64_t k = 0; k < columns; ++k)
        kernels[static_cast<size_t>((k * f.parts + part) * f.steps + t)] =
            matrix[static_cast<size_t>((t * f.parts + part) * columns + k)];
    }
  }
  Made weights = c.constant(dtype, {columns, f.parts, f.steps}, graph::make_constant_from_doubles(dtype, kernels));
  if (c.has_input(2)) weights = c.arithmetic(Op::kMul, weights, c.emit_reshape(c.input(2), {1, 1, f.steps}));
  Made x = c.rearrange(c.input(0), s, {0, 2, 1}, {s[0], s[2], s[1]});
  graph::ConvAttrs attrs{{f.steps}, {step}, {1}, {0}, {0}, 1};
  TCC_TRY(ValueId y, c.emit(Op::kConv, attrs, {x, weights}));
  const int64_t frames = c.value(y).shape[2];
  return c.finish(c.rearrange(y, {s[0], columns, frames}, {0, 2, 1}, {s[0], frames, f.results, 2}));
}

// --- determinants ----------------------------------------------------------------------------------------------------

namespace {
constexpr int64_t kMaxDeterminant = 1024;
}  // namespace

Result<void> import_det(NodeContext& c) {
  const Shape s = c.input_value(0).shape;
  if (s.size() < 2 || s.back() != s[s.size() - 2] || s.back() < 1)
    return input_error("needs square matrices, got {}", graph::shape_text(s));
  const int64_t n = s.back();
  if (n > kMaxDeterminant)
    return refuse(Refusal::kTooLarge, "matrices of {0}x{0}; at most {1}x{1} are supported", n, kMaxDeterminant);
  const Shape outer(s.begin(), s.end() - 2);
  const Made matrices = c.emit_reshape(c.input(0), {graph::element_count(outer), n, n});
  return c.finish(c.emit_reshape(c.emit(Op::kDeterminant, graph::NoAttrs{}, {matrices}), outer));
}

// --- blocks and grids ------------------------------------------------------------------------------------------------

namespace {

// Blocks that are a step apart: element o of a block is phase o % stride of element o / stride. Phases become channels,
// and blocks of the others are next to each other.
struct PhasedFold {
  graph::FoldAttrs fold;  // of the phases
  Shape padded, split, phased, parts, joined;
  std::vector<int64_t> phases_first{0, 1}, phases_last{0, 1};
};

PhasedFold phase_apart(const graph::FoldAttrs& whole, const Shape& blocks) {
  const size_t axes = whole.image.size();
  PhasedFold p;
  p.fold.strides.assign(axes, 1), p.fold.pads.assign(axes, 0), p.fold.dilations = whole.dilations;
  p.padded = p.split = p.phased = p.parts = p.joined = {blocks[0], blocks[1]};
  const auto axis = [](size_t i) { return static_cast<int64_t>(i); };
  for (size_t i = 0; i < axes; ++i) {
    const int64_t stride = whole.strides[i], elements = (blocks[2 + i] + stride - 1) / stride;
    const int64_t rooms = std::max(blocks[2 + axes + i] + (elements - 1) * whole.dilations[i],
                                   (whole.pads[i] + whole.image[i] + stride - 1) / stride);
    p.fold.image.push_back(rooms);
    p.padded.push_back(elements * stride);
    p.split.insert(p.split.end(), {elements, stride});
    p.phased[1] *= stride;
    p.phased.push_back(elements);
    p.parts.push_back(stride);
    p.joined.push_back(rooms * stride);
    p.phases_first.push_back(axis(2 * i + 3));
    p.phases_last.insert(p.phases_last.end(), {axis(2 + axes + i), axis(2 + i)});
  }
  for (size_t i = 0; i < axes; ++i) p.phases_first.push_back(axis(2 * i + 2));
  for (size_t i = 0; i < axes; ++i) {
    const int64_t count = blocks[2 + axes + i];
    for (Shape* shape : {&p.padded, &p.split, &p.phased}) shape->push_back(count);
    p.phases_first.push_back(axis(2 + 2 * axes + i));
    p.parts.push_back(p.fold.image[i]);
  }
  return p;
}

Made pad_end(NodeContext& c, const Made& x, const Shape& from, const Shape& to) {
  graph::PadAttrs pad{std::vector<int64_t>(from.size(), 0), std::vector<int64_t>(from.size(), 0), 0};
  for (size_t i = 0; i < from.size(); ++i) pad.end[i] = to[i] - from[i];
  return from == to ? x : c.emit(Op::kPad, pad, {x});
}

Made fold_phases(NodeContext& c, Made x, const graph::FoldAttrs& whole, const Shape& blocks) {
  const PhasedFold p = phase_apart(whole, blocks);
  TCC_TRY_VOID(graph::check_shape(p.joined, "the image with its pads"));
  x = c.rearrange(pad_end(c, x, blocks, p.padded), p.split, p.phases_first, p.phased);
  x = c.rearrange(c.emit(Op::kFold, p.fold, {x}), p.parts, p.phases_last, p.joined);
  for (size_t i = 0; i < whole.image.size(); ++i)
    x = c.slice(x, static_cast<int64_t>(i + 2), whole.pads[i], whole.image[i]);
  return x;
}

}  // namespace

// Blocks back to images: along each axis the position is block * stride + offset * dilation - pad.
Result<void> import_col2im(NodeContext& c) {
  TCC_TRY(auto image, c.constant_integers(1, "image_shape"));
  TCC_TRY(auto block, c.constant_integers(2, "block_shape"));
  const size_t axes = image.size();
  const Shape s = c.input_value(0).shape;
  auto list = [&](const char* name, size_t entries, int64_t otherwise) -> Result<std::vector<int64_t>> {
    TCC_TRY(auto given, c.get_ints(name));
    std::vector<int64_t> v = given.value_or(std::vector<int64_t>(entries, otherwise));
    if (v.size() != entries) return input_error("{} has {} entries, expected {}", name, v.size(), entries);
    for (int64_t x : v) {
      if (x < otherwise || x > kMaxTable) return input_error("{} has {}, expected {} or more", name, x, otherwise);
    }
    return v;
  };
  TCC_TRY(auto strides, list("strides", axes, 1));
  TCC_TRY(auto dilations, list("dilations", axes, 1));
  TCC_TRY(auto pads, list("pads", 2 * axes, 0));
  if (s.size() != 3 || axes < 1 || block.size() != axes || 3 * axes + 2 > static_cast<size_t>(graph::kMaxRank))
    return input_error("input {}, image_shape and block_shape of {} and {} entries do not fit", graph::shape_text(s),
                       axes, block.size());
  std::vector<int64_t> counts;
  int64_t kernel = 1;
  for (size_t i = 0; i < axes; ++i) {
    if (image[i] < 1 || block[i] < 1 || image[i] > kMaxTable || block[i] > kMaxTable)
      return input_error("image_shape and block_shape must be positive");
    const int64_t room = image[i] + pads[i] + pads[axes + i] - dilations[i] * (block[i] - 1) - 1;
    if (room < 0) return input_error("a block of {} does not fit an image of {}", block[i], image[i]);
    counts.push_back(room / strides[i] + 1);
    kernel *= block[i];
    if (kernel > s[1])
      return input_error("blocks of {} elements or more do not fit input {}", kernel, graph::shape_text(s));
  }
  if (s[1] % kernel != 0 || graph::element_count(counts) != s[2])
    return input_error("input {} does not hold {} blocks of {} elements", graph::shape_text(s),
                       graph::element_count(counts), kernel);
  Shape blocks{s[0], s[1] / kernel};
  blocks.insert(blocks.end(), block.begin(), block.end());
  blocks.insert(blocks.end(), counts.begin(), counts.end());
  pads.resize(axes);  // those behind an axis are in the number of blocks
  const graph::FoldAttrs fold{image, strides, dilations, pads};
  const Made x = c.emit_reshape(c.input(0), blocks);
  bool is_apart = false, has_gaps = false;
  for (size_t i = 0; i < axes; ++i) {
    is_apart = is_apart || strides[i] > 1;
    has_gaps = has_gaps || (strides[i] > 1 && dilations[i] > 1);
  }
  return c.finish(is_apart && !has_gaps ? fold_phases(c, x, fold, blocks) : c.emit(Op::kFold, fold, {x}));
}

Result<void> import_center_crop_pad(NodeContext& c) {
  TCC_TRY(auto target, c.constant_integers(1, "shape"));
  TCC_TRY(auto listed, c.get_ints("axes"));
  std::vector<int64_t> axes = listed.value_or(axes_from(0, c.rank(0)));
  if (axes.size() != target.size()) return input_error("{} sizes are given for {} axes", target.size(), axes.size());
  Made x = c.input(0);
  graph::PadAttrs pad{std::vector<int64_t>(static_cast<size_t>(c.rank(0)), 0), {}, 0};
  pad.end = pad.begin;
  bool padded = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    TCC_TRY(int64_t axis, c.normalize_axis(axes[i], c.rank(0)));
    const int64_t extent = c.input_value(0).shape[static_cast<size_t>(axis)], to = target[i];
    if (to < 0 || to > graph::kMaxElements) return input_error("size {} of axis {} is out of range", to, axis);
    if (to < extent) {
      x = c.slice(x, axis, to == 0 ? 0 : (extent - to) / 2, to);
    } else if (to > extent) {
      pad.begin[static_cast<size_t>(axis)] = (to - extent) / 2;
      pad.end[static_cast<size_t>(axis)] = to - extent - (to - extent) / 2;
      padded = true;
    }
  }
  if (!padded) return c.finish(Op::kIdentity, graph::NoAttrs{}, {x});
  return c.finish(Op::kPad, pad, {x});
}

// Coordinates from -1 to 1 of every position of an image, turned by theta (batch, axes, axes + 1).
Result<void> import_affine_grid(NodeContext& c) {
  TCC_TRY(auto size, c.constant_integers(1, "size"));
  TCC_TRY(bool corners, c.get_flag("align_corners", false));
  const Shape s = c.input_value(0).shape;
  const DType dtype = c.input_value(0).dtype;
  const size_t axes = size.size() < 2 ? 0 : size.size() - 2;
  if ((axes != 2 && axes != 3) || s != Shape{size[0], static_cast<int64_t>(axes), static_cast<int64_t>(axes) + 1})
    return input_error("theta {} and a size of {} entries do not fit", graph::shape_text(s), size.size());
  Shape image(size.begin() + 2, size.end());
  TCC_TRY_VOID(graph::check_shape(image, "the image"));
  const int64_t pixels = graph::element_count(image);
  const auto width = static_cast<int64_t>(axes) + 1;
  if (pixels > kMaxTable / width) return refuse(Refusal::kTooLarge, "a grid of {} positions", pixels);
  // x, y (, z), 1 of each pixel, as columns; the last axis of the image is x.
  std::vector<double> grid(static_cast<size_t>(pixels * width), 1.0);
  for (int64_t p = 0; p < pixels; ++p) {
    int64_t rest = p;
    for (size_t i = 0; i < axes; ++i) {
      const int64_t extent = image[axes - 1 - i], at = rest % extent;
      rest /= extent;
      double place = 0;
      if (corners)
        place = extent == 1 ? -1 : -1 + 2 * static_cast<double>(at) / static_cast<double>(extent - 1);
      else
        place = -1 + (2 * static_cast<double>(at) + 1) / static_cast<double>(extent);
      grid[static_cast<size_t>(static_cast<int64_t>(i) * pixels + p)] = place;
    }
  }
  ValueId columns = c.constant(dtype, {width, pixels}, graph::make_constant_from_doubles(dtype, grid));
  Made turned = c.emit(Op::kMatMul, graph::MatMulAttrs{}, {c.input(0), columns});
  turned = c.emit(Op::kTranspose, graph::TransposeAttrs{{0, 2, 1}}, {turned});
  Shape out{size[0]};
  out.insert(out.end(), image.begin(), image.end());
  out.push_back(static_cast<int64_t>(axes));
  return c.finish(c.emit_reshape(turned, out));
}

// The first `length` elements along the time axis of each sequence of the batch, in reverse.
Result<void> import_reverse_sequence(NodeContext& c) {
  TCC_TRY(int64_t batch_axis, c.get_int("batch_axis", 1));
  TCC_TRY(int64_t time_axis, c.get_int("time_axis", 0));
  const Shape s = c.input_value(0).shape;
  if (s.size() < 2 || batch_axis + time_axis != 1 || batch_axis * time_axis != 0)
    return input_error("batch_axis and time_axis are {} and {}, expected 0 and 1 in any order", batch_axis, time_axis);
  const int64_t batch = s[static_cast<size_t>(batch_axis)], steps = s[static_cast<size_t>(time_axis)];
  if (c.input_value(1).shape != Shape{batch})
    return input_error("sequence_lens has shape {}, expected {}", graph::shape_text(c.input_value(1).shape), batch);
  std::vector<int64_t> perm = axes_from(0, c.rank(0));
  if (batch_axis == 1) std::swap(perm[0], perm[1]);
  Made x = c.emit(Op::kTranspose, graph::TransposeAttrs{perm}, {c.input(0)});
  Made lengths = c.emit_reshape(c.cast(c.input(1), DType::kI64), {batch, 1, 1});
  Made t = c.iota(DType::kI64, steps, 1, 3);
  Made mirrored = c.arithmetic(Op::kSub, c.arithmetic(Op::kSub, lengths, c.scalar(DType::kI64, 1)), t);
  Made index = c.where(c.binary(BinaryFn::kLess, t, lengths), mirrored, t);
  x = c.emit(Op::kGatherNd, graph::GatherNdAttrs{1}, {x, index});
  return c.finish(Op::kTranspose, graph::TransposeAttrs{perm}, {x});
}

}  // namespace tcc::onnx
