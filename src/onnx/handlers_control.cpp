// If, Loop and Scan: bodies are imported in their place, once for each iteration.
//
//   Loop(3, true, x) { y = x + i }   becomes   y0 = x + 0,  y1 = y0 + 1,  y2 = y1 + 2
//
// Results of two branches may differ in their extents: then the extent is known at run time only. Trip counts must be
// known. A condition that is not known leaves every iteration in the graph and keeps the values of
// before where it was false (Where); both branches of such an If are computed.
#include <algorithm>

#include "handlers.h"
#include "small_types.h"

namespace tcc::onnx {

namespace {

constexpr int64_t kMaxTrips = 20'000;

Result<void> check_condition(NodeContext& c, ValueId id) {
  if (id == graph::kNone) return input_error("the condition must be a tensor");
  const graph::Value& v = c.value(id);
  if (v.dtype == DType::kBool && v.elements() == 1) return {};
  return input_error("the condition must be one bool, not {} {}", graph::dtype_name(v.dtype),
                     graph::shape_text(v.shape));
}

bool is_true(const graph::Value& v) {
  return graph::constant_element(*v.constant, v.dtype, 0) != 0;
}

// Both are tensors of one type and shape, so that one can stand for the other.
bool alike(NodeContext& c, const Item& a, const Item& b) {
  if (a.tensor == graph::kNone || b.tensor == graph::kNone || a.small != b.small) return false;
  const Counts *left = c.counts(a.tensor), *right = c.counts(b.tensor);
  if ((left == nullptr) != (right == nullptr) || (left != nullptr && *left != *right)) return false;
  return c.value(a.tensor).dtype == c.value(b.tensor).dtype && c.value(a.tensor).shape == c.value(b.tensor).shape;
}

// Results that are stacked.
Result<void> refuse_small(const Item& item) {
  if (item.small == nullptr) return {};
  return refuse(Refusal::kElementType, "a result of its body is {}, which is not supported", item.small->name);
}

// One tensor of all, along a new axis.
Made stack(NodeContext& c, const std::vector<ValueId>& parts, int64_t axis) {
  std::vector<Made> wide;
  for (ValueId id : parts) {
    Shape shape = c.value(id).shape;
    if (shape != c.value(parts[0]).shape)
      return input_error("results of iterations have different shapes, {} and {}",
                         graph::shape_text(c.value(parts[0]).shape), graph::shape_text(shape));
    shape.insert(shape.begin() + axis, 1);
    wide.push_back(c.emit_reshape(id, shape));
  }
  if (wide.size() == 1) return wide[0];
  return c.emit(Op::kConcat, graph::AxisAttrs{axis}, wide);
}

// The results of iterations, each a list by output.
Result<void> set_stacked(NodeContext& c, size_t output, const std::vector<ValueId>& parts, int64_t axis) {
  if (parts.empty()) return refuse(Refusal::kNoElements, "output {} of no iterations has no elements", output);
  auto rank = static_cast<int64_t>(c.value(parts[0]).shape.size()) + 1;
  if (rank > graph::kMaxRank) return refuse(Refusal::kTooLarge, "output {} would have {} axes", output, rank);
  TCC_TRY(int64_t at, c.normalize_axis(axis, rank));
  TCC_TRY(ValueId whole, stack(c, parts, at));
  c.set_output(output, whole);
  return {};
}

}  // namespace

Result<void> import_if(NodeContext& c) {
  TCC_TRY(auto* then_branch, c.get_graph("then_branch"));
  TCC_TRY(auto* else_branch, c.get_graph("else_branch"));
  TCC_TRY_VOID(check_condition(c, c.item(0).tensor));
  if (c.input_value(0).is_constant()) {
    TCC_TRY(Items outputs, c.import_body(is_true(c.input_value(0)) ? *then_branch : *else_branch, {}));
    for (size_t i = 0; i < outputs.size(); ++i) c.set_output(i, outputs[i]);
    return {};
  }
  TCC_TRY(Items yes, c.import_body(*then_branch, {}));
  TCC_TRY(Items no, c.import_body(*else_branch, {}));
  if (yes.size() != no.size()) return input_error("its branches have {} and {} outputs", yes.size(), no.size());
  TCC_TRY(ValueId condition, c.emit_reshape(c.input(0), {}));
  for (size_t i = 0; i < yes.size(); ++i) {
    const ValueId a = yes[i].tensor, b = no[i].tensor;
    if (a == graph::kNone || b == graph::kNone || yes[i].small != no[i].small || c.value(a).dtype != c.value(b).dtype ||
        c.value(a).shape.size() != c.value(b).shape.size())
      return c.refuse_run_time(0, "the condition of branches of different types");
    TCC_TRY(ValueId chosen, alike(c, yes[i], no[i]) ? c.where(condition, a, b) : choose_counted(c, condition, a, b));
    c.set_output(i, Item{chosen, nullptr, false, yes[i].small});
  }
  return {};
}

Result<void> import_loop(NodeContext& c) {
  TCC_TRY(auto* body, c.get_graph("body"));
  if (body->input_size() < 2 || body->output_size() < 1)
    return input_error("its body has {} inputs and {} outputs, expected at least 2 and 1", body->input_size(),
                       body->output_size());
  const auto carried = static_cast<size_t>(body->input_size()) - 2;
  if (static_cast<size_t>(body->output_size()) < carried + 1)
    return input_error("its body has {} outputs for {} carried values", body->output_size(), carried);
  const size_t scanned = static_cast<size_t>(body->output_size()) - 1 - carried;
  if (c.input_count() > carried + 2)
    return input_error("{} values are carried, {} are given", carried, c.input_count() - 2);
  int64_t trips = kMaxTrips + 1;
  if (c.has_input(0)) {
    TCC_TRY(auto count, c.constant_integers(0, "the trip count"));
    if (count.size() != 1) return input_error("the trip count must be one number");
    trips = std::max<int64_t>(count[0], 0);
    if (trips > kMaxTrips)
      return refuse(Refusal::kTooLarge, "{} iterations; at most {} are supported", trips, kMaxTrips);
  }
  ValueId go = c.has_input(1) ? c.input(1) : c.scalar(DType::kBool, 1);
  TCC_TRY_VOID(check_condition(c, go));
  Items values(carried);
  for (size_t i = 0; i < carried; ++i) {
    if (i + 2 < c.input_count()) values[i] = c.item(i + 2);
  }
  std::vector<std::vector<ValueId>> scans(scanned);
  for (int64_t i = 0; i < trips; ++i) {
    if (c.value(go).is_constant() && !is_true(c.value(go))) break;
    const bool known = c.value(go).is_constant();
    if (!known && (!c.has_input(0) || scanned > 0)) {
      if (c.has_input(1)) return c.refuse_run_time(1, "whether the loop goes on");
      return refuse(Refusal::kRunTimeShape, "whether the loop goes on is computed at run time; give a trip count");
    }
    if (i == kMaxTrips) return refuse(Refusal::kTooLarge, "more than {} iterations are not supported", kMaxTrips);
    Items inputs{Item{c.constant(DType::kI64, {}, graph::make_constant_i64(std::vector<int64_t>{i}))}, Item{go}};
    inputs.insert(inputs.end(), values.begin(), values.end());
    TCC_TRY(Items results, c.import_body(*body, inputs));
    TCC_TRY_VOID(check_condition(c, results[0].tensor));
    for (size_t k = 0; k < carried; ++k) {
      const Item& result = results[k + 1];
      if (known) {
        values[k] = result;
        continue;
      }
      if (!alike(c, values[k], result)) return c.refuse_run_time(1, "whether the loop goes on");
      TCC_TRY(ValueId kept, c.where(c.emit_reshape(go, {}), result.tensor, values[k].tensor));
      values[k] = Item{kept, nullptr, false, result.small};
    }
    for (size_t k = 0; k < scanned; ++k) {
      TCC_TRY_VOID(refuse_small(results[carried + 1 + k]));
      if (results[carried + 1 + k].tensor == graph::kNone)
        return refuse(Refusal::kNotATensor, "output {} of the body is not a tensor", carried + 1 + k);
      scans[k].push_back(results[carried + 1 + k].tensor);
    }
    ValueId next = results[0].tensor;
    if (!known) TCC_TRY_SET(next, c.binary(BinaryFn::kAnd, c.emit_reshape(go, {}), c.emit_reshape(next, {})));
    go = next;
  }
  for (size_t k = 0; k < carried; ++k) c.set_output(k, values[k]);
  for (size_t k = 0; k < scanned; ++k) {
    if (c.wants_output(carried + k)) TCC_TRY_VOID(set_stacked(c, carried + k, scans[k], 0));
  }
  return {};
}

namespace {

struct ScanPlan {
  const tcc_onnx::Graph* body = nullptr;
  size_t states = 0, scanned_inputs = 0, scanned_outputs = 0;
  std::vector<int64_t> input_axes, output_axes, input_directions, output_directions;
};

Result<std::vector<int64_t>> scan_list(NodeContext& c, const char* name, size_t count, bool directions) {
  std::vector<int64_t> list(count, 0);
  TCC_TRY(auto given, c.get_ints(name));
  if (!given) return list;
  if (given->size() != count) return input_error("{} has {} entries, expected {}", name, given->size(), count);
  for (int64_t v : *given) {
    if (directions && v != 0 && v != 1) return input_error("{} has {}, expected 0 or 1", name, v);
  }
  return *given;
}

// One sequence: the states and scanned inputs in `values`; states and stacked outputs are appended to `results`.
Result<void> scan_once(NodeContext& c, const ScanPlan& plan, const Items& values, Items& results) {
  int64_t length = -1;
  std::vector<int64_t> axes;
  for (size_t k = 0; k < plan.scanned_inputs; ++k) {
    const Shape shape = c.value(values[plan.states + k].tensor).shape;
    TCC_TRY(int64_t axis, c.normalize_axis(plan.input_axes[k], static_cast<int64_t>(shape.size())));
    int64_t extent = shape[static_cast<size_t>(axis)];
    if (length >= 0 && extent != length) return input_error("scanned inputs have {} and {} positions", length, extent);
    length = extent;
    axes.push_back(axis);
  }
  if (length > kMaxTrips) return refuse(Refusal::kTooLarge, "{} steps; at most {} are supported", length, kMaxTrips);
  Items state(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(plan.states));
  std::vector<std::vector<ValueId>> scans(plan.scanned_outputs);
  for (int64_t step = 0; step < length; ++step) {
    Items inputs = state;
    for (size_t k = 0; k < plan.scanned_inputs; ++k) {
      ValueId x = values[plan.states + k].tensor;
      Shape shape = c.value(x).shape;
      shape.erase(shape.begin() + axes[k]);
      int64_t at = plan.input_directions[k] == 1 ? length - 1 - step : step;
      TCC_TRY(ValueId part, c.emit_reshape(c.slice(x, axes[k], at, 1), shape));
      inputs.push_back(Item{part});
    }
    TCC_TRY(Items made, c.import_body(*plan.body, inputs));
    for (const Item& item : made) {
      if (item.tensor == graph::kNone) return refuse(Refusal::kNotATensor, "a result of its body is not a tensor");
      TCC_TRY_VOID(refuse_small(item));
    }
    for (size_t k = 0; k < plan.states; ++k) state[k] = made[k];
    for (size_t k = 0; k < plan.scanned_outputs; ++k) scans[k].push_back(made[plan.states + k].tensor);
  }
  results.insert(results.end(), state.begin(), state.end());
  for (size_t k = 0; k < plan.scanned_outputs; ++k) {
    if (scans[k].empty()) return refuse(Refusal::kNoElements, "output {} of no steps has no elements", plan.states + k);
    if (plan.output_directions[k] == 1) std::reverse(scans[k].begin(), scans[k].end());
    auto rank = static_cast<int64_t>(c.value(scans[k][0]).shape.size()) + 1;
    TCC_TRY(int64_t axis, c.normalize_axis(plan.output_axes[k], rank));
    TCC_TRY(ValueId whole, stack(c, scans[k], axis));
    results.push_back(Item{whole});
  }
  return {};
}

// Opset 8: all tensors have a batch axis in front, each of its entries is a sequence of its own.
Result<void> scan_batches(NodeContext& c, const ScanPlan& plan) {
  if (c.has_input(0)) {
    TCC_TRY(auto lengths, c.constant_integers(0, "sequence_lens"));
    const Shape& shape = c.input_value(1 + plan.states).shape;
    for (int64_t length : lengths) {
      if (shape.size() < 2 || length != shape[1])
        return refuse(Refusal::kAttribute,
                      "sequences of length {} that are shorter than their tensor are not supported", length);
    }
  }
  const Shape& first = c.input_value(1 + plan.states).shape;
  const int64_t batch = first.empty() ? 0 : first[0];
  std::vector<std::vector<ValueId>> parts;
  for (int64_t b = 0; b < batch; ++b) {
    Items values;
    for (size_t i = 1; i < c.input_count(); ++i) {
      Shape shape = c.input_value(i).shape;
      if (shape.empty() || shape[0] != batch)
        return input_error("input {} of shape {} has not the {} batches of the others", i, graph::shape_text(shape),
                           batch);
      shape.erase(shape.begin());
      TCC_TRY(ValueId one, c.emit_reshape(c.slice(c.input(i), 0, b, 1), shape));
      values.push_back(Item{one});
    }
    Items results;
    TCC_TRY_VOID(scan_once(c, plan, values, results));
    parts.resize(results.size());
    for (size_t k = 0; k < results.size(); ++k) parts[k].push_back(results[k].tensor);
  }
  for (size_t k = 0; k < parts.size(); ++k) TCC_TRY_VOID(set_stacked(c, k, parts[k], 0));
  return {};
}

}  // namespace

Result<void> import_scan(NodeContext& c) {
  const size_t leading = c.opset() < 9 ? 1 : 0;  // sequence_lens
  if (c.input_count() <= leading) return input_error("has no inputs");
  ScanPlan plan;
  TCC_TRY(plan.body, c.get_graph("body"));
  TCC_TRY(int64_t scanned, c.get_int("num_scan_inputs", 0));
  const auto values = static_cast<int64_t>(c.input_count() - leading);
  if (scanned < 1 || scanned > values) return input_error("num_scan_inputs is {}, expected 1 to {}", scanned, values);
  plan.scanned_inputs = static_cast<size_t>(scanned);
  plan.states = static_cast<size_t>(values - scanned);
  if (plan.body->output_size() < static_cast<int>(plan.states))
    return input_error("its body has {} outputs for {} states", plan.body->output_size(), plan.states);
  plan.scanned_outputs = static_cast<size_t>(plan.body->output_size()) - plan.states;
  for (size_t i = leading; i < c.input_count(); ++i) {
    if (!c.has_input(i)) return input_error("input {} is required", i);
  }
  if (leading == 1) {
    TCC_TRY(plan.input_directions, scan_list(c, "directions", plan.scanned_inputs, true));
    plan.input_axes.assign(plan.scanned_inputs, 0);
    plan.output_axes.assign(plan.scanned_outputs, 0);
    plan.output_directions = plan.output_axes;
    return scan_batches(c, plan);
  }
  TCC_TRY(plan.input_directions, scan_list(c, "scan_input_directions", plan.scanned_inputs, true));
  TCC_TRY(plan.output_directions, scan_list(c, "scan_output_directions", plan.scanned_outputs, true));
  TCC_TRY(plan.input_axes, scan_list(c, "scan_input_axes", plan.scanned_inputs, false));
  TCC_TRY(plan.output_axes, scan_list(c, "scan_output_axes", plan.scanned_outputs, false));
  Items results;
  TCC_TRY_VOID(scan_once(c, plan, c.items(), results));
  for (size_t k = 0; k < results.size(); ++k) c.set_output(k, results[k]);
  return {};
}

}  // namespace tcc::onnx
