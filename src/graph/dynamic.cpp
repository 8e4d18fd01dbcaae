// bind_dims: constants, masks and the walk over the nodes. dynamic_rules.cpp has the operators.
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "dynamic_binder.h"
#include "tcc/support/check.h"

namespace tcc::graph {

namespace {

constexpr int64_t kMostAffineElements = 4096;  // of a constant whose elements depend on a size

std::string factor_text(const Factor& factor, std::span<const std::string> names) {
  if (factor.symbol < 0) return std::to_string(factor.offset);
  std::string text = factor.scale == 1 ? "" : fmt::format("{}*", factor.scale);
  text += sanitize(names[static_cast<size_t>(factor.symbol)]);
  if (factor.offset != 0) text += fmt::format("{:+}", factor.offset);
  return text;
}

}  // namespace

int64_t axis_extent(const SymbolicAxis& axis, std::span<const int64_t> sizes) {
  int64_t extent = 1;
  for (const Factor& factor : axis) extent *= factor.extent(sizes);
  return extent;
}

Shape shape_at(const SymbolicShape& shape, std::span<const int64_t> sizes) {
  Shape extents;
  for (const SymbolicAxis& axis : shape) extents.push_back(axis_extent(axis, sizes));
  return extents;
}

bool is_dynamic(const SymbolicAxis& axis) {
  return std::any_of(axis.begin(), axis.end(), [](const Factor& factor) { return factor.symbol >= 0; });
}
bool is_dynamic(const SymbolicShape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const SymbolicAxis& axis) { return is_dynamic(axis); });
}

std::string symbolic_text(const SymbolicShape& shape, std::span<const std::string> names) {
  std::string text;
  for (const SymbolicAxis& axis : shape) {
    if (!text.empty()) text += " x ";
    std::vector<std::string> factors;
    for (const Factor& factor : axis) {
      factors.push_back(factor_text(factor, names));
      if (axis.size() > 1 && factor.offset != 0 && factor.symbol >= 0) factors.back() = "(" + factors.back() + ")";
    }
    text += axis.empty() ? "1" : fmt::format("{}", fmt::join(factors, "*"));
  }
  return text.empty() ? "scalar" : text;
}

SymbolicAxis static_axis(int64_t extent) {
  return extent == 1 ? SymbolicAxis{} : SymbolicAxis{{-1, 0, extent}};
}

SymbolicAxis normalized(const SymbolicAxis& axis) {
  SymbolicAxis result;
  for (const Factor& factor : axis) {
    if (factor.symbol < 0 && factor.offset == 1) continue;
    if (factor.symbol < 0 && !result.empty() && result.back().symbol < 0)
      result.back().offset *= factor.offset;
    else
      result.push_back(factor);
  }
  return result;
}

// --- numbers that depend on a size --------------------------------------------------------------------------------

std::optional<Factor> DimBinder::fit_number(int64_t at_bounds, const std::vector<int64_t>& at_probes) const {
  Factor factor{-1, 0, at_bounds};
  for (size_t p = 0; p < probes_.size() && factor.symbol < 0; ++p) {
    if (at_probes[p] == at_bounds) continue;
    // The size that alone differs in this probe.
    int32_t symbol = -1;
    for (size_t s = 0; s < bounds_.size(); ++s) {
      if (probes_[p].sizes[s] == bounds_[s]) continue;
      if (symbol >= 0) return std::nullopt;
      symbol = static_cast<int32_t>(s);
    }
    if (symbol < 0) return std::nullopt;
    const int64_t step = bounds_[static_cast<size_t>(symbol)] - probes_[p].sizes[static_cast<size_t>(symbol)];
    if ((at_bounds - at_probes[p]) % step != 0) return std::nullopt;
    const int64_t scale = (at_bounds - at_probes[p]) / step;
    factor = {symbol, scale, at_bounds - scale * bounds_[static_cast<size_t>(symbol)]};
  }
  for (size_t p = 0; p < probes_.size(); ++p)
    if (factor.extent(probes_[p].sizes) != at_probes[p]) return std::nullopt;
  return factor;
}

std::optional<SymbolicAxis> DimBinder::fit_axis(int64_t at_bounds, const std::vector<int64_t>& at_probes) const {
  const auto factor = fit_number(at_bounds, at_probes);
  if (!factor) return std::nullopt;
  return factor->symbol < 0 ? static_axis(at_bounds) : SymbolicAxis{*factor};
}

// --- new values ---------------------------------------------------------------------------------------------------

void DimBinder::set_shape(ValueId id, SymbolicShape shape) {
  for (SymbolicAxis& axis : shape) axis = normalized(axis);
  TCC_CHECK(shape_at(shape, bounds_) == out_.value(id).shape, "value {} has shape {}, its symbolic shape is {}", id,
            shape_text(out_.value(id).shape), symbolic_text(shape, names_));
  if (shapes_.size() <= static_cast<size_t>(id)) shapes_.resize(static_cast<size_t>(id) + 1);
  shapes_[static_cast<size_t>(id)] = std::move(shape);
}

ValueId DimBinder::emit(const Node* of, Op op, Attributes attrs, std::vector<ValueId> inputs, SymbolicShape shape) {
  auto made = out_.add_node(op, std::move(attrs), std::move(inputs), of != nullptr ? of->name : "size");
  TCC_CHECK(made.has_value(), "bind_dims made a wrong node: {}", made ? "" : made.error().message);
  if (of != nullptr) out_.node(out_.value(*made).producer).sources = of->sources;
  set_shape(*made, std::move(shape));
  places_.resize(out_.nodes.size(), now_);
  return *made;
}

ValueId DimBinder::moved_behind(ValueId value, ValueId source) {
  const NodeId producer = out_.value(source).producer;
  places_[static_cast<size_t>(out_.value(value).producer)] =
      producer == kNone ? 0 : places_[static_cast<size_t>(producer)];
  return value;
}

ValueId DimBinder::constant(DType dtype, Shape shape, std::vector<double> values) {
  SymbolicShape symbolic;
  for (int64_t extent : shape) symbolic.push_back(static_axis(extent));
  const ValueId id =
      out_.add_constant("size", dtype, std::move(shape), make_constant_from_doubles(dtype, std::span(values)));
  set_shape(id, std::move(symbolic));
  return id;
}

ValueId DimBinder::limit_of(const Factor& factor) {
  auto [it, fresh] = limits_.try_emplace({factor.symbol, factor.scale, factor.offset}, kNone);
  if (!fresh) return it->second;
  if (factor.symbol < 0) return it->second = constant(DType::kI64, {}, {static_cast<double>(factor.offset)});
  ValueId id = sizes_[static_cast<size_t>(factor.symbol)];
  if (factor.scale != 1)
    id = emit(nullptr, Op::kMul, NoAttrs{}, {id, constant(DType::kI64, {}, {static_cast<double>(factor.scale)})}, {});
  if (factor.offset != 0)
    id = emit(nullptr, Op::kAdd, NoAttrs{}, {id, constant(DType::kI64, {}, {static_cast<double>(factor.offset)})}, {});
  return limits_[{factor.symbol, factor.scale, factor.offset}] = id;
}

ValueId DimBinder::extent_of(const SymbolicAxis& axis) {
  ValueId product = kNone;
  for (const Factor& factor : axis) {
    const ValueId next = limit_of(factor);
    product = product == kNone ? next : emit(nullptr, Op::kMul, NoAttrs{}, {product, next}, {});
  }
  return product == kNone ? limit_of(Factor{}) : product;
}

// --- masks --------------------------------------------------------------------------------------------------------

ValueId DimBinder::counts(const SymbolicAxis& axis, size_t at, size_t trailing) {
  const Factor& factor = axis[at];
  int64_t inner = 1;
  for (size_t i = at + 1; i < axis.size(); ++i) inner *= axis[i].extent(bounds_);
  const int64_t extent = axis_extent(axis, bounds_), own = factor.extent(bounds_);
  const auto key = std::tuple(factor.symbol, factor.scale, factor.offset, extent, inner, trailing);
  if (auto known = counts_.find(key); known != counts_.end()) return known->second;
  std::vector<double> coordinates;
  for (int64_t i = 0; i < extent; ++i) coordinates.push_back(static_cast<double>(i / inner % own));
  Shape shape{extent};
  shape.resize(1 + trailing, 1);
  SymbolicShape symbolic;
  for (int64_t e : shape) symbolic.push_back(static_axis(e));
  return counts_[key] = emit(nullptr, Op::kBinary, BinaryAttrs{BinaryFn::kLess},
                             {constant(DType::kI64, shape, std::move(coordinates)), limit_of(factor)}, symbolic);
}

ValueId DimBinder::masked_factor(ValueId value, size_t axis, size_t factor, double fill) {
  const auto key = std::tuple(value, axis, factor, std::bit_cast<uint64_t>(fill));  // NaN has no order
  if (auto known = masked_.find(key); known != masked_.end()) return known->second;
  const SymbolicShape own = shape(value);
  const NodeId producer = out_.value(value).producer;
  if (producer != kNone) {
    const Node node = out_.node(producer);
    if (node.op == Op::kTranspose) {
      const auto from = static_cast<size_t>(node.as<TransposeAttrs>().perm[axis]);
      const ValueId source = masked_factor(node.inputs[0], from, factor, fill);
      return masked_[key] = moved_behind(emit(&node, node.op, node.attrs, {source}, own), source);
    }
    if (node.op == Op::kReshape) {
      // Reshapes keep the order of factors with a size.
      size_t number = 0;
      for (size_t a = 0; a <= axis; ++a)
        for (size_t f = 0; f < (a == axis ? factor : own[a].size()); ++f) number += own[a][f].symbol >= 0;
      const SymbolicShape before = shape(node.inputs[0]);
      for (size_t a = 0; a < before.size(); ++a)
        for (size_t f = 0; f < before[a].size(); ++f)
          if (before[a][f].symbol >= 0 && number-- == 0 && before[a][f] == own[axis][factor]) {
            const ValueId source = masked_factor(node.inputs[0], a, f, fill);
            return masked_[key] = moved_behind(emit(&node, node.op, node.attrs, {source}, own), source);
          }
    }
  }
  const Node* of = producer == kNone ? nullptr : &out_.node(producer);
  const Node copy = of == nullptr ? Node() : *of;
  const ValueId mask = counts(own[axis], factor, own.size() - axis - 1);
  const ValueId other = out_.add_constant("fill", out_.value(value).dtype, {},
                                          make_constant_from_doubles(out_.value(value).dtype, std::span(&fill, 1)));
  set_shape(other, {});
  return masked_[key] = moved_behind(
             emit(of == nullptr ? nullptr : &copy, Op::kWhere, NoAttrs{}, {mask, value, other}, own), value);
}

ValueId DimBinder::masked(ValueId value, size_t axis, double fill) {
  const SymbolicAxis factors = shape(value)[axis];
  for (size_t f = 0; f < factors.size(); ++f)
    if (factors[f].symbol >= 0) value = masked_factor(value, axis, f, fill);
  return value;
}

ValueId DimBinder::zeroed(ValueId value, size_t axis) {
  return zero_.contains({value, axis}) ? value : masked(value, axis, 0);
}

// --- indices ------------------------------------------------------------------------------------------------------

ValueId DimBinder::runtime_indices(const Factor& start, int64_t step, int64_t count, int64_t extent) {
  std::vector<double> steps;
  for (int64_t i = 0; i < count; ++i) steps.push_back(static_cast<double>(i * step));
  const SymbolicShape symbolic{static_axis(count)};
  ValueId id = emit(nullptr, Op::kAdd, NoAttrs{}, {constant(DType::kI64, {count}, steps), limit_of(start)}, symbolic);
  return emit(nullptr, Op::kClip, ClipAttrs{0, static_cast<double>(extent - 1)}, {id}, symbolic);
}

ValueId DimBinder::picked(const Node& node, ValueId data, size_t axis, ValueId indices, const SymbolicAxis& now) {
  SymbolicShape result = shape(data);
  result[axis] = now;
  return emit(&node, Op::kGather, AxisAttrs{static_cast<int64_t>(axis)}, {data, indices}, result);
}

// --- constants ----------------------------------------------------------------------------------------------------

// Elements of the smaller constants are those of the larger one at the same coordinates.
Result<bool> DimBinder::is_prefix(const Value& value, const SymbolicShape& shape) const {
  const auto strides = dense_strides(value.shape);
  const int64_t width = dtype_size(value.dtype);
  for (const Probe& probe : probes_) {
    const Value& other = probe.graph->value(value.id);
    const Constant &a = *value.constant, &b = *other.constant;
    if (shape_at(shape, probe.sizes) != other.shape) return false;
    if (a.splat && b.splat) {
      if (!std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end())) return false;
      continue;
    }
    std::vector<std::byte> a_storage, b_storage;
    const auto x = dense_bytes(a, value.dtype, value.elements(), a_storage);
    const auto y = dense_bytes(b, value.dtype, other.elements(), b_storage);
    if (other.shape == value.shape) {
      if (x.data() != y.data() && !std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
      continue;
    }
    // A probe may be larger than the bounds: the common part.
    Shape common = other.shape;
    for (size_t i = 0; i < common.size(); ++i) common[i] = std::min(common[i], value.shape[i]);
    const auto other_strides = dense_strides(other.shape);
    IndexWalk walk(common);
    for (int64_t n = element_count(common); n-- > 0; walk.next())
      if (!std::equal(x.begin() + walk.offset(strides) * width, x.begin() + (walk.offset(strides) + 1) * width,
                      y.begin() + walk.offset(other_strides) * width))
        return false;
  }
  return true;
}

// Of one shape at all sizes, and each element is affine in the same size.
Result<void> DimBinder::take_affine_constant(const Value& value) {
  auto fail = [&](const char* why) { return input_error("constant '{}' {}", sanitize(value.name), why); };
  if (value.dtype == DType::kBool || value.elements() > kMostAffineElements)
    return fail("has elements that depend on the size in a way that is not supported");
  const std::vector<double> here = constant_doubles(*value.constant, value.dtype, value.elements());
  std::vector<std::vector<double>> there;
  for (const Probe& probe : probes_) {
    const Value& other = probe.graph->value(value.id);
    if (other.shape != value.shape) return fail("has other elements for other sizes");
    there.push_back(constant_doubles(*other.constant, value.dtype, value.elements()));
  }
  int32_t symbol = -1;
  std::vector<double> scales, offsets;
  for (size_t i = 0; i < here.size(); ++i) {
    std::vector<int64_t> numbers;
    for (const auto& other : there) numbers.push_back(static_cast<int64_t>(other[i]));
    const auto factor = fit_number(static_cast<int64_t>(here[i]), numbers);
    bool whole = here[i] == std::trunc(here[i]);
    for (const auto& other : there) whole = whole && other[i] == std::trunc(other[i]);
    if (!factor || !whole || (factor->symbol >= 0 && symbol >= 0 && factor->symbol != symbol))
      return fail("has elements that are not affine in the size");
    if (factor->symbol >= 0) symbol = factor->symbol;
    scales.push_back(factor->symbol < 0 ? 0 : static_cast<double>(factor->scale));
    offsets.push_back(static_cast<double>(factor->offset));
  }
  TCC_CHECK(symbol >= 0);
  ValueId size = sizes_[static_cast<size_t>(symbol)];
  if (value.dtype != DType::kI64) size = emit(nullptr, Op::kCast, CastAttrs{value.dtype}, {size}, {});
  SymbolicShape own;
  for (int64_t extent : value.shape) own.push_back(static_axis(extent));
  const ValueId product = emit(nullptr, Op::kMul, NoAttrs{}, {constant(value.dtype, value.shape, scales), size}, own);
  to_[static_cast<size_t>(value.id)] =
      emit(nullptr, Op::kAdd, NoAttrs{}, {product, constant(value.dtype, value.shape, offsets)}, own);
  return {};
}

Result<void> DimBinder::take_constant(const Value& value) {
  SymbolicShape own;
  for (const Probe& probe : probes_) {
    const Value& other = probe.graph->value(value.id);
    if (!other.is_constant() || other.dtype != value.dtype || other.shape.size() != value.shape.size())
      return input_error("constant '{}' has another type for other sizes", sanitize(value.name));
  }
  for (size_t axis = 0; axis < value.shape.size(); ++axis) {
    std::vector<int64_t> others;
    for (const Probe& probe : probes_) others.push_back(probe.graph->value(value.id).shape[axis]);
    const auto fitted = fit_axis(value.shape[axis], others);
    if (!fitted) return input_error("axis {} of constant '{}' is not affine in one size", axis, sanitize(value.name));
    own.push_back(*fitted);
  }
  TCC_TRY(const bool prefix, is_prefix(value, own));
  if (!prefix) return take_affine_constant(value);
  const ValueId id = out_.add_constant(value.name, value.dtype, value.shape, *value.constant);
  set_shape(id, std::move(own));
  to_[static_cast<size_t>(value.id)] = id;
  return {};
}

// --- the walk -----------------------------------------------------------------------------------------------------

Result<void> DimBinder::check_structure() const {
  for (const Probe& probe : probes_) {
    const Graph& other = *probe.graph;
    bool same = other.nodes.size() == in_.nodes.size() && other.order == in_.order &&
                other.values.size() == in_.values.size() && other.inputs == in_.inputs && other.outputs == in_.outputs;
    for (size_t i = 0; i < in_.nodes.size() && i < other.nodes.size(); ++i) {
      const Node &a = in_.nodes[i], &b = other.nodes[i];
      if (a.op == b.op && a.inputs == b.inputs && a.output == b.output && a.attrs.index() == b.attrs.index() &&
          node_name(a) == node_name(b))
        continue;
      return cannot(a, fmt::format("it is another operator ({}) where the sizes are {}", node_name(b),
                                   fmt::join(probe.sizes, ", ")));
    }
    if (!same)
      return input_error("the model has other nodes where the sizes of {} are {}", fmt::join(names_, ", "),
                         fmt::join(probe.sizes, ", "));
  }
  return {};
}

Result<void> DimBinder::take_inputs() {
  for (ValueId id : in_.inputs) {
    const Value& value = in_.value(id);
    SymbolicShape own;
    for (size_t axis = 0; axis < value.shape.size(); ++axis) {
      std::vector<int64_t> others;
      for (const Probe& probe : probes_) others.push_back(probe.graph->value(id).shape.at(axis));
      const auto fitted = fit_axis(value.shape[axis], others);
      if (!fitted) return input_error("axis {} of input '{}' is not affine in one size", axis, sanitize(value.name));
      own.push_back(*fitted);
    }
    const ValueId now = out_.add_input(value.name, value.dtype, value.shape);
    out_.value(now).dim_names = value.dim_names;
    set_shape(now, own);
    to_[static_cast<size_t>(id)] = now;
  }
  for (const std::string& name : names_) {
    sizes_.push_back(out_.add_input(name, DType::kI64, {}));
    set_shape(sizes_.back(), {});
  }
  return {};
}

tl::unexpected<Error> DimBinder::cannot(const Node& node, const std::string& why) const {
  return make_error(ErrorClass::kInput,
                    fmt::format("--dim {}: node '{}' ({}) cannot take a range of sizes: {}", fmt::join(names_, ", "),
                                sanitize(node.name), node_name(node), why),
                    "give the dimension one size, as in --dim NAME=8");
}

// The importer computed the same shapes for the sizes of the probes.
Result<void> DimBinder::check_result(const Node& node) const {
  const SymbolicShape& own = shape(to_[static_cast<size_t>(node.output)]);
  for (const Probe& probe : probes_) {
    const Shape expected = shape_at(own, probe.sizes), &found = probe.graph->value(node.output).shape;
    if (expected != found)
      return cannot(node, fmt::format("its result has the shape {}, which gives {} for the sizes {}, and the model {}",
                                      symbolic_text(own, names_), shape_text(expected), fmt::join(probe.sizes, ", "),
                                      shape_text(found)));
  }
  return {};
}

// A group takes an operator whose other operands are there before it. So what depends on the sizes only comes first,
// and a masked value behind the value itself.
void DimBinder::order_nodes() {
  std::vector<char> early(out_.values.size(), 0);
  for (const Value& value : out_.values) early[static_cast<size_t>(value.id)] = value.is_constant();
  for (ValueId id : sizes_) early[static_cast<size_t>(id)] = 1;
  for (NodeId id : out_.order) {
    const Node& node = out_.node(id);
    early[static_cast<size_t>(node.output)] =
        std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId i) { return early[static_cast<size_t>(i)]; });
  }
  auto place = [&](NodeId id) {
    return early[static_cast<size_t>(out_.node(id).output)] ? -1 : places_[static_cast<size_t>(id)];
  };
  std::stable_sort(out_.order.begin(), out_.order.end(), [&](NodeId a, NodeId b) { return place(a) < place(b); });
}

Result<BoundGraph> DimBinder::run() {
  TCC_TRY_VOID(check_structure());
  out_.name = in_.name;
  out_.data_files = in_.data_files;
  out_.sources = in_.sources;
  to_.assign(in_.values.size(), kNone);
  TCC_TRY_VOID(take_inputs());
  auto take = [&](ValueId id) -> Result<void> {
    const Value& value = in_.value(id);
    if (to_[static_cast<size_t>(id)] != kNone || !value.is_constant()) return {};
    return take_constant(value);
  };
  for (NodeId id : in_.order) {
    const Node& node = in_.node(id);
    ++now_;
    for (ValueId input : node.inputs)
      if (auto taken = take(input); !taken) return cannot(node, taken.error().message);
    TCC_TRY(to_[static_cast<size_t>(node.output)], bind(node));
    TCC_TRY_VOID(check_result(node));
  }
  BoundGraph result;
  for (ValueId id : in_.inputs) result.inputs.push_back(shape(to_[static_cast<size_t>(id)]));
  for (size_t i = 0; i < in_.outputs.size(); ++i) {
    TCC_TRY_VOID(take(in_.outputs[i]));
    const ValueId now = to_[static_cast<size_t>(in_.outputs[i])];
    out_.add_output(now, in_.output_names[i]);
    result.outputs.push_back(shape(now));
    result.appends_to.push_back(kNone);
    result.append_axis.push_back(0);
    const Value& old = in_.value(in_.outputs[i]);
    if (old.producer == kNone || in_.node(old.producer).op != Op::kConcat) continue;
    const Node& concat = in_.node(old.producer);
    const auto input = std::find(in_.inputs.begin(), in_.inputs.end(), concat.inputs[0]);
    const bool other = std::count(concat.inputs.begin(), concat.inputs.end(), concat.inputs[0]) > 1;
    if (input == in_.inputs.end() || other) continue;
    result.appends_to.back() = static_cast<int32_t>(input - in_.inputs.begin());
    result.append_axis.back() = static_cast<int32_t>(concat.as<AxisAttrs>().axis);
  }
  order_nodes();
  result.graph = std::move(out_);
  return result;
}

Result<BoundGraph> bind_dims(const Graph& graph, std::span<const std::string> names, std::span<const int64_t> bounds,
                             std::span<const Probe> probes) {
  return DimBinder(graph, names, bounds, probes).run();
}

}  // namespace tcc::graph
