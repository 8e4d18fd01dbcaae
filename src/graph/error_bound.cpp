#include "tcc/graph/error_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "graph/error_of_node.h"
#include "graph/integer_reach.h"
#include "graph/passes_internal.h"
#include "tcc/support/rng.h"

namespace tcc::graph {
namespace {

using Doubles = std::vector<double>;
using Operands = std::vector<const HostTensor*>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSpread = 6;  // times the deviation of the second run
// One run of random errors says little of a tensor of few elements: errors may cancel in all of them. Graphs that cost
// little run several times, each with errors of its own, and the greatest bound counts.
constexpr int kManyRuns = 8;
constexpr double kFewOperations = 5e6;

// A value of the two runs.
struct Tracked {
  HostTensor exact;
  Doubles moved;    // by random errors; empty: no operator before it rounds
  Doubles allowed;  // of the operator that made it
  Doubles carried;  // deviation of the second run before that operator's own error; empty: none
  int64_t terms = 1;
  bool unsure = false;  // as in BoundedTensor
};

Operands exact_of(const std::vector<const Tracked*>& inputs) {
  Operands operands;
  for (const Tracked* input : inputs) operands.push_back(&input->exact);
  return operands;
}

class BoundedRun {
 public:
  BoundedRun(const Graph& graph, const RoundingModel& model, ThreadPool& pool, const ReferenceProgress& progress)
      : graph_(graph),
        model_(model),
        pool_(pool),
        meter_(bounded_reference_cost(graph).flops, progress),
        consumers_(find_consumers(graph)) {}

  Tracked run(const Node& node, const std::vector<const Tracked*>& inputs) {
    Tracked out;
    out.exact = run_node(graph_, node, exact_of(inputs), pool_, &meter_);
    const bool is_moved = std::any_of(inputs.begin(), inputs.end(), [](const Tracked* t) { return !t->moved.empty(); });
    if (is_moved) carry(node, inputs, out);
    out.unsure = rounds_integers(graph_, node, exact_of(inputs), out.exact) ||
                 std::any_of(inputs.begin(), inputs.end(), [](const Tracked* t) { return t->unsure; });
    LocalError local =
        error_of_node(graph_, node, exact_of(inputs), out.exact, model_, pool_, meter_, is_scaled_later(node));
    done_ += kRunsOfNode * node_flops(graph_, node);
    meter_.set(done_);
    out.allowed = std::move(local.allowed);
    out.terms = local.terms;
    const bool rounds = std::any_of(local.typical.begin(), local.typical.end(), [](double e) { return e > 0; });
    if (!rounds) return out;
    if (out.moved.empty()) out.moved = out.exact.data;
    Rng rng = Rng(model_.seed).fork(static_cast<uint64_t>(node.id));
    for (size_t i = 0; i < out.moved.size(); ++i) {
      const double size = 0.5 + 0.5 * rng.uniform();
      out.moved[i] += (rng.below(2) == 0 ? -size : size) * local.typical[i];
    }
    return out;
  }
  void finish() { meter_.finish(); }

 private:
  // The second run of the node.
  void carry(const Node& node, const std::vector<const Tracked*>& inputs, Tracked& out) {
    std::vector<HostTensor> moved;
    moved.reserve(inputs.size());
    Operands operands;
    for (const Tracked* input : inputs) {
      if (input->moved.empty()) {
        operands.push_back(&input->exact);
        continue;
      }
      moved.push_back({input->exact.shape, input->moved});
      operands.push_back(&moved.back());
    }
    out.moved = run_node(graph_, node, operands, pool_, &meter_).data;
    out.carried.resize(out.moved.size());
    for (size_t i = 0; i < out.moved.size(); ++i) {
      const double a = out.exact.data[i], b = out.moved[i];
      const bool same = a == b || (std::isnan(a) && std::isnan(b));
      out.carried[i] = same ? 0 : std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) : kInfinity;
      if (out.carried[i] == kInfinity) out.moved[i] = a;  // and nothing more is learned of what follows
    }
  }

  bool is_scaled_later(const Node& node) const {
    const std::vector<NodeId>& readers = consumers_[static_cast<size_t>(node.output)];
    return std::any_of(readers.begin(), readers.end(), [&](NodeId id) {
      const Op op = graph_.node(id).op;
      return op == Op::kBatchNorm || op == Op::kMul || op == Op::kDiv;
    });
  }

  const Graph& graph_;
  const RoundingModel& model_;
  ThreadPool& pool_;
  WorkMeter meter_;
  double done_ = 0;  // operations of the nodes that are done
  std::vector<std::vector<NodeId>> consumers_;
};

BoundedTensor bounded(Tracked value, bool is_float) {
  BoundedTensor out{std::move(value.exact), std::move(value.allowed), value.terms, 0, value.unsure};
  out.allowed.resize(out.value.data.size(), 0);
  double squares = 0, count = 0, moved = 0;
  for (double d : value.carried) {
    if (d == kInfinity) continue;
    squares += d * d;
    ++count;
    moved += d > 0 ? 1 : 0;
    out.may_flip += d > 0 ? 1 : 0;
  }
  if (is_float) out.may_flip = 0;
  // Elements that are copied, such as a cache beside its new row, say nothing of those that are computed.
  const double over_all = count > 0 ? std::sqrt(squares / count) : 0;
  const double of_moved = moved > 0 ? std::sqrt(squares / moved) : 0;
  for (size_t i = 0; i < value.carried.size() && is_float; ++i)
    if (value.carried[i] == kInfinity)
      out.allowed[i] = kInfinity;  // whatever the operator's own bound is, which may be that of an infinite number
    else
      out.allowed[i] += kSpread * std::max(value.carried[i], value.carried[i] > 0 ? of_moved : over_all);
  return out;
}

std::vector<BoundedTensor> run_once(const Graph& graph, const std::vector<HostTensor>& inputs,
                                    const RoundingModel& model, ThreadPool& pool, const ReferenceProgress& progress) {
  BoundedRun bounded_run(graph, model, pool, progress);
  std::vector<Tracked> given;
  for (const HostTensor& input : inputs) given.push_back({.exact = input});
  std::vector<Tracked> made = run_in_order<Tracked>(
      graph, std::move(given), [](const Value& value) { return Tracked{.exact = host_constant(value)}; },
      [&](const Node& node, const std::vector<const Tracked*>& operands) { return bounded_run.run(node, operands); });
  bounded_run.finish();
  std::vector<BoundedTensor> outputs;
  for (size_t i = 0; i < made.size(); ++i)
    outputs.push_back(bounded(std::move(made[i]), is_float(graph.value(graph.outputs[i]).dtype)));
  return outputs;
}

// The bounds that hold for both runs.
void widen(std::vector<BoundedTensor>& outputs, const std::vector<BoundedTensor>& others) {
  for (size_t o = 0; o < outputs.size(); ++o) {
    outputs[o].may_flip = std::max(outputs[o].may_flip, others[o].may_flip);
    for (size_t i = 0; i < outputs[o].allowed.size(); ++i)
      if (const double other = others[o].allowed[i]; other > outputs[o].allowed[i] || other == kInfinity)
        outputs[o].allowed[i] = other;
  }
}

}  // namespace

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::ldexp(1.0, -53);
    case DType::kF32:
      return std::ldexp(1.0, -24);
    case DType::kF16:
      return std::ldexp(1.0, -11);
    case DType::kBF16:
      return std::ldexp(1.0, -8);
    default:
      return 0;
  }
}

double smallest_normal(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::ldexp(1.0, -1022);
    case DType::kF32:
    case DType::kBF16:
      return std::ldexp(1.0, -126);
    case DType::kF16:
      return std::ldexp(1.0, -14);
    default:
      return 0;
  }
}

ReferenceCost bounded_reference_cost(const Graph& graph) {
  constexpr double kOfValue = 4, kOfOperand = 2;  // tensors of doubles: those of Tracked; copies while a node runs
  ReferenceCost cost;
  std::vector<int64_t> uses(graph.values.size(), 0);
  for (NodeId id : graph.order)
    for (ValueId input : graph.node(id).inputs) ++uses[static_cast<size_t>(input)];
  for (ValueId id : graph.outputs) ++uses[static_cast<size_t>(id)];
  const auto bytes_of = [&](ValueId id) { return static_cast<double>(graph.value(id).elements() * sizeof(double)); };
  std::vector<double> live(graph.values.size(), 0);
  double all = 0;
  const auto hold = [&](ValueId id, double tensors) {
    double& bytes = live[static_cast<size_t>(id)];
    if (bytes > 0) return;
    bytes = tensors * bytes_of(id);
    all += bytes;
  };
  for (ValueId id : graph.inputs) hold(id, 2);  // the caller has one, too
  for (NodeId id : graph.order) {
    const Node& node = graph.node(id);
    cost.flops += kRunsOfNode * node_flops(graph, node);
    double copies = 0;
    for (ValueId input : node.inputs) {
      hold(input, 1);
      copies += kOfOperand * bytes_of(input);
    }
    hold(node.output, kOfValue);
    cost.bytes = std::max(cost.bytes, all + copies);
    for (ValueId input : node.inputs)
      if (--uses[static_cast<size_t>(input)] == 0) all -= std::exchange(live[static_cast<size_t>(input)], 0);
  }
  return cost;
}

Result<std::vector<BoundedTensor>> run_bounded_reference(const Graph& graph, const std::vector<HostTensor>& inputs,
                                                         const RoundingModel& model, int threads,
                                                         const ReferenceProgress& progress) {
  TCC_TRY_VOID(check_inputs(graph, inputs));
  ThreadPool pool(threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  std::vector<BoundedTensor> outputs = run_once(graph, inputs, model, pool, progress);
  const int runs = bounded_reference_cost(graph).flops <= kFewOperations ? kManyRuns : 1;
  for (int run = 1; run < runs; ++run) {
    RoundingModel other = model;
    other.seed = Rng(model.seed).fork(static_cast<uint64_t>(run)).next();
    widen(outputs, run_once(graph, inputs, other, pool, nullptr));
  }
  return outputs;
}

}  // namespace tcc::graph
