// Operators that pick, cut, repeat and rearrange elements.
#include <algorithm>
#include <cmath>
#include <map>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

// The positions 0 .. extent - 1 of one axis mapped through a constant list.
Result<ValueId> gather_constant(NodeContext& c, ValueId x, int64_t axis, const std::vector<int64_t>& from) {
  ValueId indices = c.constant(DType::kI64, {static_cast<int64_t>(from.size())}, graph::make_constant_i64(from));
  return c.emit(Op::kGather, graph::AxisAttrs{axis}, {x, indices});
}

// The part of an axis of `extent` elements, or of `count` ones, that ends at `end`, a number made of counts.
Result<Extent> end_of(NodeContext& c, const Extent& end, int64_t extent, ValueId count) {
  Extent result{std::min(end.most, extent), end.count};
  if (end.most > extent) TCC_TRY_SET(result.count, derived_count(c, CountOp::kAtMost, end.count, extent));
  if (count != graph::kNone && !c.same_number(count, end.count))
    TCC_TRY_SET(result.count, c.binary(BinaryFn::kMin, result.count, count));
  return result;
}

Result<void> check_indices(const graph::Value& indices, int64_t extent) {
  if (!indices.is_constant()) return {};
  if (indices.dtype != DType::kI32 && indices.dtype != DType::kI64)
    return input_error("indices must be i32 or i64, not {}", graph::dtype_name(indices.dtype));
  for (int64_t i : graph::constant_integers(*indices.constant, indices.dtype, indices.elements())) {
    if (i < -extent || i >= extent) return input_error("index {} is out of range for {} elements", i, extent);
  }
  return {};
}

}  // namespace

Result<void> import_gather(NodeContext& c) {
  TCC_TRY(int64_t axis, c.get_axis(0, c.rank(0)));
  if (!c.is_counted(1))
    TCC_TRY_VOID(check_indices(c.input_value(1), c.input_value(0).shape[static_cast<size_t>(axis)]));
  bool elements = c.op() == "GatherElements";
  return c.finish(elements ? Op::kGatherElements : Op::kGather, graph::AxisAttrs{axis}, {c.input(0), c.input(1)});
}

Result<void> import_gather_nd(NodeContext& c) {
  graph::GatherNdAttrs attrs;
  TCC_TRY(attrs.batch_dims, c.get_int("batch_dims", 0, 12));
  return c.finish(Op::kGatherNd, attrs, {c.input(0), c.input(1)});
}

Result<void> import_slice(NodeContext& c) {
  std::vector<int64_t> starts, ends, axes, steps;
  std::vector<Extent> ends_at;
  if (c.opset() < 10) {
    TCC_TRY(auto s, c.get_ints("starts"));
    TCC_TRY(auto e, c.get_ints("ends"));
    TCC_TRY(auto a, c.get_ints("axes"));
    if (!s || !e) return input_error("attributes 'starts' and 'ends' are needed");
    starts = *s;
    ends = *e;
    if (a) axes = *a;
  } else {
    TCC_TRY(starts, c.constant_integers(1, "starts"));
    TCC_TRY(ends_at, c.extents(2, "ends"));
    for (const Extent& e : ends_at) ends.push_back(e.most);
    TCC_TRY(axes, c.optional_integers(3, "axes"));
    TCC_TRY(steps, c.optional_integers(4, "steps"));
  }
  if (axes.empty()) axes = axes_from(0, static_cast<int64_t>(starts.size()));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (starts.size() != ends.size() || starts.size() != axes.size() || starts.size() != steps.size())
    return input_error("starts, ends, axes and steps differ in length");
  const Shape shape = c.input_value(0).shape;
  graph::SliceAttrs attrs{std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.size(), 1), shape};
  std::map<size_t, ValueId> cut;  // by axis: the count of a part that ends at a number made of counts
  for (size_t i = 0; i < axes.size(); ++i) {
    TCC_TRY(int64_t axis, c.normalize_axis(axes[i], c.rank(0)));
    auto k = static_cast<size_t>(axis);
    if (c.count(0, k) != graph::kNone && (starts[i] < 0 || ends[i] < 0 || steps[i] < 0))
      return c.refuse_count(c.input(0), k, "is cut at positions that count from its end");
    if (!ends_at.empty() && ends_at[i].count != graph::kNone) {
      if (starts[i] < 0 || steps[i] != 1) return c.refuse_run_time(2, "the end of a part with steps");
      TCC_TRY(const Extent end, end_of(c, ends_at[i], shape[k], c.count(0, k)));
      TCC_TRY_SET(cut[k], derived_count(c, CountOp::kWithout, end.count, std::min(starts[i], shape[k])));
    }
    int64_t extent = shape[k], step = steps[i];
    if (step == 0) return input_error("the step on axis {} is 0, expected another number", axis);
    // No step goes further than the whole axis.
    step = std::clamp(step, -extent - 1, extent + 1);
    auto place = [&](int64_t v, int64_t low, int64_t high) {
      return std::clamp(v < 0 ? (v < -extent ? low : v + extent) : v, low, high);
    };
    int64_t start = step > 0 ? place(starts[i], 0, extent) : place(starts[i], -1, extent - 1);
    int64_t end = step > 0 ? place(ends[i], 0, extent) : place(ends[i], -1, extent - 1);
    int64_t count = step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
    attrs.extents[k] = std::max<int64_t>(0, count);
    attrs.starts[k] = attrs.extents[k] == 0 ? 0 : start;
    attrs.steps[k] = step;
  }
  TCC_TRY(const ValueId part, c.emit(Op::kSlice, attrs, {c.input(0)}));
  if (!cut.empty()) {
    Counts counts = c.counts(part) != nullptr ? *c.counts(part) : Counts(shape.size(), graph::kNone);
    for (const auto& [axis, count] : cut) counts[axis] = count;
    c.set_counts(part, std::move(counts));
  }
  return c.finish(part);
}

Result<void> import_split(NodeContext& c) {
  TCC_TRY(int64_t axis, c.get_axis(0, c.rank(0)));
  if (c.count(0, static_cast<size_t>(axis)) != graph::kNone)
    return c.refuse_count(c.input(0), static_cast<size_t>(axis), "is split");
  int64_t extent = c.input_value(0).shape[static_cast<size_t>(axis)];
  auto parts = static_cast<int64_t>(c.output_count());
  std::vector<int64_t> sizes;
  if (c.opset() < 13) {
    TCC_TRY(auto listed, c.get_ints("split"));
    if (listed) sizes = *listed;
  }
  if (c.has_input(1)) TCC_TRY_SET(sizes, c.constant_integers(1, "split"));
  if (c.opset() >= 18 && c.has_attribute("num_outputs")) {
    TCC_TRY(int64_t count, c.get_int("num_outputs", parts));
    if (count != parts) return input_error("num_outputs {} differs from the {} outputs", count, parts);
  }
  if (sizes.empty()) {
    // The last part is the smaller one where the axis does not divide (from opset 18 on).
    int64_t each = (extent + parts - 1) / parts;
    if (c.opset() < 18 && extent % parts != 0)
      return input_error("axis {} of {} does not divide into {} parts", axis, extent, parts);
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(extent - i * each, 0, each));
  }
  if (static_cast<int64_t>(sizes.size()) != parts)
    return input_error("{} sizes are given for {} outputs", sizes.size(), parts);
  int64_t at = 0;
  for (int64_t i = 0; i < parts; ++i) {
    int64_t size = sizes[static_cast<size_t>(i)];
    if (size < 0 || size > extent - at) return input_error("the sizes do not add up to the {} elements", extent);
    TCC_TRY(ValueId part, c.slice(c.input(0), axis, size == 0 ? 0 : at, size));
    c.set_output(static_cast<size_t>(i), part);
    at += size;
  }
  if (at != extent) return input_error("the sizes add up to {}, expected the {} elements of the axis", at, extent);
  return {};
}

Result<void> import_expand(NodeContext& c) {
  TCC_TRY(const std::vector<Extent> extents, c.extents(1, "shape"));
  Shape shape;
  for (const Extent& e : extents) shape.push_back(e.most);
  TCC_TRY_VOID(graph::check_shape(shape, "the new shape"));
  auto out = graph::broadcast_shapes(c.input_value(0).shape, shape);
  if (!out)
    return input_error("shapes {} and {} do not broadcast", graph::shape_text(c.input_value(0).shape),
                       graph::shape_text(shape));
  const Shape own = c.input_value(0).shape;
  const auto ends_with = [&](size_t axis, const Shape& s) { return s.size() + axis >= out->size(); };
  Counts counts(out->size(), graph::kNone);
  for (size_t axis = 0; axis < out->size(); ++axis) {
    const ValueId asked = ends_with(axis, shape) ? extents[axis + shape.size() - out->size()].count : graph::kNone;
    const size_t from = axis + own.size() - out->size();
    const bool has = ends_with(axis, own);
    if (has && c.count(0, from) != graph::kNone) {
      counts[axis] = c.count(0, from);
      if (asked == graph::kNone ? ends_with(axis, shape) && shape[axis + shape.size() - out->size()] != 1
                                : !c.same_number(asked, counts[axis]))
        return c.refuse_count(c.input(0), from, "is expanded to another extent");
    } else if (asked != graph::kNone) {
      if (has && own[from] != 1) return c.refuse_run_time(1, "the extent of an axis of several elements");
      counts[axis] = asked;
    }
  }
  TCC_TRY(const ValueId wide, c.emit(Op::kExpand, graph::ReshapeAttrs{*out}, {c.input(0)}));
  c.set_counts(wide, std::move(counts));
  return c.finish(wide);
}

Result<void> import_tile(NodeContext& c) {
  const Shape shape = c.input_value(0).shape;
  TCC_TRY(auto repeats, c.constant_integers(1, "repeats"));
  if (c.opset() < 6) {
    // One count and one axis.
    TCC_TRY(double axis_value, c.constant_scalar(2, "axis"));
    TCC_TRY(int64_t axis, c.normalize_axis(static_cast<int64_t>(axis_value), c.rank(0)));
    if (repeats.size() != 1) return input_error("tiles must be one number");
    std::vector<int64_t> all(shape.size(), 1);
    all[static_cast<size_t>(axis)] = repeats[0];
    repeats = all;
  }
  if (repeats.size() != shape.size())
    return input_error("{} repeats are given for rank {}", repeats.size(), shape.size());
  if (2 * shape.size() > static_cast<size_t>(graph::kMaxRank))
    return refuse(Refusal::kTooLarge, "tensors of rank {} cannot be tiled", shape.size());
  Shape split, wide, out;
  for (size_t i = 0; i < shape.size(); ++i) {
    split.insert(split.end(), {1, shape[i]});
    wide.insert(wide.end(), {repeats[i], shape[i]});
  }
  TCC_TRY_VOID(graph::check_shape(wide, "the result"));
  for (size_t i = 0; i < shape.size(); ++i) out.push_back(shape[i] * repeats[i]);
  Made x = c.emit(Op::kExpand, graph::ReshapeAttrs{wide}, {c.emit_reshape(c.input(0), split)});
  return c.finish(c.emit_reshape(x, out));
}

namespace {

// Where the element at position i (negative: in front) of an axis comes from in the modes that copy elements.
int64_t padded_source(const std::string& mode, int64_t i, int64_t extent) {
  if (mode == "edge") return std::clamp<int64_t>(i, 0, extent - 1);
  if (mode == "wrap") return ((i % extent) + extent) % extent;
  if (extent == 1) return 0;
  int64_t period = 2 * (extent - 1);
  int64_t at = ((i % period) + period) % period;
  return at < extent ? at : period - at;
}

Result<void> pad_by_copies(NodeContext& c, const std::string& mode, const std::vector<int64_t>& begin,
                           const std::vector<int64_t>& end) {
  ValueId x = c.input(0);
  for (int64_t axis = 0; axis < c.rank(0); ++axis) {
    auto k = static_cast<size_t>(axis);
    int64_t extent = c.value(x).shape[k];
    if (begin[k] == 0 && end[k] == 0) continue;
    int64_t out = extent + begin[k] + end[k];
    if (extent == 0 || out < 0) return input_error("cannot pad axis {} of {} elements", axis, extent);
    if (out > kMaxTable) return refuse(Refusal::kTooLarge, "axis {} would have {} elements", axis, out);
    std::vector<int64_t> from;
    for (int64_t i = 0; i < out; ++i) from.push_back(padded_source(mode, i - begin[k], extent));
    TCC_TRY(x, gather_constant(c, x, axis, from));
  }
  return c.finish(Op::kIdentity, graph::NoAttrs{}, {x});
}

}  // namespace

Result<void> import_pad(NodeContext& c) {
  TCC_TRY(std::string mode, c.get_string("mode", "constant"));
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return input_error("mode is '{}', expected constant, reflect, edge or wrap", sanitize(mode));
  double value = 0;
  std::vector<int64_t> pads, axes = axes_from(0, c.rank(0));
  if (c.opset() < 11) {
    const char* name = c.opset() < 2 ? "paddings" : "pads";
    TCC_TRY(auto listed, c.get_ints(name));
    if (!listed) return input_error("attribute '{}' is missing", name);
    pads = *listed;
    TCC_TRY(value, c.get_float("value", 0));
  } else {
    if (!c.has_input(1)) return input_error("pads (input 1) are missing");
    TCC_TRY(pads, c.constant_integers(1, "pads"));
    TCC_TRY(value, c.constant_scalar(2, "the padding value", 0));
    if (c.has_input(3)) {
      TCC_TRY(axes, c.constant_integers(3, "axes"));
      for (int64_t& axis : axes) TCC_TRY_SET(axis, c.normalize_axis(axis, c.rank(0)));
    }
  }
  if (pads.size() != 2 * axes.size()) return input_error("pads have {} entries for {} axes", pads.size(), axes.size());
  std::vector<int64_t> begin(static_cast<size_t>(c.rank(0)), 0), end = begin;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t first = pads[i], last = pads[axes.size() + i];
    if (std::max(std::abs(std::max(first, -graph::kMaxElements - 1)),
                 std::abs(std::max(last, -graph::kMaxElements - 1))) > graph::kMaxElements)
      return input_error("pads ({}, {}) are too large", first, last);
    begin[static_cast<size_t>(axes[i])] = first;
    end[static_cast<size_t>(axes[i])] = last;
  }
  if (mode != "constant") return pad_by_copies(c, mode, begin, end);
  // Negative pads cut.
  ValueId x = c.input(0);
  for (int64_t axis = 0; axis < c.rank(0); ++axis) {
    auto k = static_cast<size_t>(axis);
    int64_t first = std::max<int64_t>(0, -begin[k]), last = std::max<int64_t>(0, -end[k]);
    int64_t extent = c.value(x).shape[k] - first - last;
    if (first == 0 && last == 0) continue;
    if (extent < 0) return input_error("pads ({}, {}) cut more than axis {} has", begin[k], end[k], axis);
    TCC_TRY(x, c.slice(x, axis, extent == 0 ? 0 : first, extent));
    begin[k] = std::max<int64_t>(0, begin[k]);
    end[k] = std::max<int64_t>(0, end[k]);
  }
  return c.finish(Op::kPad, graph::PadAttrs{begin, end, value}, {x});
}

Result<void> import_one_hot(NodeContext& c) {
  const Shape indices = c.input_value(0).shape;
  TCC_TRY(int64_t axis, c.get_axis(-1, c.rank(0) + 1));
  TCC_TRY(double depth_value, c.constant_scalar(1, "depth"));
  if (!(depth_value >= 1 && depth_value <= static_cast<double>(kMaxTable)))
    return input_error("depth {} is out of range", depth_value);
  const auto depth = static_cast<int64_t>(depth_value);
  if (indices.size() + 1 > static_cast<size_t>(graph::kMaxRank))
    return refuse(Refusal::kTooLarge, "the result has {} axes; at most {} are supported", indices.size() + 1,
                  graph::kMaxRank);
  if (c.input_value(2).shape != Shape{2}) return input_error("values must be two: off and on");
  Shape shape = indices;
  shape.insert(shape.begin() + axis, 1);
  Made at = c.emit_reshape(c.cast(c.input(0), DType::kI64), shape);
  // Negative indices count from the end; what is out of range is off everywhere.
  Made negative = c.binary(BinaryFn::kLess, at, c.scalar(DType::kI64, 0));
  Made shifted = c.arithmetic(Op::kAdd, at, c.scalar(DType::kI64, static_cast<double>(depth)));
  at = c.where(negative, shifted, at);
  Made hit = c.binary(BinaryFn::kEqual, at, c.iota(DType::kI64, depth, static_cast<size_t>(axis), shape.size()));
  Made off = c.emit_reshape(c.slice(c.input(2), 0, 0, 1), {});
  Made on = c.emit_reshape(c.slice(c.input(2), 0, 1, 1), {});
  return c.finish(c.where(hit, on, off));
}

namespace {

// Of matrices [.., rows, columns]: columns minus rows, of the shape rows x columns, compared with k. Kernels compute it
// from the indices where no constant holds the result.
Made from_diagonal(NodeContext& c, BinaryFn compare, int64_t rows, int64_t columns, const Made& k) {
  Made diagonal = c.arithmetic(Op::kAdd, c.iota(DType::kI64, rows, 0, 2), k);
  return c.binary(compare, c.iota(DType::kI64, columns, 1, 2), diagonal);
}

}  // namespace

Result<void> import_trilu(NodeContext& c) {
  TCC_TRY(bool upper, c.get_flag("upper", true));
  const Shape& shape = c.input_value(0).shape;
  if (shape.size() < 2) return input_error("needs a matrix, got {}", graph::shape_text(shape));
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  Made k = c.scalar(DType::kI64, 0);
  if (c.has_input(1)) {
    if (c.input_value(1).elements() != 1)
      return input_error("k (input 1) must be a scalar, not shape {}", graph::shape_text(c.input_value(1).shape));
    // No diagonal is farther away than the corners.
    k = c.emit_reshape(c.cast(c.input(1), DType::kI64), {});
    k = c.binary(BinaryFn::kMin, k, c.scalar(DType::kI64, static_cast<double>(columns)));
    k = c.binary(BinaryFn::kMax, k, c.scalar(DType::kI64, -static_cast<double>(rows)));
  }
  const Made mask = from_diagonal(c, upper ? BinaryFn::kGreaterOrEqual : BinaryFn::kLessOrEqual, rows, columns, k);
  return c.finish(c.where(mask, c.input(0), c.scalar(c.input_value(0).dtype, 0)));
}

Result<void> import_eye_like(NodeContext& c) {
  TCC_TRY(int64_t k, c.get_int("k", 0));
  DType dtype = c.input_value(0).dtype;
  if (c.has_attribute("dtype")) {
    TCC_TRY(int64_t number, c.get_int("dtype", 1));
    TCC_TRY(dtype, dtype_of(static_cast<int32_t>(std::clamp<int64_t>(number, -1, 1000))));
  }
  const Shape shape = c.input_value(0).shape;
  if (shape.size() != 2) return input_error("needs a matrix, got {}", graph::shape_text(shape));
  const auto start = static_cast<double>(std::clamp(k, -shape[0], shape[1]));
  const Made ones = from_diagonal(c, BinaryFn::kEqual, shape[0], shape[1], c.scalar(DType::kI64, start));
  return c.finish(c.cast(ones, dtype));
}

Result<void> import_range(NodeContext& c) {
  TCC_TRY(double start, c.constant_scalar(0, "start"));
  Extent end;
  if (c.rank(1) == 0 && !c.input_value(1).is_constant() && !graph::is_float(c.input_value(1).dtype))
    TCC_TRY_SET(end, c.extents(1, "limit").map([](const auto& list) { return list[0]; }));
  double limit = static_cast<double>(end.most);
  if (end.count == graph::kNone) TCC_TRY_SET(limit, c.constant_scalar(1, "limit"));
  TCC_TRY(double delta, c.constant_scalar(2, "delta"));
  if (delta == 0 || !std::isfinite(start) || !std::isfinite(limit) || !std::isfinite(delta))
    return input_error("cannot count from {} to {} by {}", start, limit, delta);
  double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (count > static_cast<double>(kMaxTable))
    return refuse(Refusal::kTooLarge, "the range has {} elements; at most {} are supported", count, kMaxTable);
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * delta;
  DType dtype = c.input_value(0).dtype;
  const ValueId id =
      c.constant(dtype, {static_cast<int64_t>(values.size())}, graph::make_constant_from_doubles(dtype, values));
  if (end.count != graph::kNone) {
    if (delta != 1 || start < 0) return c.refuse_run_time(1, "the limit of a range with steps");
    TCC_TRY(const ValueId length, derived_count(c, CountOp::kWithout, end.count, static_cast<int64_t>(start)));
    c.set_counts(id, {length});
  }
  return c.finish(id);
}

Result<void> import_size(NodeContext& c) {
  if (c.is_counted(0)) {
    Made size = c.scalar(DType::kI64, 1);
    for (size_t axis = 0; axis < c.input_value(0).shape.size(); ++axis) {
      const ValueId count = c.count(0, axis);
      const auto extent = static_cast<double>(c.input_value(0).shape[axis]);
      size = c.arithmetic(Op::kMul, size, count != graph::kNone ? Made(count) : Made(c.scalar(DType::kI64, extent)));
    }
    return c.finish(size);
  }
  return c.finish(
      c.constant(DType::kI64, {}, graph::make_constant_i64(std::vector<int64_t>{c.input_value(0).elements()})));
}

namespace {

Result<int64_t> read_block(NodeContext& c) {
  TCC_TRY(int64_t block, c.get_int("blocksize", 0));
  if (c.rank(0) != 4) return input_error("needs an input of rank 4, got {}", graph::shape_text(c.input_value(0).shape));
  if (block < 1 || block > graph::kMaxElements) return input_error("blocksize {} must be at least 1", block);
  return block;
}

}  // namespace

Result<void> import_depth_to_space(NodeContext& c) {
  TCC_TRY(int64_t b, read_block(c));
  TCC_TRY(std::string mode, c.get_string("mode", "DCR", 11));
  if (mode != "DCR" && mode != "CRD") return input_error("mode is '{}', expected DCR or CRD", sanitize(mode));
  const Shape s = c.input_value(0).shape;
  if (b > s[1] || s[1] % (b * b) != 0) return input_error("{} channels do not divide by {} squared", s[1], b);
  Shape out{s[0], s[1] / b / b, s[2] * b, s[3] * b};
  Shape split{s[0], b, b, s[1] / b / b, s[2], s[3]};
  if (mode == "DCR") return c.finish(c.rearrange(c.input(0), split, {0, 3, 4, 1, 5, 2}, out));
  return c.finish(c.rearrange(c.input(0), {s[0], s[1] / b / b, b, b, s[2], s[3]}, {0, 1, 4, 2, 5, 3}, out));
}

Result<void> import_space_to_depth(NodeContext& c) {
  TCC_TRY(int64_t b, read_block(c));
  const Shape s = c.input_value(0).shape;
  if (s[2] % b != 0 || s[3] % b != 0)
    return input_error("{} does not divide into blocks of {}", graph::shape_text(s), b);
  TCC_TRY(std::string mode, c.get_string("mode", "DCR", 28));
  if (mode != "DCR" && mode != "CRD") return input_error("mode is '{}', expected DCR or CRD", sanitize(mode));
  if (mode == "CRD") {
    return c.finish(c.rearrange(c.input(0), {s[0], s[1], s[2] / b, b, s[3] / b, b}, {0, 1, 3, 5, 2, 4},
                                {s[0], s[1] * b * b, s[2] / b, s[3] / b}));
  }
  return c.finish(c.rearrange(c.input(0), {s[0], s[1], s[2] / b, b, s[3] / b, b}, {0, 3, 5, 1, 2, 4},
                              {s[0], s[1] * b * b, s[2] / b, s[3] / b}));
}

}  // namespace tcc::onnx
