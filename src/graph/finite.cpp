#include "tcc/graph/finite.h"

#include <algorithm>
#include <cmath>

#include "tcc/graph/integer_range.h"
#include "tcc/graph/scalar.h"

namespace tcc::graph {
namespace {

constexpr int kMaxNodes = 64;           // to follow for one question
constexpr double kFarFromLimit = 1e30;  // f32 ends at 3.4e38: sums of rounded numbers stay below

std::optional<double> limited(double magnitude) {
  return magnitude <= kFarFromLimit ? std::optional(magnitude) : std::nullopt;
}

std::optional<double> magnitude_of_constant(const Value& v) {
  double most = 0;
  for (double x : constant_doubles(*v.constant, v.dtype, v.elements())) {
    if (!std::isfinite(x)) return std::nullopt;
    most = std::max(most, std::fabs(x));
  }
  return limited(most);
}

std::optional<double> magnitude_of_type(DType dtype) {
  if (is_float(dtype) || is_wide_unsigned(dtype)) return std::nullopt;
  const IntegerRange range = integer_range(dtype);
  return std::max(-range.least, range.greatest);
}

class Bounds {
 public:
  explicit Bounds(const Graph& graph) : graph_(graph) {}

  std::optional<double> of(ValueId id) {
    const Value& v = graph_.value(id);
    if (v.dtype != DType::kF32 && v.dtype != DType::kF64) return std::nullopt;
    if (v.is_constant()) return magnitude_of_constant(v);
    if (v.producer == kNone || ++nodes_ > kMaxNodes) return std::nullopt;
    const Node& node = graph_.node(v.producer);
    if (node.op == Op::kCast) {
      const DType from = graph_.value(node.inputs[0]).dtype;
      return is_float(from) ? of(node.inputs[0]) : magnitude_of_type(from);
    }
    const std::optional<double> x = passes(node) ? of(node.inputs[0]) : std::nullopt;
    if (!x) return std::nullopt;
    switch (node.op) {
      case Op::kClip: {
        const auto& a = node.as<ClipAttrs>();
        const double low = std::clamp(-*x, a.min, a.max), high = std::clamp(*x, a.min, a.max);
        return limited(std::max(std::fabs(low), std::fabs(high)));
      }
      case Op::kLeakyRelu:
        return limited(*x * std::max(1.0, std::fabs(node.as<LeakyAttrs>().alpha)));
      case Op::kUnary:
        return limited(*x + 1);
      case Op::kAdd:
      case Op::kSub: {
        const std::optional<double> y = of(node.inputs[1]);
        return y ? limited((*x + *y) * 1.001) : std::nullopt;
      }
      case Op::kMul: {
        const std::optional<double> y = of(node.inputs[1]);
        return y ? limited(*x * *y * 1.001) : std::nullopt;
      }
      default:
        return x;
    }
  }

 private:
  // Operators that give numbers where they get numbers.
  static bool passes(const Node& node) {
    switch (node.op) {
      case Op::kUnary: {
        const UnaryFn fn = node.as<UnaryAttrs>().fn;
        return fn == UnaryFn::kRound || fn == UnaryFn::kFloor || fn == UnaryFn::kCeil || fn == UnaryFn::kAbs ||
               fn == UnaryFn::kNeg;
      }
      case Op::kRelu:
      case Op::kClip:
      case Op::kLeakyRelu:
      case Op::kAdd:
      case Op::kSub:
      case Op::kMul:
      case Op::kReshape:
      case Op::kTranspose:
      case Op::kSlice:
      case Op::kPart:
      case Op::kExpand:
        return true;
      default:
        return false;
    }
  }

  const Graph& graph_;
  int nodes_ = 0;
};

}  // namespace

std::optional<double> largest_magnitude(const Graph& graph, ValueId id) {
  return Bounds(graph).of(id);
}

bool limits_numbers(const Graph& graph, const Node& node) {
  if (graph.fast_math && node.op == Op::kBinary) return binary_domain(node.as<BinaryAttrs>().fn) == Domain::kExtremum;
  if (graph.fast_math && (node.op == Op::kClip || node.op == Op::kRelu)) return true;
  return (node.op == Op::kClip || node.op == Op::kRelu) && largest_magnitude(graph, node.inputs[0]).has_value();
}

}  // namespace tcc::graph
