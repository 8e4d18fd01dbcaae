// Gathers whose indices are known and form runs: slices, which need no table of indices and may be parts of a tensor.
#include "passes_internal.h"
#include "rewrite.h"

namespace tcc::graph {
namespace {

// Indices start, start + step, ...
struct Run {
  int64_t start, step, count;
};

// More runs are not worth copies of their own. Padding by mirrored or repeated elements has three.
constexpr size_t kMaxRuns = 4;

// Empty: there are more runs than kMaxRuns.
std::vector<Run> runs_of(const std::vector<int64_t>& indices) {
  std::vector<Run> runs;
  for (int64_t index : indices) {
    if (!runs.empty()) {
      Run& last = runs.back();
      const int64_t step = index - last.start;
      if (last.count == 1 && (runs.size() == 1 || std::abs(step) <= 1)) last.step = step;
      if (last.start + last.count * last.step == index) {
        ++last.count;
        continue;
      }
    }
    if (runs.size() == kMaxRuns) return {};
    runs.push_back({index, 1, 1});
  }
  // An index where two runs meet belongs to either. The longer one may then be the whole axis.
  for (size_t i = 1; i < runs.size(); ++i) {
    Run &before = runs[i - 1], &run = runs[i];
    const int64_t last = before.start + (before.count - 1) * before.step;
    if (before.count < 2 || run.count <= before.count || last + run.step != run.start) continue;
    --before.count;
    run = {last, run.step, run.count + 1};
  }
  return runs;
}

ValueId emit_run(Graph& graph, ValueId x, size_t axis, const Run& run, const Node& gather) {
  const Shape shape = graph.value(x).shape;
  const bool repeats = run.step == 0 && run.count > 1;
  SliceAttrs slice{std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.size(), 1), shape};
  slice.starts[axis] = run.start;
  slice.steps[axis] = repeats || run.count == 1 ? 1 : run.step;
  slice.extents[axis] = repeats ? 1 : run.count;
  x = emit_node(graph, Op::kSlice, slice, {x}, gather);
  if (!repeats) return x;
  Shape wide = shape;
  wide[axis] = run.count;
  return emit_node(graph, Op::kExpand, ReshapeAttrs{wide}, {x}, gather);
}

// nullopt: the node stays as it is.
std::optional<ValueId> emit_runs(Graph& graph, const Node& gather) {
  if (gather.op != Op::kGather) return std::nullopt;
  const Value& indices = graph.value(gather.inputs[1]);
  const Shape shape = graph.value(gather.inputs[0]).shape, out = graph.value(gather.output).shape;
  const auto axis = static_cast<size_t>(gather.as<AxisAttrs>().axis);
  if (!indices.is_constant() || indices.shape.size() > 1 || graph.value(gather.output).elements() == 0)
    return std::nullopt;
  std::vector<int64_t> at = constant_integers(*indices.constant, indices.dtype, indices.elements());
  for (int64_t& index : at) index += index < 0 ? shape[axis] : 0;
  const std::vector<Run> runs = runs_of(at);
  // A row of several runs is read by vectors once each run is a copy. Other axes choose whole rows by the table.
  if (runs.empty() || (runs.size() > 1 && axis + 1 < shape.size())) return std::nullopt;
  std::vector<ValueId> parts;
  for (const Run& run : runs) parts.push_back(emit_run(graph, gather.inputs[0], axis, run, gather));
  ValueId made = parts[0];
  if (parts.size() > 1) made = emit_node(graph, Op::kConcat, AxisAttrs{static_cast<int64_t>(axis)}, parts, gather);
  return out == graph.value(made).shape ? made : emit_node(graph, Op::kReshape, ReshapeAttrs{out}, {made}, gather);
}

}  // namespace

void slice_gathers(Graph& graph) {
  rewrite_nodes(graph, emit_runs);
}

}  // namespace tcc::graph
