#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/ranges.h>

#include "handlers.h"
#include "small_types.h"
#include "tcc/graph/passes.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

using graph::ValueId;

namespace {
constexpr int kMaxListEntries = 1'000'000;
constexpr int64_t kMaxFoldedFloats = 1024;
constexpr int64_t kMaxFoldedBytes = int64_t{1} << 26;  // in all; beyond, nodes stay, which `optimize` may fold
constexpr int64_t kAlwaysFolded = 1024;                // bytes: shapes and axes must be known

// Of operators that give as many elements as the data say: the nearest form with a fixed number.
const char* other_form(const std::string& op) {
  if (op == "NonMaxSuppression") return "; or end the model at its boxes and scores, and suppress outside of it";
  if (op == "NonZero" || op == "Compress") return "; or keep all elements, and choose among them with Where";
  return "";
}
}  // namespace

NodeContext::NodeContext(ImportState& state, const tcc_onnx::Node& proto, int64_t opset, Items inputs)
    : state_(state),
      graph_(state.graph),
      proto_(proto),
      opset_(opset),
      inputs_(std::move(inputs)),
      source_(static_cast<int32_t>(state.graph.sources.size()) - 1) {
  while (!inputs_.empty() && !inputs_.back().exists()) inputs_.pop_back();
  if (opset < 6) read_.insert("consumed_inputs");  // advice of the first opsets about memory
}

std::vector<Made> NodeContext::inputs() const {
  std::vector<Made> tensors;
  for (const Item& item : inputs_) tensors.emplace_back(item.tensor);
  return tensors;
}

Result<void> NodeContext::need_inputs(std::initializer_list<size_t> numbers) const {
  for (size_t i : numbers) {
    if (!has_input(i)) return input_error("input {} is required", i);
  }
  return {};
}

Result<const std::vector<ValueId>*> NodeContext::list(size_t i) const {
  if (i >= inputs_.size() || inputs_[i].list == nullptr) return input_error("input {} must be a sequence", i);
  return inputs_[i].list.get();
}

Result<const tcc_onnx::Graph*> NodeContext::get_graph(const char* name) {
  TCC_TRY(auto* attribute, take(name, tcc_onnx::Attribute::GRAPH));
  if (attribute == nullptr) return input_error("attribute '{}' is missing", name);
  return &attribute->g();
}

// Names the model's inputs that the value is computed from: fixing them would make it known.
tl::unexpected<Error> NodeContext::refuse_run_time(size_t i, const char* what) const {
  std::vector<char> seen(graph_.values.size(), 0);
  std::vector<ValueId> open{inputs_[i].tensor};
  std::vector<std::string> names;
  while (!open.empty()) {
    ValueId id = open.back();
    open.pop_back();
    if (std::exchange(seen[static_cast<size_t>(id)], 1)) continue;
    const graph::Value& v = graph_.value(id);
    if (v.producer != graph::kNone) {
      for (ValueId input : graph_.node(v.producer).inputs) open.push_back(input);
    } else if (!v.is_constant()) {
      names.push_back(sanitize(v.name));
      state_.to_freeze.insert(v.name);
    }
  }
  return graph::refusal(
      Refusal::kRunTimeShape,
      fmt::format("{} (input {}, '{}') is computed at run time; it must be a constant", what, i,
                  sanitize(input_value(i).name)),
      fmt::format("fix the input{} it comes from: --freeze {}=@FILE.pb{}", names.size() == 1 ? "" : "s",
                  fmt::join(names, "=@FILE.pb --freeze "), other_form(op())));
}

Result<const graph::Value*> NodeContext::known_input(size_t i, const char* what) const {
  if (!input_value(i).is_constant() || is_counted(i)) return refuse_run_time(i, what);
  return &input_value(i);
}

Result<std::vector<int64_t>> NodeContext::constant_integers(size_t i, const char* what) const {
  if (!has_input(i)) return input_error("{} (input {}) must be a tensor", what, i);
  const graph::Value& v = input_value(i);
  if (!v.is_constant() || is_counted(i)) return refuse_run_time(i, what);
  if (graph::is_float(v.dtype))
    return input_error("{} (input {}) must be integers, not {}", what, i, graph::dtype_name(v.dtype));
  if (v.shape.size() > 1)
    return input_error("{} (input {}) must have one dimension, not shape {}", what, i, graph::shape_text(v.shape));
  if (v.elements() > kMaxListEntries) return input_error("{} (input {}) has {} elements", what, i, v.elements());
  return graph::constant_integers(*v.constant, v.dtype, v.elements());
}

Result<std::vector<Extent>> NodeContext::extents(size_t i, const char* what) {
  std::vector<Extent> list;
  const auto known = has_input(i) ? book().numbers.find(inputs_[i].tensor) : book().numbers.end();
  if (known == book().numbers.end() || graph::is_float(input_value(i).dtype) || input_value(i).shape.size() > 1) {
    TCC_TRY(const std::vector<int64_t> numbers, constant_integers(i, what));
    for (int64_t n : numbers) list.push_back({n});
    return list;
  }
  std::vector<CountedNumber> numbers = known->second;
  for (size_t e = 0; e < numbers.size(); ++e) {
    CountedNumber& n = numbers[e];
    if (n.low == n.high) {
      list.push_back({n.low});
      continue;
    }
    if (n.scalar == graph::kNone) {
      const Made own = rank(i) == 0 ? Made(input(i)) : slice(input(i), 0, static_cast<int64_t>(e), 1);
      TCC_TRY_SET(n.scalar, cast(emit_reshape(own, {}), graph::DType::kI64));
      book().numbers[n.scalar] = {{n.low, n.high, n.scalar}};
    }
    ValueId count = n.scalar;
    if (n.low < 0) TCC_TRY_SET(count, derived_count(*this, CountOp::kWithout, count, 0));
    list.push_back({std::max<int64_t>(n.high, 0), count});
  }
  book().numbers[inputs_[i].tensor] = std::move(numbers);
  return list;
}

// --- counts -------------------------------------------------------------------------------------------------------

const Counts* NodeContext::counts(ValueId id) const {
  const auto known = state_.counts.counts.find(id);
  return known == state_.counts.counts.end() ? nullptr : &known->second;
}

ValueId NodeContext::count(size_t i, size_t axis) const {
  const Counts* own = has_input(i) ? counts(inputs_[i].tensor) : nullptr;
  return own == nullptr ? graph::kNone : (*own)[axis];
}

void NodeContext::set_counts(ValueId id, Counts counts) {
  bool any = false;
  for (size_t axis = 0; axis < counts.size(); ++axis) {
    ValueId& count = counts[axis];
    if (count == graph::kNone) continue;
    const graph::Value& v = graph_.value(count);
    if (v.is_constant() && graph::constant_integers(*v.constant, v.dtype, 1)[0] == graph_.value(id).shape[axis]) {
      count = graph::kNone;
      continue;
    }
    any = true;
    auto [number, fresh] = state_.counts.numbers.try_emplace(count);
    if (fresh) number->second = {{0, graph_.value(id).shape[axis], count}};
    if (number->second[0].scalar == graph::kNone) number->second[0].scalar = count;
    count = number->second[0].scalar;
  }
  if (any)
    state_.counts.counts[id] = std::move(counts);
  else
    state_.counts.counts.erase(id);
}

CountedNumber NodeContext::number(ValueId count) const {
  const auto known = state_.counts.numbers.find(count);
  return known == state_.counts.numbers.end() ? CountedNumber{0, graph::kMaxElements, count} : known->second[0];
}

bool NodeContext::same_number(ValueId a, ValueId b) const {
  return a == b || (number(a).scalar != graph::kNone && number(a).scalar == number(b).scalar);
}

tl::unexpected<Error> NodeContext::refuse_count(ValueId id, size_t axis, const char* why) const {
  const std::string whose = id == graph::kNone ? "" : fmt::format(" of '{}'", sanitize(graph_.value(id).name));
  return refuse(Refusal::kRunTimeShape, "axis {}{}, whose extent is known at run time only, {}", axis, whose, why);
}

Result<std::vector<int64_t>> NodeContext::optional_integers(size_t i, const char* what) const {
  return has_input(i) ? constant_integers(i, what) : std::vector<int64_t>();
}

Result<double> NodeContext::constant_scalar(size_t i, const char* what, double otherwise) const {
  return has_input(i) ? constant_scalar(i, what) : otherwise;
}

Result<double> NodeContext::constant_scalar(size_t i, const char* what) const {
  const graph::Value& v = input_value(i);
  if (!v.is_constant() || is_counted(i)) return refuse_run_time(i, what);
  if (v.elements() != 1)
    return input_error("{} (input {}) must be a scalar, not shape {}", what, i, graph::shape_text(v.shape));
  return graph::constant_element(*v.constant, v.dtype, 0);
}

const tcc_onnx::Attribute* NodeContext::find(const char* name) const {
  for (const auto& attribute : proto_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

Result<const tcc_onnx::Attribute*> NodeContext::take(const char* name, tcc_onnx::Attribute::Type type) {
  read_.insert(name);
  const tcc_onnx::Attribute* attribute = find(name);
  // Files before IR version 2 carry no type: the field that is read decides.
  if (attribute && attribute->has_type() && attribute->type() != type) {
    return input_error("attribute '{}' has type {}, expected type {}", name, static_cast<int>(attribute->type()),
                       static_cast<int>(type));
  }
  return attribute;
}

Result<int64_t> NodeContext::get_int(const char* name, int64_t otherwise, int64_t since) {
  if (opset_ < since) return otherwise;
  TCC_TRY(auto* attribute, take(name, tcc_onnx::Attribute::INT));
  return attribute ? attribute->i() : otherwise;
}

Result<bool> NodeContext::get_flag(const char* name, bool otherwise, int64_t since) {
  TCC_TRY(const int64_t value, get_int(name, otherwise ? 1 : 0, since));
  return value != 0;
}

Result<double> NodeContext::get_float(const char* name, double otherwise) {
  TCC_TRY(auto* attribute, take(name, tcc_onnx::Attribute::FLOAT));
  // The standard's defaults are numbers of single precision, which counts in f64.
  if (!attribute) return static_cast<float>(otherwise);
  if (std::isnan(attribute->f())) return input_error("attribute '{}' is not a number", name);
  return attribute->f();
}

Result<std::string> NodeContext::get_string(const char* name, const std::string& otherwise, int64_t since) {
  if (opset_ < since) return otherwise;
  TCC_TRY(auto* attribute, take(name, tcc_onnx::Attribute::STRING));
  return attribute ? attribute->s() : otherwise;
}

Result<std::optional<std::vector<int64_t>>> NodeContext::get_ints(const char* name) {
  TCC_TRY(auto* attribute, take(name, tcc_onnx::Attribute::INTS));
  if (!attribute) return std::nullopt;
  if (attribute->ints_size() > kMaxListEntries)
    return input_error("attribute '{}' has {} entries", name, attribute->ints_size());
  return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

Result<std::optional<std::vector<double>>> NodeContext::get_floats(const char* name) {
  TCC_TRY(auto* attribute, take(name, tcc_onnx::Attribute::FLOATS));
  if (!attribute) return std::nullopt;
  if (attribute->floats_size() > kMaxListEntries)
    return input_error("attribute '{}' has {} entries", name, attribute->floats_size());
  return std::vector<double>(attribute->floats().begin(), attribute->floats().end());
}

Result<std::optional<std::vector<std::string>>> NodeContext::get_strings(const char* name) {
  TCC_TRY(auto* attribute, take(name, tcc_onnx::Attribute::STRINGS));
  if (!attribute) return std::nullopt;
  return std::vector<std::string>(attribute->strings().begin(), attribute->strings().end());
}

Result<std::optional<TensorConstant>> NodeContext::get_tensor(const char* name) {
  TCC_TRY(auto* attribute, take(name, tcc_onnx::Attribute::TENSOR));
  if (!attribute) return std::nullopt;
  if (const SmallType* small = small_type(attribute->t().data_type()); small != nullptr && op() != "Constant")
    return refuse(Refusal::kElementType, "attribute '{}' is {}, which it does not take", name, small->name);
  TCC_TRY(TensorConstant tensor,
          read_tensor(attribute->t(), state_.owner, state_.files, fmt::format("attribute '{}'", name)));
  return tensor;
}

const SmallType* NodeContext::small_type_of(const char* name) const {
  const tcc_onnx::Attribute* attribute = find(name);
  return attribute == nullptr ? nullptr : small_type(attribute->t().data_type());
}

Result<void> NodeContext::check_all_attributes_read() const {
  std::set<std::string> seen;
  for (const auto& attribute : proto_.attribute()) {
    if (!attribute.ref_attr_name().empty()) {
      return input_error("attribute '{}' refers to a function's attribute outside a function",
                         sanitize(attribute.name()));
    }
    if (!seen.insert(attribute.name()).second)
      return input_error("attribute '{}' is given twice", sanitize(attribute.name()));
    if (!read_.contains(attribute.name())) {
      return input_error("attribute '{}' is not known for {} at opset {}", sanitize(attribute.name()), op(), opset_);
    }
  }
  return {};
}

Result<int64_t> NodeContext::normalize_axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) return input_error("axis {} is out of range for rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

Result<int64_t> NodeContext::get_axis(int64_t otherwise, int64_t rank) {
  TCC_TRY(int64_t axis, get_int("axis", otherwise));
  return normalize_axis(axis, rank);
}

std::vector<int64_t> axes_from(int64_t first, int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank - first));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

Result<std::vector<int64_t>> NodeContext::normalize_axes(std::vector<int64_t> axes, int64_t rank) const {
  for (int64_t& axis : axes) TCC_TRY_SET(axis, normalize_axis(axis, rank));
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    return input_error("axes [{}] name one axis twice", fmt::join(axes, ", "));
  }
  return axes;
}

Made NodeContext::emit(graph::Op op, graph::Attributes attrs, const std::vector<Made>& inputs) {
  std::vector<ValueId> ids;
  for (const Made& input : inputs) {
    if (!input) return input;
    ids.push_back(*input);
  }
  if (std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return counts(id) != nullptr; }))
    return emit_counted(*this, op, std::move(attrs), std::move(ids));
  return emit_fixed(op, std::move(attrs), std::move(ids));
}

Made NodeContext::emit_fixed(graph::Op op, graph::Attributes attrs, std::vector<ValueId> ids) {
  TCC_TRY(ValueId id, graph_.add_node(op, std::move(attrs), std::move(ids), proto_.name()));
  graph_.node(graph_.value(id).producer).sources = {source_};
  // Shapes are often computed in the graph: what is known now must be a constant now. Large float results wait for
  // `optimize`.
  const graph::Node& node = graph_.node(graph_.value(id).producer);
  // What is made of single numbers is one again.
  const bool dense = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    const graph::Value& v = graph_.value(input);
    return v.is_constant() && !v.constant->splat && v.elements() > 1;
  });
  const int64_t bytes = dense ? graph_.value(id).bytes() : 0;
  if (auto numbers = follow_numbers(graph_, state_.counts, node)) {
    const bool known = std::all_of(numbers->begin(), numbers->end(), [](const auto& n) { return n.low == n.high; });
    if (!known && graph_.value(id).shape.empty() && graph_.value(id).dtype == graph::DType::kI64 &&
        (*numbers)[0].scalar == graph::kNone)
      (*numbers)[0].scalar = id;
    if (known && !graph::is_float(graph_.value(id).dtype)) {
      std::vector<double> values;
      for (const CountedNumber& n : *numbers) values.push_back(static_cast<double>(n.low));
      graph_.value(id).constant = graph::make_constant_from_doubles(graph_.value(id).dtype, values);
      graph_.value(id).producer = graph::kNone;
      graph_.order.pop_back();
      return id;
    }
    state_.counts.numbers[id] = std::move(*numbers);
  }
  if (graph_.value(id).bytes() > kAlwaysFolded && state_.folded_bytes + bytes > kMaxFoldedBytes) return id;
  bool small = !graph::is_float(graph_.value(id).dtype) || graph_.value(id).elements() <= kMaxFoldedFloats;
  TCC_TRY(auto folded, graph::evaluate_constant(graph_, node, small ? &state_.evaluator : nullptr));
  if (folded) {
    if (!folded->splat) state_.folded_bytes += static_cast<int64_t>(folded->bytes.size());
    graph_.value(id).constant = std::move(folded);
    graph_.value(id).producer = graph::kNone;
    graph_.order.pop_back();
  }
  return id;
}

Made NodeContext::emit_reshape(const Made& x, graph::Shape shape) {
  if (!x || value(*x).shape == shape) return x;
  return emit(graph::Op::kReshape, graph::ReshapeAttrs{std::move(shape)}, {x});
}

Made NodeContext::rearrange(const Made& x, graph::Shape split, std::vector<int64_t> perm, graph::Shape joined) {
  Made parts = emit_reshape(x, std::move(split));
  return emit_reshape(emit(graph::Op::kTranspose, graph::TransposeAttrs{std::move(perm)}, {parts}), std::move(joined));
}

ValueId NodeContext::constant(graph::DType dtype, graph::Shape shape, graph::Constant constant) {
  return graph_.add_constant(proto_.name(), dtype, std::move(shape), std::move(constant));
}

Made NodeContext::cast(const Made& x, graph::DType to) {
  if (!x || value(*x).dtype == to) return x;
  return emit(graph::Op::kCast, graph::CastAttrs{to}, {x});
}

Made NodeContext::slice(const Made& x, int64_t axis, int64_t start, int64_t extent) {
  if (!x) return x;
  const graph::Shape& shape = value(*x).shape;
  if (axis < 0 || axis >= std::ssize(shape))
    return input_error("axis {} is out of range for shape {}", axis, graph::shape_text(shape));
  graph::SliceAttrs attrs{std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.size(), 1), shape};
  attrs.starts[static_cast<size_t>(axis)] = start;
  attrs.extents[static_cast<size_t>(axis)] = extent;
  return emit(graph::Op::kSlice, attrs, {x});
}

Made NodeContext::iota(graph::DType dtype, int64_t extent, size_t axis, size_t rank) {
  if (extent > kMaxTable)
    return refuse(Refusal::kTooLarge, "axis {} has {} positions; at most {} are supported", axis, extent, kMaxTable);
  std::vector<double> values(static_cast<size_t>(extent));
  std::iota(values.begin(), values.end(), 0.0);
  graph::Shape shape(rank, 1);
  shape[axis] = extent;
  return constant(dtype, shape, graph::make_constant_from_doubles(dtype, values));
}

Result<void> NodeContext::finish(Made id, const SmallType* small) {
  if (!id) return tl::make_unexpected(std::move(id).error());
  set_output(0, Item{*id, nullptr, false, small});
  return {};
}

}  // namespace tcc::onnx
