// Constants folded exactly: integer arithmetic, and the operators that only move bytes.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "integer_reach.h"
#include "passes_internal.h"
#include "tcc/support/check.h"

namespace tcc::graph {
namespace {

constexpr int64_t kAlwaysFold = int64_t{1} << 20;
constexpr int64_t kNeverFold = int64_t{1} << 31;

// Wraps around, as kernels do. A shape that came of it is refused where it is one.
Result<int64_t> apply(Op op, int64_t a, int64_t b, DType dtype) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case Op::kAdd:
      return static_cast<int64_t>(x + y);
    case Op::kSub:
      return static_cast<int64_t>(x - y);
    case Op::kMul:
      return static_cast<int64_t>(x * y);
    case Op::kDiv:
      if (b == 0) return input_error("integer division by zero");
      if (dtype == DType::kU64) return static_cast<int64_t>(x / y);
      return b == -1 ? static_cast<int64_t>(0 - x) : a / b;
    default:
      TCC_UNREACHABLE();
  }
}

void store_integer(std::byte* at, DType dtype, int64_t value) {
  // Two's complement little endian: the low bytes are the narrow integer.
  std::memcpy(at, &value, static_cast<size_t>(dtype_size(dtype)));
}

Result<Constant> integer_binary(const Graph& graph, const Node& node) {
  const Value& a = graph.value(node.inputs[0]);
  const Value& b = graph.value(node.inputs[1]);
  const Value& out = graph.value(node.output);
  std::vector<int64_t> x = constant_integers(*a.constant, a.dtype, a.elements());
  std::vector<int64_t> y = constant_integers(*b.constant, b.dtype, b.elements());
  std::vector<int64_t> sa = broadcast_strides(a.shape, out.shape), sb = broadcast_strides(b.shape, out.shape);
  std::vector<std::byte> bytes(static_cast<size_t>(out.bytes()));
  IndexWalk walk(out.shape);
  for (int64_t i = 0; i < out.elements(); ++i, walk.next()) {
    TCC_TRY(int64_t r, apply(node.op, x[static_cast<size_t>(walk.offset(sa))], y[static_cast<size_t>(walk.offset(sb))],
                             out.dtype));
    store_integer(bytes.data() + i * dtype_size(out.dtype), out.dtype, r);
  }
  return make_constant(std::move(bytes));
}

Constant transpose(const Graph& graph, const Node& node) {
  const Value& in = graph.value(node.inputs[0]);
  const Value& out = graph.value(node.output);
  if (in.constant->splat) return *in.constant;
  const std::vector<int64_t> dense = dense_strides(in.shape);
  std::vector<int64_t> strides;
  for (int64_t axis : node.as<TransposeAttrs>().perm) strides.push_back(dense[static_cast<size_t>(axis)]);
  auto size = static_cast<size_t>(dtype_size(in.dtype));
  std::vector<std::byte> bytes(static_cast<size_t>(out.bytes()));
  IndexWalk walk(out.shape);
  for (int64_t i = 0; i < out.elements(); ++i, walk.next()) {
    std::memcpy(bytes.data() + static_cast<size_t>(i) * size,
                in.constant->bytes.data() + static_cast<size_t>(walk.offset(strides)) * size, size);
  }
  return make_constant(std::move(bytes));
}

Constant concat(const Graph& graph, const Node& node) {
  const Value& out = graph.value(node.output);
  auto axis = static_cast<size_t>(node.as<AxisAttrs>().axis);
  int64_t outer = element_count(Shape(out.shape.begin(), out.shape.begin() + static_cast<int64_t>(axis)));
  int64_t size = dtype_size(out.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(out.bytes()));
  int64_t row = outer == 0 ? 0 : out.bytes() / outer;
  int64_t at = 0;
  for (ValueId id : node.inputs) {
    const Value& in = graph.value(id);
    if (in.elements() == 0) continue;
    std::vector<std::byte> storage;
    auto data = dense_bytes(*in.constant, in.dtype, in.elements(), storage);
    int64_t part = outer == 0 ? 0 : in.elements() / outer * size;
    for (int64_t o = 0; o < outer && part > 0; ++o) {
      std::memcpy(bytes.data() + o * row + at, data.data() + o * part, static_cast<size_t>(part));
    }
    at += part;
  }
  return make_constant(std::move(bytes));
}

}  // namespace

std::vector<int64_t> broadcast_strides(const Shape& shape, const Shape& onto) {
  std::vector<int64_t> strides(onto.size(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t extent = shape[shape.size() - 1 - i];
    if (extent != 1) strides[onto.size() - 1 - i] = stride;
    stride *= extent;
  }
  return strides;
}

namespace {

// Moves elements by evaluating the operator on their positions: exact whatever the type.
Result<Constant> move_bytes(const Graph& graph, const Node& node) {
  const Value &in = graph.value(node.inputs[0]), &out = graph.value(node.output);
  if (in.constant->splat) return *in.constant;
  HostTensor positions{in.shape, std::vector<double>(static_cast<size_t>(in.elements()))};
  std::iota(positions.data.begin(), positions.data.end(), 0.0);
  std::vector<const HostTensor*> inputs{&positions};
  HostTensor indices;
  if (node.inputs.size() == 2) {
    const Value& v = graph.value(node.inputs[1]);
    indices = {v.shape, constant_doubles(*v.constant, v.dtype, v.elements())};
    inputs.push_back(&indices);
  }
  ThreadPool pool(1);
  const HostTensor from = run_node(graph, node, inputs, pool);
  auto size = static_cast<size_t>(dtype_size(out.dtype));
  std::vector<std::byte> bytes(static_cast<size_t>(out.bytes()));
  for (size_t i = 0; i < from.data.size(); ++i)
    std::memcpy(bytes.data() + i * size, in.constant->bytes.data() + static_cast<size_t>(from.data[i]) * size, size);
  return make_constant(std::move(bytes));
}

bool moves_bytes(Op op) {
  return op == Op::kSlice || op == Op::kExpand || op == Op::kGather || op == Op::kGatherElements || op == Op::kGatherNd;
}

}  // namespace

// Values without elements are known before the model runs.
bool is_known(const Value& value) {
  return value.is_constant() || value.elements() == 0;
}

bool worth_folding(const Graph& graph, const Node& node) {
  int64_t bytes = graph.value(node.output).bytes();
  int64_t source = 0;
  std::set<ValueId> distinct(node.inputs.begin(), node.inputs.end());
  for (ValueId id : distinct)
    if (graph.value(id).is_constant()) source += static_cast<int64_t>(graph.value(id).constant->bytes.size());
  return bytes <= kAlwaysFold || (bytes <= 2 * source && bytes <= kNeverFold);
}

Result<std::optional<Constant>> evaluate_exactly(const Graph& graph, const Node& node) {
  if (graph.value(node.output).elements() == 0) return make_constant({});
  for (ValueId id : node.inputs) {
    if (!is_known(graph.value(id))) return std::nullopt;
  }
  const Value& in = graph.value(node.inputs[0]);
  if (node.op == Op::kReshape || node.op == Op::kIdentity) return in.constant;
  bool binary = node.op == Op::kAdd || node.op == Op::kSub || node.op == Op::kMul || node.op == Op::kDiv;
  if (!(binary && !is_float(in.dtype)) && node.op != Op::kTranspose && node.op != Op::kConcat &&
      !moves_bytes(node.op)) {
    return std::nullopt;
  }
  if (!worth_folding(graph, node)) return std::nullopt;
  if (moves_bytes(node.op)) return move_bytes(graph, node);
  if (node.op == Op::kTranspose) return transpose(graph, node);
  if (node.op == Op::kConcat) return concat(graph, node);
  TCC_TRY(Constant result, integer_binary(graph, node));
  return result;
}

namespace {

// Integers that double would round are left to run time.
bool stays_exact(const Graph& graph, const Node& node) {
  const auto is_integer = [&](ValueId id) { return !is_float(graph.value(id).dtype); };
  if (std::none_of(node.inputs.begin(), node.inputs.end(), is_integer)) return true;
  std::vector<HostTensor> inputs;
  std::vector<const HostTensor*> pointers;
  for (ValueId id : node.inputs) inputs.push_back(is_integer(id) ? host_constant(graph.value(id)) : HostTensor{});
  for (const HostTensor& input : inputs) pointers.push_back(&input);
  return integer_reach(graph, node, pointers) < kExactIntegers;
}

}  // namespace

Result<std::optional<Constant>> evaluate_constant(const Graph& graph, const Node& node, Evaluator* evaluator) {
  TCC_TRY(std::optional<Constant> result, evaluate_exactly(graph, node));
  if (result || evaluator == nullptr) return result;
  for (ValueId id : node.inputs) {
    if (!is_known(graph.value(id))) return result;
  }
  if (!worth_folding(graph, node) || !stays_exact(graph, node)) return result;
  TCC_TRY(result, evaluator->evaluate(graph, node));
  const Value& out = graph.value(node.output);
  if (holds_wrapped(constant_doubles(*result, out.dtype, out.elements()), out.dtype)) result.reset();
  return result;
}

Result<void> fold_constants(Graph& graph, Evaluator* evaluator) {
  std::vector<NodeId> order = std::move(graph.order);
  graph.order.clear();
  int64_t folded = 0;
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    bool constant = std::all_of(node.inputs.begin(), node.inputs.end(),
                                [&](ValueId input) { return is_known(graph.value(input)); });
    constant = constant || graph.value(node.output).elements() == 0;
    std::optional<Constant> result;
    if (constant && folded <= kNeverFold) {
      auto evaluated = evaluate_constant(graph, node, evaluator);
      if (!evaluated) return tl::make_unexpected(std::move(evaluated.error()).with_context(sanitize(node.name)));
      result = *evaluated;
    }
    if (!result) {
      graph.order.push_back(id);
      continue;
    }
    Value& output = graph.value(node.output);
    const Value& first = graph.value(node.inputs[0]);
    const bool shared = first.is_constant() && result->owner == first.constant->owner;
    if (!result->splat && !shared) folded += output.bytes();
    output.constant = std::move(result);
    output.producer = kNone;
  }
  return {};
}

}  // namespace tcc::graph
