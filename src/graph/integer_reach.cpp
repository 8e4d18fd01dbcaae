#include "integer_reach.h"

#include <algorithm>
#include <cmath>

namespace tcc::graph {
namespace {

// Of the magnitudes of a tensor's elements.
struct Magnitudes {
  double greatest = 0, sum = 0, product = 1;
};

Magnitudes magnitudes_of(const HostTensor& tensor) {
  Magnitudes m;
  for (const double v : tensor.data) {
    const double x = std::fabs(v);
    m.greatest = std::max(m.greatest, x);
    m.sum += x;
    m.product *= std::max(x, 1.0);
  }
  return m;
}

double reach_of_arithmetic(const Node& node, const std::vector<Magnitudes>& in) {
  if (op_class(node.op) == OpClass::kContraction) {
    double scale = 1, added = in.size() > 2 ? in[2].greatest : 0;
    if (const auto* gemm = std::get_if<GemmAttrs>(&node.attrs))
      scale = std::fabs(gemm->alpha), added *= std::fabs(gemm->beta);
    return scale * in[0].greatest * in[1].sum + added;
  }
  switch (node.op) {
    case Op::kAdd:
    case Op::kSub:
      return in[0].greatest + in[1].greatest;
    case Op::kMul:
      return in[0].greatest * in[1].greatest;
    case Op::kReduceSum:
    case Op::kFold:
      return in[0].sum;
    case Op::kReduceProd:
      return in[0].product;
    case Op::kScan:
      return node.as<ScanAttrs>().product ? in[0].product : in[0].sum;
    case Op::kScatter:
      switch (node.as<ScatterAttrs>().reduction) {
        case ScatterReduction::kAdd:
          return in[0].greatest + in[2].sum;
        case ScatterReduction::kMul:
          return in[0].greatest * in[2].product;
        default:
          return 0;
      }
    case Op::kBinary:
      switch (node.as<BinaryAttrs>().fn) {
        case BinaryFn::kPow:
          return std::pow(in[0].greatest, in[1].greatest);
        case BinaryFn::kShiftLeft:
          return in[0].greatest * std::exp2(std::min(in[1].greatest, 64.0));
        default:
          return 0;
      }
    default:
      return 0;
  }
}

}  // namespace

double integer_reach(const Graph& graph, const Node& node, const std::vector<const HostTensor*>& inputs) {
  const DType out = graph.value(node.output).dtype;
  const bool computes = !is_float(out) && out != DType::kBool;
  double reach = 0;
  std::vector<Magnitudes> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DType dtype = graph.value(node.inputs[i]).dtype;
    const bool wide = dtype == DType::kI64 || dtype == DType::kU64;
    in.push_back(wide || (computes && !is_float(dtype)) ? magnitudes_of(*inputs[i]) : Magnitudes{});
    if (wide) reach = std::max(reach, in.back().greatest);
  }
  return computes ? std::max(reach, reach_of_arithmetic(node, in)) : reach;
}

bool holds_wrapped(const std::vector<double>& out, DType dtype) {
  return dtype == DType::kU64 && std::any_of(out.begin(), out.end(), [](double v) { return v >= kExactIntegers; });
}

bool rounds_integers(const Graph& graph, const Node& node, const std::vector<const HostTensor*>& inputs,
                     const HostTensor& out) {
  const OpClass kind = op_class(node.op);
  if (kind == OpClass::kView || kind == OpClass::kMove || node.op == Op::kWhere) return false;
  return integer_reach(graph, node, inputs) >= kExactIntegers ||
         holds_wrapped(out.data, graph.value(node.output).dtype);
}

}  // namespace tcc::graph
