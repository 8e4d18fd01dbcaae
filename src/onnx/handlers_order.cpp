// Operators about the order and the places of elements: TopK, scatters, sums so far, and those whose result's shape
// depends on data, where the data are constant. Bits of integers.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

Result<void> import_top_k(NodeContext& c) {
  graph::TopKAttrs attrs;
  Extent k;
  TCC_TRY(attrs.axis, c.get_axis(-1, c.rank(0)));
  if (c.opset() < 10) {
    TCC_TRY(attrs.k, c.get_int("k", -1));
  } else {
    TCC_TRY(const std::vector<Extent> numbers, c.extents(1, "k"));
    if (numbers.size() != 1) return input_error("k has {} numbers", numbers.size());
    k = numbers[0];
    attrs.k = k.most;
    // A number made of counts has room for what there is.
    if (k.count != graph::kNone) attrs.k = std::min(k.most, c.input_value(0).shape[static_cast<size_t>(attrs.axis)]);
  }
  TCC_TRY(attrs.largest, c.get_flag("largest", true, 11));
  c.ignore_attribute("sorted");  // sorted where the order is free, too
  TCC_TRY(const ValueId indices, c.emit(Op::kTopK, attrs, {c.input(0)}));
  if (k.count != graph::kNone) {
    Counts counts =
        c.counts(indices) != nullptr ? *c.counts(indices) : Counts(c.value(indices).shape.size(), graph::kNone);
    TCC_TRY_SET(counts[static_cast<size_t>(attrs.axis)], derived_count(c, CountOp::kAtMost, k.count, attrs.k));
    c.set_counts(indices, std::move(counts));
  }
  c.set_output(1, indices);
  return c.finish(Op::kGatherElements, graph::AxisAttrs{attrs.axis}, {c.input(0), indices});
}

namespace {

Result<ScatterReduction> read_reduction(NodeContext& c) {
  static const std::map<std::string, std::pair<ScatterReduction, int64_t>> kReductions = {
      {"none", {ScatterReduction::kNone, 16}},
      {"add", {ScatterReduction::kAdd, 16}},
      {"mul", {ScatterReduction::kMul, 16}},
      {"max", {ScatterReduction::kMax, 18}},
      {"min", {ScatterReduction::kMin, 18}}};
  TCC_TRY(const std::string name, c.get_string("reduction", "none", 16));
  const auto row = kReductions.find(name);
  if (row == kReductions.end() || c.opset() < std::min<int64_t>(c.opset(), row->second.second))
    return input_error("reduction is '{}', which opset {} does not define", sanitize(name), c.opset());
  return row->second.first;
}

// Where every element of the result comes from, when the places are constant: update number `from`, or the data (-1).
std::vector<int64_t> last_updates(const std::vector<int64_t>& places, int64_t count) {
  std::vector<int64_t> from(static_cast<size_t>(count), -1);
  for (size_t u = 0; u < places.size(); ++u) from[static_cast<size_t>(places[u])] = static_cast<int64_t>(u);
  return from;
}

// rows x columns of data, rows of updates, and for each row of the result the update that it is.
Made pick_updates(NodeContext& c, const Made& data, const Made& updates, std::vector<int64_t> from, int64_t columns,
                  const Shape& shape) {
  const auto rows = static_cast<int64_t>(from.size());
  std::vector<double> updated;
  for (int64_t& u : from) {
    updated.push_back(u >= 0 ? 1 : 0);
    u = std::max<int64_t>(u, 0);
  }
  ValueId mask = c.constant(DType::kBool, {rows, 1}, graph::make_constant_from_doubles(DType::kBool, updated));
  ValueId index = c.constant(DType::kI64, {rows}, graph::make_constant_i64(from));
  Made given = c.emit(Op::kGather, graph::AxisAttrs{0}, {updates, index});
  return c.emit_reshape(c.where(mask, given, c.emit_reshape(data, {rows, columns})), shape);
}

Result<int64_t> checked_place(int64_t index, int64_t extent) {
  if (index < -extent || index >= extent) return input_error("index {} is out of range for {} elements", index, extent);
  return index < 0 ? index + extent : index;
}

// The row of the data, seen as rows of what is behind its first `depth` axes, that each row of constant indices means.
Result<std::vector<int64_t>> places_nd(const graph::Value& indices, const Shape& data) {
  const auto depth = static_cast<size_t>(indices.shape.back());
  const std::vector<int64_t> all = graph::constant_integers(*indices.constant, indices.dtype, indices.elements());
  std::vector<int64_t> places;
  for (size_t at = 0; at < all.size(); at += depth) {
    int64_t place = 0;
    for (size_t d = 0; d < depth; ++d) {
      TCC_TRY(const int64_t p, checked_place(all[at + d], data[d]));
      place = place * data[d] + p;
    }
    places.push_back(place);
  }
  return places;
}

Result<std::vector<int64_t>> places_of_elements(const graph::Value& indices, const Shape& data, size_t axis) {
  const std::vector<int64_t> all = graph::constant_integers(*indices.constant, indices.dtype, indices.elements());
  std::vector<int64_t> places(all.size()), at(data.size(), 0);
  for (size_t u = 0; u < all.size(); ++u) {
    TCC_TRY(const int64_t p, checked_place(all[u], data[axis]));
    for (size_t i = 0; i < data.size(); ++i) places[u] = places[u] * data[i] + (i == axis ? p : at[i]);
    for (size_t i = at.size(); i-- > 0;) {
      if (++at[i] < indices.shape[i]) break;
      at[i] = 0;
    }
  }
  return places;
}

bool has_constant_places(NodeContext& c, ScatterReduction reduction) {
  const graph::Value& indices = c.input_value(1);
  const bool integers = indices.dtype == DType::kI64 || indices.dtype == DType::kI32;
  const bool counted = c.is_counted(0) || c.is_counted(1) || c.is_counted(2);
  return !counted && integers && indices.is_constant() && reduction == ScatterReduction::kNone &&
         c.input_value(0).elements() <= kMaxTable && indices.elements() <= kMaxTable;
}

// The axes of a tensor of indices that each dimension of a value is one of; kNoAxis: the value is the same all along.
constexpr int64_t kNoAxis = -1;
struct Traced {
  ValueId id = graph::kNone;
  std::vector<int64_t> axes;
};

// The operand that the value only reshapes or repeats; nothing where it does more.
std::optional<Traced> behind_views(const NodeContext& c, const Traced& value) {
  const graph::Node* node = c.producer(value.id);
  if (node == nullptr) return std::nullopt;
  Traced from{node->inputs[0], {}};
  const Shape &in = c.value(from.id).shape, &out = c.value(value.id).shape;
  if (node->op == Op::kIdentity) {
    from.axes = value.axes;
  } else if (node->op == Op::kExpand) {
    for (size_t i = 0; i < in.size(); ++i) {
      const size_t o = i + out.size() - in.size();
      from.axes.push_back(in[i] == 1 ? kNoAxis : value.axes[o]);
    }
  } else if (node->op == Op::kReshape) {
    size_t o = 0;
    for (int64_t extent : in) {
      if (extent == 1) {
        from.axes.push_back(kNoAxis);
        continue;
      }
      while (o < out.size() && out[o] == 1) ++o;
      if (o == out.size() || out[o] != extent) return std::nullopt;
      from.axes.push_back(value.axes[o++]);
    }
    while (o < out.size() && out[o] == 1) ++o;
    if (o != out.size()) return std::nullopt;
  } else {
    return std::nullopt;
  }
  return from;
}

struct GridAxis {
  int64_t axis = kNoAxis;  // of the indices
  std::vector<int64_t> positions;
};

// One number of each index, where it is constant and depends on one axis of the indices at most.
std::optional<GridAxis> trace_axis(const NodeContext& c, ValueId part) {
  Traced at{part, {}};
  for (size_t i = 0; i < c.value(part).shape.size(); ++i) at.axes.push_back(static_cast<int64_t>(i));
  while (!c.value(at.id).is_constant()) {
    auto from = behind_views(c, at);
    if (!from) return std::nullopt;
    at = std::move(*from);
  }
  const graph::Value& v = c.value(at.id);
  if ((v.dtype != DType::kI64 && v.dtype != DType::kI32) || v.elements() > kMaxTable) return std::nullopt;
  GridAxis grid{kNoAxis, graph::constant_integers(*v.constant, v.dtype, v.elements())};
  for (size_t i = 0; i < v.shape.size(); ++i) {
    if (v.shape[i] == 1) continue;
    if (grid.axis != kNoAxis || at.axes[i] == kNoAxis) return std::nullopt;
    grid.axis = at.axes[i];
  }
  return grid;
}

// Indices of ScatterND that are all combinations of positions along the axes of the data, in the order of those, such
// as an assignment to a slice makes. They may be too many to be folded into one constant.
std::optional<std::vector<GridAxis>> grid_of(const NodeContext& c, ValueId indices) {
  const Shape& shape = c.value(indices).shape;
  const auto depth = static_cast<size_t>(shape.back());
  std::vector<ValueId> parts{indices};
  const graph::Node* node = c.producer(indices);
  if (node != nullptr && node->op == Op::kConcat &&
      node->as<graph::AxisAttrs>().axis == static_cast<int64_t>(shape.size()) - 1)
    parts = node->inputs;
  if (parts.size() != depth) return std::nullopt;
  std::vector<GridAxis> grid;
  int64_t combinations = 1, last = kNoAxis;
  for (ValueId part : parts) {
    if (c.value(part).shape.back() != 1) return std::nullopt;
    auto axis = trace_axis(c, part);
    if (!axis || axis->positions.empty() || (axis->axis != kNoAxis && axis->axis <= last)) return std::nullopt;
    if (axis->axis != kNoAxis) last = axis->axis;
    combinations *= static_cast<int64_t>(axis->positions.size());
    grid.push_back(std::move(*axis));
  }
  // Otherwise several indices are the same.
  if (combinations * static_cast<int64_t>(depth) != c.value(indices).elements()) return std::nullopt;
  return grid;
}

// Data with the updates at the positions of a grid: the updates are moved to their places, axis by axis.
Made put_on_grid(NodeContext& c, const std::vector<GridAxis>& grid) {
  const ValueId data = c.input(0);
  const Shape shape = c.value(data).shape;
  Shape box = shape;
  for (size_t d = 0; d < grid.size(); ++d) box[d] = std::ssize(grid[d].positions);
  Made placed = c.emit_reshape(c.input(2), box);
  std::vector<Made> masks;
  graph::PadAttrs pad{std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.size(), 0), 0};
  for (size_t d = 0; d < grid.size(); ++d) {
    std::vector<int64_t> places;
    for (int64_t position : grid[d].positions) {
      TCC_TRY(const int64_t place, checked_place(position, shape[d]));
      places.push_back(place);
    }
    std::vector<int64_t> from = last_updates(places, shape[d]);
    std::vector<double> updated;
    for (int64_t u : from) updated.push_back(u >= 0 ? 1 : 0);
    if (std::find(from.begin(), from.end(), -1) != from.end()) {
      Shape along(shape.size() - d, 1);
      along[0] = shape[d];
      masks.emplace_back(
          c.constant(DType::kBool, std::move(along), graph::make_constant_from_doubles(DType::kBool, updated)));
    }
    const bool run = std::adjacent_find(places.begin(), places.end(),
                                        [](int64_t a, int64_t b) { return b != a + 1; }) == places.end();
    if (run) {
      pad.begin[d] = places.front();
      pad.end[d] = shape[d] - 1 - places.back();
    } else {
      for (int64_t& u : from) u = std::max<int64_t>(u, 0);
      placed = c.emit(Op::kGather, graph::AxisAttrs{static_cast<int64_t>(d)},
                      {placed, c.constant(DType::kI64, {shape[d]}, graph::make_constant_i64(from))});
    }
  }
  if (pad.begin != Shape(shape.size(), 0) || pad.end != Shape(shape.size(), 0))
    placed = c.emit(Op::kPad, pad, {placed});
  for (const Made& mask : masks) placed = c.where(mask, placed, data);
  return placed;
}

}  // namespace

Result<void> import_scatter_nd(NodeContext& c) {
  TCC_TRY(const ScatterReduction reduction, read_reduction(c));
  if (c.input_value(2).elements() == 0) return c.finish(Op::kIdentity, graph::NoAttrs{}, {c.input(0)});
  const Shape data = c.input_value(0).shape, indices = c.input_value(1).shape, updates = c.input_value(2).shape;
  Made index = c.input(1), update = c.input(2);
  if (indices.size() == 1) {  // one update
    Shape row = updates;
    row.insert(row.begin(), 1);
    index = c.emit_reshape(index, {1, indices[0]});
    update = c.emit_reshape(update, row);
  }
  // The operator checks what the shortcut for constant places relies on.
  TCC_TRY(const ValueId scattered,
          c.emit(Op::kScatter, graph::ScatterAttrs{-1, reduction}, {c.input(0), index, update}));
  if (c.value(scattered).is_constant()) return c.finish(scattered);
  const bool counted = c.is_counted(0) || c.is_counted(1) || c.is_counted(2);
  if (reduction == ScatterReduction::kNone && indices.size() > 1 && !counted)
    if (const auto grid = grid_of(c, c.input(1))) return c.finish(put_on_grid(c, *grid));
  if (!has_constant_places(c, reduction)) return c.finish(scattered);
  TCC_TRY(const std::vector<int64_t> places, places_nd(c.input_value(1), data));
  const auto depth = indices.back();
  const int64_t rows = graph::element_count(Shape(data.begin(), data.begin() + depth));
  const int64_t columns = graph::element_count(Shape(data.begin() + depth, data.end()));
  const auto count = static_cast<int64_t>(places.size());
  return c.finish(pick_updates(c, c.input(0), c.emit_reshape(c.input(2), {count, columns}), last_updates(places, rows),
                               columns, data));
}

Result<void> import_scatter_elements(NodeContext& c) {
  TCC_TRY(const int64_t axis, c.get_axis(0, c.rank(0)));
  TCC_TRY(const ScatterReduction reduction, read_reduction(c));
  if (c.input_value(2).elements() == 0) return c.finish(Op::kIdentity, graph::NoAttrs{}, {c.input(0)});
  TCC_TRY(const ValueId scattered,
          c.emit(Op::kScatter, graph::ScatterAttrs{axis, reduction}, {c.input(0), c.input(1), c.input(2)}));
  if (!has_constant_places(c, reduction) || c.value(scattered).is_constant()) return c.finish(scattered);
  const Shape data = c.input_value(0).shape;
  TCC_TRY(const std::vector<int64_t> places, places_of_elements(c.input_value(1), data, static_cast<size_t>(axis)));
  const auto count = static_cast<int64_t>(places.size());
  const int64_t elements = c.input_value(0).elements();
  return c.finish(
      pick_updates(c, c.input(0), c.emit_reshape(c.input(2), {count, 1}), last_updates(places, elements), 1, data));
}

// Elements at places in the flattened result; the others are 0.
Result<void> import_max_unpool(NodeContext& c) {
  TCC_TRY(const auto kernel, c.get_ints("kernel_shape"));
  TCC_TRY(const auto strides, c.get_ints("strides"));
  TCC_TRY(const auto pads, c.get_ints("pads"));
  const Shape x = c.input_value(0).shape;
  const size_t axes = x.size() < 3 ? 0 : x.size() - 2;
  if (axes == 0 || !kernel || kernel->size() != axes || (strides && strides->size() != axes) ||
      (pads && pads->size() != 2 * axes) || c.input_value(1).shape != x)
    return input_error("indices {}, kernel_shape, strides and pads do not fit {}",
                       graph::shape_text(c.input_value(1).shape), graph::shape_text(x));
  Shape out{x[0], x[1]};
  TCC_TRY(const std::vector<int64_t> given, c.optional_integers(2, "output_shape"));
  for (size_t i = 0; i < axes; ++i) {
    const int64_t stride = strides ? (*strides)[i] : 1, around = pads ? (*pads)[i] + (*pads)[axes + i] : 0;
    if (stride < 1 || stride > kMaxTable || (*kernel)[i] < 1 || (*kernel)[i] > kMaxTable)
      return input_error("kernel_shape {} and stride {} must be at least 1", (*kernel)[i], stride);
    out.push_back((x[i + 2] - 1) * stride + (*kernel)[i] - around);
  }
  TCC_TRY_VOID(graph::check_shape(out, "the result"));
  const int64_t elements = graph::element_count(out), count = graph::element_count(x);
  if (elements == 0 || count == 0 || elements > kMaxTable)
    return refuse(Refusal::kTooLarge, "unpools {} to {}", graph::shape_text(x), graph::shape_text(out));
  const DType dtype = c.input_value(0).dtype;
  ValueId zeros = c.constant(dtype, {elements}, graph::make_splat(dtype, 0));
  Made flat = c.emit(Op::kScatter, graph::ScatterAttrs{0, ScatterReduction::kNone},
                     {zeros, c.emit_reshape(c.input(1), {count}), c.emit_reshape(c.input(0), {count})});
  Made y = c.emit_reshape(flat, out);
  if (given.empty() || given == out) return c.finish(y);
  // Places count in the tensor without output_shape, which enlarges it at its ends.
  if (given.size() != out.size())
    return input_error("output_shape has {} numbers for rank {}", given.size(), out.size());
  graph::PadAttrs around;
  for (size_t i = 0; i < out.size(); ++i) {
    around.begin.push_back(0);
    around.end.push_back(given[i] - out[i]);
  }
  return c.finish(Op::kPad, around, {y});
}

Result<void> import_cumulative(NodeContext& c) {
  graph::ScanAttrs attrs;
  TCC_TRY(attrs.exclusive, c.get_flag("exclusive", false));
  TCC_TRY(attrs.reverse, c.get_flag("reverse", false));
  TCC_TRY(const double axis, c.constant_scalar(1, "axis"));
  TCC_TRY(attrs.axis, c.normalize_axis(static_cast<int64_t>(axis), c.rank(0)));
  attrs.product = c.op() == "CumProd";
  return c.finish(Op::kScan, attrs, {c.input(0)});
}

// --- shapes that depend on data
// ----------------------------------------------------------------------------

namespace {

Made is_not_zero(NodeContext& c, ValueId x) {
  const DType dtype = c.value(x).dtype;
  if (dtype == DType::kBool) return x;
  return c.unary(UnaryFn::kNot, c.binary(BinaryFn::kEqual, x, c.scalar(dtype, 0)));
}

// Positions of elements that are not zero, a row for each axis.
Result<void> non_zero_at_run_time(NodeContext& c) {
  const Shape shape = c.input_value(0).shape;
  const int64_t elements = c.input_value(0).elements();
  if (shape.empty()) return c.refuse_run_time(0, "whether a scalar is zero");
  if (elements == 0 || elements > kMaxTable)
    return refuse(elements == 0 ? Refusal::kNoElements : Refusal::kTooLarge, "{} elements; 1 to {} are supported",
                  elements, kMaxTable);
  TCC_TRY(const ValueId mask, is_not_zero(c, c.input(0)));
  TCC_TRY(const Found found, find_true(c, mask, elements));
  // Of i32, which have vectors that divide. A coordinate is the quotient by its step less that of the axis before.
  TCC_TRY(const ValueId place, c.cast(found.places, DType::kI32));
  auto number = [&](int64_t v) { return c.scalar(DType::kI32, static_cast<double>(v)); };
  std::vector<Made> rows;
  std::optional<ValueId> before;
  int64_t step = elements;
  for (const int64_t extent : shape) {
    step /= extent;
    if (extent == 1) {
      rows.push_back(c.constant(DType::kI64, {1, elements}, graph::make_splat(DType::kI64, 0)));
      continue;
    }
    TCC_TRY(const ValueId quotient, step > 1 ? c.arithmetic(Op::kDiv, place, number(step)) : Made(place));
    Made row = quotient;
    if (before) row = c.arithmetic(Op::kSub, row, c.arithmetic(Op::kMul, *before, number(extent)));
    before = quotient;
    rows.push_back(c.emit_reshape(c.cast(row, DType::kI64), {1, elements}));
  }
  TCC_TRY(const ValueId places, rows.size() == 1 ? rows[0] : c.emit(Op::kConcat, graph::AxisAttrs{0}, rows));
  c.set_counts(places, {graph::kNone, found.count});
  return c.finish(places);
}

// What Compress chooses from, and along which axis: without that attribute of all elements in a row.
Result<std::pair<ValueId, int64_t>> axis_to_compress(NodeContext& c) {
  if (!c.has_attribute("axis")) {
    TCC_TRY(const ValueId row, c.emit_reshape(c.input(0), {c.input_value(0).elements()}));
    return std::pair(row, int64_t{0});
  }
  TCC_TRY(const int64_t axis, c.get_axis(0, c.rank(0)));
  return std::pair(c.input(0), axis);
}

Result<void> compress_at_run_time(NodeContext& c) {
  TCC_TRY(const auto along, axis_to_compress(c));
  const auto [x, axis] = along;
  if (c.input_value(1).dtype != DType::kBool || c.rank(1) != 1)
    return input_error("the condition must be bools of one dimension, not {} {}",
                       graph::dtype_name(c.input_value(1).dtype), graph::shape_text(c.input_value(1).shape));
  const auto at = static_cast<size_t>(axis);
  const int64_t extent = c.value(x).shape[at];
  Made condition = c.input(1);
  if (c.input_value(1).shape[0] > extent) condition = c.slice(condition, 0, 0, extent);
  TCC_TRY(const ValueId mask, condition);
  const int64_t most = c.value(mask).shape[0];
  if (most == 0 || most > kMaxTable)
    return refuse(most == 0 ? Refusal::kNoElements : Refusal::kTooLarge, "{} elements; 1 to {} are supported", most,
                  kMaxTable);
  TCC_TRY(const Found found, find_true(c, mask, most));
  ValueId places = found.places;
  TCC_TRY_SET(places, c.emit_fixed(Op::kIdentity, graph::NoAttrs{}, {places}));
  c.set_counts(places, {found.count});
  return c.finish(Op::kGather, graph::AxisAttrs{axis}, {x, places});
}

}  // namespace

Result<void> import_non_zero(NodeContext& c) {
  if (!c.input_value(0).is_constant() || c.is_counted(0)) return non_zero_at_run_time(c);
  TCC_TRY(const graph::Value* x, c.known_input(0, "the data"));
  if (x->elements() > kMaxTable) return refuse(Refusal::kTooLarge, "{} elements", x->elements());
  const std::vector<double> data = graph::constant_doubles(*x->constant, x->dtype, x->elements());
  std::vector<int64_t> found;
  for (size_t i = 0; i < data.size(); ++i)
    if (data[i] != 0) found.push_back(static_cast<int64_t>(i));
  const auto rank = static_cast<int64_t>(x->shape.size()), count = static_cast<int64_t>(found.size());
  std::vector<int64_t> places;
  int64_t step = x->elements();
  for (int64_t extent : x->shape) {
    step /= std::max<int64_t>(extent, 1);
    for (int64_t i : found) places.push_back(i / step % extent);
  }
  return c.finish(c.constant(DType::kI64, {rank, count}, graph::make_constant_i64(places)));
}

Result<void> import_compress(NodeContext& c) {
  if (!c.input_value(1).is_constant() || c.is_counted(1) || c.is_counted(0)) return compress_at_run_time(c);
  TCC_TRY(const graph::Value* condition, c.known_input(1, "the condition"));
  if (condition->shape.size() != 1 || condition->elements() > kMaxTable)
    return input_error("the condition must have one dimension, not shape {}", graph::shape_text(condition->shape));
  const std::vector<double> keeps =
      graph::constant_doubles(*condition->constant, condition->dtype, condition->elements());
  TCC_TRY(const auto along, axis_to_compress(c));
  const auto [x, axis] = along;
  const int64_t extent = c.value(x).shape[static_cast<size_t>(axis)];
  std::vector<int64_t> kept;
  for (size_t i = 0; i < keeps.size(); ++i)
    if (keeps[i] != 0) kept.push_back(static_cast<int64_t>(i));
  if (!kept.empty() && kept.back() >= extent)
    return input_error("the condition keeps element {} of {}", kept.back(), extent);
  ValueId indices = c.constant(DType::kI64, {static_cast<int64_t>(kept.size())}, graph::make_constant_i64(kept));
  return c.finish(Op::kGather, graph::AxisAttrs{axis}, {x, indices});
}

// --- bits
// --------------------------------------------------------------------------------------------------------------

Result<void> import_bit_shift(NodeContext& c) {
  TCC_TRY(const std::string direction, c.get_string("direction", ""));
  if (direction != "LEFT" && direction != "RIGHT")
    return input_error("direction is '{}', expected LEFT or RIGHT", sanitize(direction));
  return c.finish(c.binary(direction == "LEFT" ? BinaryFn::kShiftLeft : BinaryFn::kShiftRight, c.input(0), c.input(1)));
}

Result<void> import_bitwise(NodeContext& c) {
  const BinaryFn fn = c.op() == "BitwiseAnd"  ? BinaryFn::kBitAnd
                      : c.op() == "BitwiseOr" ? BinaryFn::kBitOr
                                              : BinaryFn::kBitXor;
  return c.finish(c.binary(fn, c.input(0), c.input(1)));
}

}  // namespace tcc::onnx
