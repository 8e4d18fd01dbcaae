// Arithmetic: matrix products, normalization, elementwise operators, softmax, reductions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "handlers.h"
#include "tcc/support/check.h"

namespace tcc::onnx {

// Before opset 7 a second operand was broadcast on request only: its axes are those of the first from `axis` on.
Result<ValueId> legacy_broadcast(NodeContext& c, ValueId a, ValueId b) {
  if (c.opset() >= 7) return b;
  TCC_TRY(int64_t broadcast, c.get_int("broadcast", 0));
  const Shape to = c.value(a).shape, from = c.value(b).shape;
  TCC_TRY(int64_t axis, c.get_int("axis", static_cast<int64_t>(to.size()) - static_cast<int64_t>(from.size())));
  if (broadcast == 0) {
    if (to != from) {
      return input_error("shapes {} and {} differ and attribute 'broadcast' is not set", graph::shape_text(to),
                         graph::shape_text(from));
    }
    return b;
  }
  if (from.size() > to.size())
    return input_error("cannot broadcast {} to {}", graph::shape_text(from), graph::shape_text(to));
  if (axis < 0) axis += static_cast<int64_t>(to.size());
  if (axis < 0 || axis > static_cast<int64_t>(to.size() - from.size())) {
    return input_error("axis {} does not place {} inside {}", axis, graph::shape_text(from), graph::shape_text(to));
  }
  Shape shape(to.size(), 1);
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t extent = to[static_cast<size_t>(axis) + i];
    if (from[i] != extent && from[i] != 1) {
      return input_error("cannot broadcast {} to {} from axis {}", graph::shape_text(from), graph::shape_text(to),
                         axis);
    }
    shape[static_cast<size_t>(axis) + i] = from[i];
  }
  return c.emit_reshape(b, shape);
}

namespace {

Result<void> refuse_training(NodeContext& c) {
  if (c.opset() >= 7) return {};
  TCC_TRY(bool is_test, c.get_flag("is_test", false));
  if (is_test) return {};
  return refuse(Refusal::kTraining, "training mode (is_test = 0) is not supported; export the model for inference");
}

// Statistics of this batch, and the running ones moved towards them.
Result<void> batch_norm_training(NodeContext& c, double epsilon, double momentum) {
  const Shape shape = c.input_value(0).shape;
  if (shape.size() < 2) return input_error("needs an input of rank 2 or more, got {}", graph::shape_text(shape));
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < c.rank(0); ++i) {
    if (i != 1) axes.push_back(i);
  }
  DType dtype = c.input_value(0).dtype;
  Shape channel(shape.size(), 1);
  channel[1] = shape[1];
  TCC_TRY(ValueId mean, c.reduce(Op::kReduceMean, c.input(0), axes, true));
  TCC_TRY(ValueId d, c.arithmetic(Op::kSub, c.input(0), mean));
  TCC_TRY(ValueId variance, c.reduce(Op::kReduceMean, c.arithmetic(Op::kMul, d, d), axes, true));
  Made deviation = c.unary(graph::UnaryFn::kSqrt, c.arithmetic(Op::kAdd, variance, c.scalar(dtype, epsilon)));
  Made scale = c.emit_reshape(c.input(1), channel);
  Made bias = c.emit_reshape(c.input(2), channel);
  Made scaled = c.arithmetic(Op::kMul, c.arithmetic(Op::kDiv, d, deviation), scale);
  TCC_TRY(ValueId y, c.arithmetic(Op::kAdd, scaled, bias));
  c.set_output(0, y);
  for (size_t i = 1; i < 3; ++i) {
    if (!c.wants_output(i)) continue;
    TCC_TRY(ValueId now, c.emit_reshape(i == 1 ? mean : variance, {shape[1]}));
    TCC_TRY(now, c.arithmetic(Op::kMul, now, c.scalar(dtype, 1 - momentum)));
    TCC_TRY(ValueId before, c.arithmetic(Op::kMul, c.input(i + 2), c.scalar(dtype, momentum)));
    TCC_TRY(now, c.arithmetic(Op::kAdd, now, before));
    c.set_output(i, now);
  }
  return {};
}

}  // namespace

Result<void> import_batch_norm(NodeContext& c) {
  graph::BatchNormAttrs attrs;
  TCC_TRY(attrs.epsilon, c.get_float("epsilon", 1e-5));
  TCC_TRY(double momentum, c.get_float("momentum", 0.9));
  TCC_TRY_VOID(refuse_training(c));
  if (c.opset() < 9) {
    TCC_TRY(int64_t spatial, c.get_int("spatial", 1));
    if (spatial != 1)
      return refuse(Refusal::kAttribute, "spatial = {} (one statistic per element) is not supported", spatial);
  }
  TCC_TRY(bool training, c.get_flag("training_mode", false, 14));
  if (training) return batch_norm_training(c, attrs.epsilon, momentum);
  return c.finish(Op::kBatchNorm, attrs, c.inputs());
}

Result<void> import_gemm(NodeContext& c) {
  graph::GemmAttrs attrs;
  TCC_TRY(attrs.alpha, c.get_float("alpha", 1));
  TCC_TRY(attrs.beta, c.get_float("beta", 1));
  TCC_TRY(attrs.trans_a, c.get_flag("transA", false));
  TCC_TRY(attrs.trans_b, c.get_flag("transB", false));
  if (c.opset() < 7) c.ignore_attribute("broadcast");  // numpy's rule covers what was legal
  return c.finish(Op::kGemm, attrs, c.inputs());
}

Result<void> import_matmul(NodeContext& c) {
  return c.finish(Op::kMatMul, graph::MatMulAttrs{}, {c.input(0), c.input(1)});
}

Result<void> import_unary(NodeContext& c) {
  static const std::map<std::string, Op> kOps = {{"Relu", Op::kRelu}, {"Sigmoid", Op::kSigmoid}, {"Tanh", Op::kTanh}};
  return c.finish(kOps.at(c.op()), graph::NoAttrs{}, {c.input(0)});
}

Result<void> import_leaky_relu(NodeContext& c) {
  graph::LeakyAttrs attrs;
  TCC_TRY(attrs.alpha, c.get_float("alpha", 0.01));
  return c.finish(Op::kLeakyRelu, attrs, {c.input(0)});
}

namespace {

Result<void> clip_at_run_time(NodeContext& c) {
  ValueId x = c.input(0);
  if (c.has_input(1)) TCC_TRY_SET(x, c.binary(graph::BinaryFn::kMax, x, c.input(1)));
  if (c.has_input(2)) TCC_TRY_SET(x, c.binary(graph::BinaryFn::kMin, x, c.input(2)));
  return c.finish(x);
}

}  // namespace

Result<void> import_clip(NodeContext& c) {
  graph::ClipAttrs attrs{-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  if (c.opset() < 11) {
    TCC_TRY(attrs.min, c.get_float("min", attrs.min));
    TCC_TRY(attrs.max, c.get_float("max", attrs.max));
  } else {
    bool known =
        (!c.has_input(1) || c.input_value(1).is_constant()) && (!c.has_input(2) || c.input_value(2).is_constant());
    // The bounds of an attribute are compared as signed numbers.
    if (!known || graph::is_wide_unsigned(c.input_value(0).dtype)) return clip_at_run_time(c);
    TCC_TRY(attrs.min, c.constant_scalar(1, "min", attrs.min));
    TCC_TRY(attrs.max, c.constant_scalar(2, "max", attrs.max));
  }
  if (std::isnan(attrs.min) || std::isnan(attrs.max)) return input_error("min or max is not a number");
  // min > max is defined: min(max(x, min), max) is max everywhere.
  attrs.min = std::min(attrs.min, attrs.max);
  return c.finish(Op::kClip, attrs, {c.input(0)});
}

Result<void> import_binary(NodeContext& c) {
  static const std::map<std::string, Op> kOps = {
      {"Add", Op::kAdd}, {"Sub", Op::kSub}, {"Mul", Op::kMul}, {"Div", Op::kDiv}};
  TCC_TRY(ValueId b, legacy_broadcast(c, c.input(0), c.input(1)));
  return c.finish(kOps.at(c.op()), graph::NoAttrs{}, {c.input(0), b});
}

Result<void> import_sum(NodeContext& c) {
  ValueId sum = c.input(0);
  for (size_t i = 1; i < c.input_count(); ++i) {
    if (c.opset() < 8 && c.value(sum).shape != c.input_value(i).shape) {
      return input_error("inputs of shapes {} and {} differ", graph::shape_text(c.value(sum).shape),
                         graph::shape_text(c.input_value(i).shape));
    }
    TCC_TRY(sum, c.emit(Op::kAdd, graph::NoAttrs{}, {sum, c.input(i)}));
  }
  return c.finish(sum);
}

Result<void> import_dropout(NodeContext& c) {
  TCC_TRY_VOID(refuse_training(c));
  if (c.opset() < 12) {
    c.ignore_attribute("ratio");
  } else {
    c.ignore_attribute("seed");
    TCC_TRY(double training, c.constant_scalar(2, "training_mode", 0));
    if (training != 0)
      return refuse(Refusal::kTraining, "training mode is not supported; export the model for inference");
  }
  // The mask of what is kept: everything.
  if (c.wants_output(1)) {
    DType mask = c.opset() < 10 ? c.input_value(0).dtype : DType::kBool;
    c.set_output(1, c.constant(mask, c.input_value(0).shape, graph::make_splat(mask, 1)));
  }
  return c.finish(Op::kIdentity, graph::NoAttrs{}, {c.input(0)});
}

}  // namespace tcc::onnx
