// What the operators of one element mean that graphs fuse behind others.
#include <algorithm>
#include <array>
#include <cmath>

#include "nest.h"
#include "tcc/support/check.h"

namespace tcc::task {

using namespace ir;
using graph::Op;

std::string GroupNest::elementwise_name(const graph::Node& node) const {
  switch (node.op) {
    case Op::kBatchNorm:
      return "batch_norm";
    case Op::kRelu:
      return "relu";
    case Op::kLeakyRelu:
      return "leaky_relu";
    case Op::kClip:
      return "clip";
    case Op::kSigmoid:
      return "sigmoid";
    case Op::kTanh:
      return "tanh";
    case Op::kAdd:
      if (node.id == group_.anchor) return "add";
      for (graph::ValueId id : node.inputs)
        if (value(id).is_constant()) return "bias";
      return "residual";
    case Op::kSub:
      return "sub";
    case Op::kMul:
      return "mul";
    case Op::kDiv:
      return "div";
    case Op::kConv:
    case Op::kGemm:
    case Op::kMatMul:
    case Op::kMaxPool:
    case Op::kAveragePool:
    case Op::kLrn:
    case Op::kReduceMean:
    case Op::kReduceMax:
    case Op::kReduceSum:
    case Op::kSoftmax:
    case Op::kReshape:
    case Op::kIdentity:
    case Op::kTranspose:
    case Op::kConcat:
    case Op::kPad:
    case Op::kReduceMin:
    case Op::kReduceProd:
    case Op::kUnary:
    case Op::kBinary:
    case Op::kWhere:
    case Op::kCast:
    case Op::kSlice:
    case Op::kExpand:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd:
    case Op::kLayerNorm:
      break;
  }
  TCC_UNREACHABLE("{} is not elementwise", graph::op_name(node.op));
}

void GroupNest::plan_elementwise(const graph::Node& node) {
  add_stage(elementwise_name(node), node, false, [this, &node](const std::string& name, const Tensor& out) {
    // The value made in this group comes first where the order does not matter: one task for x + y and y + x.
    graph::Node own = node;
    auto made_here = [&](graph::ValueId id) {
      return std::any_of(stages_.begin(), stages_.end(), [&](const Stage& stage) { return stage.result == id; });
    };
    if ((node.op == Op::kAdd || node.op == Op::kMul) && made_here(own.inputs[1]) && !made_here(own.inputs[0]))
      std::swap(own.inputs[0], own.inputs[1]);
    return map_nest(name, axes_of(out.shape), out,
                    [&](const Exprs& at) { return elementwise_value(own, at, out.shape); });
  });
}

Expr GroupNest::elementwise_value(const graph::Node& node, const Exprs& at, const graph::Shape& shape) {
  auto in = [&](size_t i) { return read_broadcast(operand(node.inputs[i]), at, shape); };
  auto channel = [&](size_t i) { return read(operand(node.inputs[i]), {at[1]}); };
  Expr x = in(0);
  switch (node.op) {
    // Comparisons rather than max and min: NaN stays NaN.
    case Op::kRelu:
      return b().select(b().lt(x, real(0)), real(0), x);
    case Op::kLeakyRelu:
      return b().select(b().lt(x, real(0)), b().mul(x, real(node.as<graph::LeakyAttrs>().alpha)), x);
    case Op::kClip: {
      const auto& a = node.as<graph::ClipAttrs>();
      if (is_float(compute_)) {
        Expr top = std::isinf(a.max) ? x : b().select(b().lt(real(a.max), x), real(a.max), x);
        return std::isinf(a.min) ? top : b().select(b().lt(x, real(a.min)), real(a.min), top);
      }
      // Bounds beyond the integer type change nothing.
      double least = -std::ldexp(1, static_cast<int>(8 * type_bytes(compute_)) - 1), most = -least - 1;
      if (compute_ == Type::kU8) least = 0, most = 255;
      Expr y = a.max < most ? b().min(x, real(std::floor(std::max(a.max, least)))) : x;
      return a.min > least ? b().max(y, real(std::ceil(std::min(a.min, most)))) : y;
    }
    case Op::kSigmoid:
      return call(Intrinsic::kSigmoid, x);
    case Op::kTanh:
      return call(Intrinsic::kTanh, x);
    case Op::kAdd:
      return b().add(x, in(1));
    case Op::kSub:
      return b().sub(x, in(1));
    case Op::kMul:
      return b().mul(x, in(1));
    case Op::kDiv:
      return b().div(x, in(1));
    case Op::kBatchNorm: {
      Expr deviation = call(Intrinsic::kSqrt, b().add(channel(4), real(node.as<graph::BatchNormAttrs>().epsilon)));
      Expr normal = b().div(b().sub(x, channel(3)), deviation);
      return b().add(b().mul(normal, channel(1)), channel(2));
    }
    case Op::kConv:
    case Op::kGemm:
    case Op::kMatMul:
    case Op::kMaxPool:
    case Op::kAveragePool:
    case Op::kLrn:
    case Op::kReduceMean:
    case Op::kReduceMax:
    case Op::kReduceSum:
    case Op::kSoftmax:
    case Op::kReshape:
    case Op::kIdentity:
    case Op::kTranspose:
    case Op::kConcat:
    case Op::kPad:
    case Op::kReduceMin:
    case Op::kReduceProd:
    case Op::kUnary:
    case Op::kBinary:
    case Op::kWhere:
    case Op::kCast:
    case Op::kSlice:
    case Op::kExpand:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd:
    case Op::kLayerNorm:
      break;
  }
  TCC_UNREACHABLE("{} is not elementwise", graph::op_name(node.op));
}

}  // namespace tcc::task
