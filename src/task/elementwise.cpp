// Loops of the operators of one element.
#include <algorithm>
#include <cmath>
#include <utility>

#include "nest.h"
#include "scalar_functions.h"
#include "tcc/graph/finite.h"
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
    default:
      return lower_name(node);
  }
}

void GroupNest::plan_elementwise(const graph::Node& node) {
  if (rounds_weights(node)) {
    // They are an operand of the product, whose schedule rounds them where its instructions want that.
    stages_.back().result = node.output;
    return;
  }
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
  auto in = [&](size_t i) { return read_own(node.inputs[i], at, shape); };
  auto channel = [&](size_t i) { return read(operand(node.inputs[i]), {at[1]}); };
  Expr x = in(0);
  switch (node.op) {
    case Op::kRelu:
      if (!graph::limits_numbers(graph_, node)) break;
      return b().max(x, b().constant(0, x->type));
    case Op::kClip: {
      if (is_float(compute_)) {
        if (!graph::limits_numbers(graph_, node)) break;
        const auto& limits = node.as<graph::ClipAttrs>();
        if (!std::isinf(limits.min)) x = b().max(x, b().constant(limits.min, x->type));
        return std::isinf(limits.max) ? x : b().min(x, b().constant(limits.max, x->type));
      }
      // Bounds beyond the integer type change nothing.
      const auto& a = node.as<graph::ClipAttrs>();
      const double values = std::ldexp(1, static_cast<int>(8 * type_bytes(compute_)));
      const double least = is_unsigned(compute_) ? 0 : -values / 2, most = least + values - 1;
      Expr y = a.max < most ? b().min(x, real(std::floor(std::max(a.max, least)))) : x;
      return a.min > least ? b().max(y, real(std::ceil(std::min(a.min, most)))) : y;
    }
    case Op::kBatchNorm: {
      Expr deviation = call(Intrinsic::kSqrt, b().add(channel(4), real(node.as<graph::BatchNormAttrs>().epsilon)));
      Expr normal = b().div(b().sub(x, channel(3)), deviation);
      return b().add(b().mul(normal, channel(1)), channel(2));
    }
    case Op::kWhere:
      return b().select(x, in(1), in(2));
    case Op::kCast:
      return cast_value(value(node.inputs[0]).dtype, value(node.output).dtype, x);
    default:
      break;
  }
  const bool wide_unsigned = graph::is_wide_unsigned(value(node.inputs[0]).dtype);
  return element_value(b(), node, wide_unsigned, x, node.inputs.size() == 2 ? in(1) : nullptr);
}

bool GroupNest::rounds_weights(const graph::Node& cast) const {
  const graph::NodeId producer = value(cast.inputs[0]).producer;
  return producer != graph::kNone && graph_.node(producer).op == Op::kSoftmax && cast.output != group_.output &&
         is_attention(graph_, group_);
}

Type GroupNest::widened(graph::DType dtype) const {
  Type type = ir_type(dtype);
  return !moves_ && (type == Type::kF16 || type == Type::kBF16) ? Type::kF32 : type;
}

Expr GroupNest::read_own(graph::ValueId id, const Exprs& at, const graph::Shape& shape) {
  Type saved = std::exchange(compute_, widened(value(id).dtype));
  Expr x = read_broadcast(operand(id), at, shape);
  compute_ = saved;
  return x;
}

Expr GroupNest::cast_value(graph::DType from, graph::DType to, Expr x) {
  Type target = ir_type(to);
  if (from == graph::DType::kU32) {
    // Through i64, where the value fits.
    Expr wide = b().cast(x, Type::kI64);
    x = b().select(b().lt(wide, b().integer(0)), b().offset(wide, int64_t{1} << 32), wide);
  } else if (from == graph::DType::kU64 && is_float(target)) {
    Expr wide = b().cast(x, Type::kF64);
    Expr lifted = b().add(wide, b().real(0x1p64, Type::kF64));
    x = b().select(b().lt(wide, b().real(0, Type::kF64)), lifted, wide);
  }
  if (is_float(x->type) && to == graph::DType::kU32) {
    x = b().cast(x, Type::kI64);  // whose low bits are the number
  } else if (is_float(x->type) && to == graph::DType::kU64) {
    // The upper half of its range is converted without its highest bit.
    Expr wide = b().cast(x, Type::kF64);
    Expr half = b().real(0x1p63, Type::kF64);
    Expr high = b().offset(b().cast(b().sub(wide, half), Type::kI64), std::numeric_limits<int64_t>::min());
    return b().select(b().lt(wide, half), b().cast(wide, Type::kI64), high);
  }
  // As the standard's reference: the low bits of the 32-bit integer.
  if (is_float(x->type) && is_integer(target) && type_bytes(target) < 4) x = b().cast(x, Type::kI32);
  return b().cast(x, target);
}

}  // namespace tcc::task
