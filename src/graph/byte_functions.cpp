#include "tcc/graph/byte_functions.h"

#include <algorithm>
#include <map>

#include "passes_internal.h"
#include "rewrite.h"

namespace tcc::graph {
namespace {

constexpr int64_t kBytes = 256;           // of a table
constexpr int64_t kLeastElements = 4096;  // that are looked up
constexpr size_t kMostNodes = 64;
// In operations of a vector, for each of which a table is 64 bytes ahead.
constexpr double kLeastCost = 5, kFunctionCost = 16;

// The nodes between a tensor of bytes and one that is computed from it alone.
struct ByteFunction {
  ValueId from = kNone;
  std::vector<NodeId> nodes;  // each behind those that it reads
};

double cost_of(const Node& node) {
  if (node.op == Op::kCast) return 0;
  if (node.op == Op::kSigmoid || node.op == Op::kTanh) return kFunctionCost;
  return node.op == Op::kUnary ? unary_reads(node.as<UnaryAttrs>().fn) : 1;
}

class Finder {
 public:
  Finder(const Graph& graph, const std::vector<int64_t>& readers) : graph_(graph), readers_(readers) {}

  // nullopt: the node gives no bytes, or what it gives depends on more than one byte, or a table does not pay.
  std::optional<ByteFunction> find(const Node& end) {
    const Value& out = graph_.value(end.output);
    if (!is_byte(out.dtype) || out.elements() < kLeastElements) return std::nullopt;
    shape_ = &out.shape;
    if (!visit(end) || found_.from == kNone) return std::nullopt;
    double cost = 0;
    for (NodeId id : found_.nodes) {
      const Node& node = graph_.node(id);
      cost += cost_of(node);
      if (id != end.id && readers_[static_cast<size_t>(node.output)] != uses_[node.output]) return std::nullopt;
    }
    return cost >= kLeastCost ? std::optional(std::move(found_)) : std::nullopt;
  }

 private:
  bool visit(const Node& node) {
    if (std::find(found_.nodes.begin(), found_.nodes.end(), node.id) != found_.nodes.end()) return true;
    if (op_class(node.op) != OpClass::kElementwise || node.op == Op::kBatchNorm || found_.nodes.size() >= kMostNodes)
      return false;
    for (ValueId id : node.inputs) {
      if (id == kNone) continue;
      const Value& value = graph_.value(id);
      if (value.is_constant()) {
        if (value.elements() != 1) return false;
        continue;
      }
      if (value.shape != *shape_) return false;
      if (is_byte(value.dtype)) {
        if (found_.from != kNone && found_.from != id) return false;
        found_.from = id;
        continue;
      }
      ++uses_[id];
      if (value.producer == kNone || !visit(graph_.node(value.producer))) return false;
    }
    found_.nodes.push_back(node.id);
    return true;
  }

  const Graph& graph_;
  const std::vector<int64_t>& readers_;
  const Shape* shape_ = nullptr;
  ByteFunction found_;
  std::map<ValueId, int64_t> uses_;  // of values on the way, by nodes on the way
};

// The function of all bytes, in the order of their bits; nothing where the evaluator does not know one.
Result<std::optional<Constant>> table_of(const Graph& graph, const ByteFunction& f, Evaluator& evaluator) {
  Graph small;
  const DType from = graph.value(f.from).dtype;
  std::vector<double> bytes(static_cast<size_t>(kBytes));
  for (int64_t i = 0; i < kBytes; ++i)
    bytes[static_cast<size_t>(i)] = static_cast<double>(from == DType::kI8 && i >= kBytes / 2 ? i - kBytes : i);
  std::map<ValueId, ValueId> made{
      {f.from, small.add_constant("x", from, {kBytes}, make_constant_from_doubles(from, bytes))}};
  std::optional<Constant> last;
  for (NodeId id : f.nodes) {
    const Node& node = graph.node(id);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) {
      if (input != kNone && !made.contains(input)) {
        const Value& v = graph.value(input);
        made[input] = small.add_constant(v.name, v.dtype, {}, *v.constant);
      }
      inputs.push_back(input == kNone ? kNone : made[input]);
    }
    const ValueId out = emit_node(small, node.op, node.attrs, inputs, std::string(node.name));
    TCC_TRY(last, evaluate_constant(small, small.node(small.value(out).producer), &evaluator));
    if (!last) return last;
    const Value v = small.value(out);
    made[node.output] = small.add_constant(v.name, v.dtype, v.shape, *last);
  }
  return last;
}

}  // namespace

Result<int64_t> tabulate_byte_functions(Graph& graph, Evaluator& evaluator) {
  const std::vector<int64_t> readers = count_readers(graph);
  int64_t count = 0;
  std::optional<Error> failure;
  rewrite_nodes(graph, [&](Graph& g, const Node& node) -> std::optional<ValueId> {
    const std::optional<ByteFunction> f = failure ? std::nullopt : Finder(g, readers).find(node);
    if (!f) return std::nullopt;
    auto table = table_of(g, *f, evaluator);
    if (!table) failure = std::move(table.error());
    if (failure || !*table) return std::nullopt;
    ++count;
    const DType dtype = g.value(node.output).dtype;
    const ValueId bytes = g.add_constant("table", dtype, {kBytes}, **table);
    return emit_node(g, Op::kGather, AxisAttrs{0}, {bytes, f->from}, node);
  });
  if (failure) return tl::make_unexpected(std::move(*failure));
  remove_dead_nodes(graph);
  return count;
}

}  // namespace tcc::graph
