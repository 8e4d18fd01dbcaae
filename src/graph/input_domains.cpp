#include "tcc/graph/input_domains.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tcc/support/rng.h"

namespace tcc::graph {
namespace {

// The operator only moves elements of its input `operand`, or makes none of them larger or smaller than all were.
bool moves(const Node& node, size_t operand) {
  switch (node.op) {
    case Op::kReshape:
    case Op::kIdentity:
    case Op::kTranspose:
    case Op::kConcat:
    case Op::kPad:
    case Op::kSlice:
    case Op::kExpand:
    case Op::kMaxPool:
    case Op::kAveragePool:
    case Op::kReduceMean:
    case Op::kReduceMax:
    case Op::kReduceMin:
    case Op::kCast:
      return true;
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd:
      return operand == 0;
    case Op::kWhere:
      return operand > 0;
    case Op::kScatter:
      return operand != 1;
    default:
      return false;
  }
}

InputDomain between(double low, double high) {
  return {.low = low, .high = high};
}

InputDomain domain_of_unary(UnaryFn fn) {
  switch (fn) {
    case UnaryFn::kLog:
    case UnaryFn::kReciprocal:
      return between(0.25, 4);
    case UnaryFn::kSqrt:
      return between(0, 4);
    case UnaryFn::kAsin:
    case UnaryFn::kAcos:
    case UnaryFn::kAtanh:
      return between(-0.9375, 0.9375);
    case UnaryFn::kAcosh:
      return between(1.0625, 4);
    case UnaryFn::kTan:
      return between(-1.25, 1.25);
    case UnaryFn::kIsNan:
    case UnaryFn::kIsInf:
      return {.special = true};
    default:
      return {};
  }
}

InputDomain domain_of_binary(BinaryFn fn, size_t operand) {
  switch (fn) {
    case BinaryFn::kPow:
      return operand == 0 ? between(0.25, 4) : InputDomain{};
    case BinaryFn::kMod:
    case BinaryFn::kFMod:
      return operand == 1 ? between(1, 8) : InputDomain{};
    case BinaryFn::kEqual:
    case BinaryFn::kLess:
    case BinaryFn::kLessOrEqual:
    case BinaryFn::kGreater:
    case BinaryFn::kGreaterOrEqual:
      return {.low = 0, .high = 3, .whole = true};
    default:
      return {};
  }
}

// What `node` needs of its input number `operand`.
InputDomain needed(const Graph& graph, const Node& node, size_t operand) {
  auto below = [&](int64_t extent) { return between(0, static_cast<double>(std::max<int64_t>(extent, 1) - 1)); };
  const Shape& data = graph.value(node.inputs[0]).shape;
  switch (node.op) {
    case Op::kUnary:
      return domain_of_unary(node.as<UnaryAttrs>().fn);
    case Op::kBinary:
      return domain_of_binary(node.as<BinaryAttrs>().fn, operand);
    case Op::kDiv:
      return operand == 1 ? between(1, 4) : InputDomain{};
    case Op::kBatchNorm:
      return operand == 4 ? between(0.25, 4) : InputDomain{};
    case Op::kReduceProd:
      return between(0.875, 1.125);
    case Op::kGather:
    case Op::kGatherElements:
      return operand == 1 ? below(data[static_cast<size_t>(node.as<AxisAttrs>().axis)]) : InputDomain{};
    case Op::kScatter: {
      if (operand != 1) return {};
      const int64_t axis = node.as<ScatterAttrs>().axis;
      if (axis >= 0) return below(data[static_cast<size_t>(axis)]);
      const auto depth = static_cast<size_t>(graph.value(node.inputs[1]).shape.back());
      return below(*std::min_element(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(depth)));
    }
    case Op::kGatherNd: {
      if (operand != 1) return {};
      const auto batch = static_cast<size_t>(node.as<GatherNdAttrs>().batch_dims);
      const auto depth = static_cast<size_t>(graph.value(node.inputs[1]).shape.back());
      int64_t smallest = std::numeric_limits<int64_t>::max();
      for (size_t i = 0; i < depth; ++i) smallest = std::min(smallest, data[batch + i]);
      return below(depth == 0 ? 1 : smallest);
    }
    default:
      return {};
  }
}

void restrict_to(InputDomain& domain, const InputDomain& other) {
  InputDomain both = domain;
  if (other.low) both.low = std::max(both.low.value_or(*other.low), *other.low);
  if (other.high) both.high = std::min(both.high.value_or(*other.high), *other.high);
  if (both.low && both.high && *both.low > *both.high) return;  // no value serves both
  both.whole = domain.whole || other.whole;
  both.special = domain.special || other.special;
  domain = both;
}

}  // namespace

std::vector<InputDomain> input_domains(const Graph& graph) {
  // Against the order, so that what is behind a move is known when the move is reached.
  std::vector<InputDomain> domains(graph.values.size());
  for (auto id = graph.order.rbegin(); id != graph.order.rend(); ++id) {
    const Node& node = graph.node(*id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      InputDomain& domain = domains[static_cast<size_t>(node.inputs[i])];
      restrict_to(domain, needed(graph, node, i));
      if (moves(node, i)) restrict_to(domain, domains[static_cast<size_t>(node.output)]);
    }
  }
  std::vector<InputDomain> of_inputs;
  for (ValueId id : graph.inputs) of_inputs.push_back(domains[static_cast<size_t>(id)]);
  return of_inputs;
}

HostTensor random_tensor(const Value& value, uint64_t seed, const InputDomain& domain) {
  HostTensor tensor = random_tensor(value, seed);
  if (value.dtype == DType::kBool) return tensor;
  Rng rng = Rng(seed).fork(1);
  const bool real = is_float(value.dtype);
  if (domain.low || domain.high) {
    const double low = domain.low.value_or(*domain.high - 8), high = domain.high.value_or(low + 8);
    for (double& x : tensor.data) {
      if (real && !domain.whole) {
        x = low + (high - low) * rng.uniform();
        continue;
      }
      const double first = std::ceil(low), last = std::max(std::floor(high), first);
      x = first + static_cast<double>(rng.below(static_cast<int64_t>(last - first) + 1));
    }
  }
  if (domain.special && real) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double special[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};
    for (double& x : tensor.data)
      if (rng.below(8) == 0) x = special[rng.below(3)];
  }
  const Constant rounded = make_constant_from_doubles(value.dtype, tensor.data);
  tensor.data = constant_doubles(rounded, value.dtype, value.elements());
  return tensor;
}

}  // namespace tcc::graph
