// Normalizations that are made of others: groups of channels, skip connections, embeddings.
#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

Made ones(NodeContext& c, DType dtype, int64_t count) {
  return c.constant(dtype, {count}, graph::make_splat(dtype, 1));
}

// x / sqrt(mean of x^2 over the last axes + epsilon) * scale
Made root_mean_square(NodeContext& c, const Made& x, const Made& scale, int64_t axis, double epsilon) {
  if (!x) return x;
  const DType dtype = c.value(*x).dtype;
  auto rank = static_cast<int64_t>(c.value(*x).shape.size());
  TCC_TRY(const graph::ValueId wide, c.widened(x));
  Made square = c.reduce(Op::kReduceMean, c.arithmetic(Op::kMul, wide, wide), axes_from(axis, rank), true);
  Made root = c.unary(UnaryFn::kSqrt, c.arithmetic(Op::kAdd, square, c.scalar(c.value(wide).dtype, epsilon)));
  return c.arithmetic(Op::kMul, c.cast(c.arithmetic(Op::kDiv, wide, root), dtype), scale);
}

// Before opset 21 scale and bias belong to groups, from then on to channels.
Result<void> group_norm(NodeContext& c, int64_t groups, bool of_channels, double epsilon) {
  const Shape s = c.input_value(0).shape;
  const DType dtype = c.input_value(0).dtype;
  if (s.size() < 2) return input_error("needs an input of rank 2 or more, got {}", graph::shape_text(s));
  if (groups < 1 || s[1] % groups != 0) return input_error("{} groups do not divide {} channels", groups, s[1]);
  const int64_t pixels = graph::element_count(Shape(s.begin() + 2, s.end()));
  const int64_t count = of_channels ? s[1] : groups;
  for (size_t i = 1; i < 3; ++i) {
    if (c.input_value(i).shape != Shape{count})
      return input_error("{} has shape {}, expected {}", i == 1 ? "scale" : "bias",
                         graph::shape_text(c.input_value(i).shape), count);
  }
  Made x = c.emit_reshape(c.input(0), {s[0], groups, s[1] / groups * pixels});
  x = c.emit(Op::kLayerNorm, graph::LayerNormAttrs{2, epsilon}, {x, ones(c, dtype, 1)});
  Shape wide(s.size(), 1);
  wide[1] = s[1];
  auto parameter = [&](size_t i) -> Made {
    if (of_channels) return c.emit_reshape(c.input(i), wide);
    Made column = c.emit_reshape(c.input(i), {groups, 1});
    return c.emit_reshape(c.emit(Op::kExpand, graph::ReshapeAttrs{{groups, s[1] / groups}}, {column}), wide);
  };
  x = c.emit_reshape(x, s);
  return c.finish(c.arithmetic(Op::kAdd, c.arithmetic(Op::kMul, x, parameter(1)), parameter(2)));
}

}  // namespace

Result<void> import_group_norm(NodeContext& c) {
  TCC_TRY(int64_t groups, c.get_int("num_groups", 0));
  TCC_TRY(double epsilon, c.get_float("epsilon", 1e-5));
  if (c.opset() >= 21) c.ignore_attribute("stash_type");
  return group_norm(c, groups, c.opset() >= 21, epsilon);
}

// Exporters of ONNX Runtime call it SimplifiedLayerNormalization.
Result<void> import_rms_norm(NodeContext& c) {
  TCC_TRY(int64_t axis, c.get_axis(-1, c.rank(0)));
  TCC_TRY(double epsilon, c.get_float("epsilon", 1e-5));
  c.ignore_attribute("stash_type");
  return c.finish(root_mean_square(c, c.input(0), c.input(1), axis, epsilon));
}

// x + skip (+ bias), normalized; the sum is output 3. Layer norms have a shift (input 3), simplified ones do not.
Result<void> import_skip_layer_norm(NodeContext& c) {
  const bool simplified = c.op() == "SkipSimplifiedLayerNormalization";
  TCC_TRY(double epsilon, c.get_float("epsilon", simplified ? 1e-5 : 1e-12));
  Made sum = c.arithmetic(Op::kAdd, c.input(0), c.input(1));
  const size_t bias = simplified ? 3 : 4;
  if (c.has_input(bias)) sum = c.arithmetic(Op::kAdd, sum, c.input(bias));
  TCC_TRY(ValueId x, sum);
  if (c.wants_output(3)) c.set_output(3, x);
  const int64_t axis = static_cast<int64_t>(c.value(x).shape.size()) - 1;
  if (axis < 0) return input_error("needs an input of rank 1 or more");
  if (simplified) return c.finish(root_mean_square(c, x, c.input(2), axis, epsilon));
  std::vector<Made> operands{x, c.input(2)};
  if (c.has_input(3)) operands.emplace_back(c.input(3));
  return c.finish(Op::kLayerNorm, graph::LayerNormAttrs{axis, epsilon}, operands);
}

// Embeddings of words, positions and segments, summed and normalized. Inputs: words, segments, the three tables, scale,
// shift, mask, positions.
Result<void> import_embed_layer_norm(NodeContext& c) {
  TCC_TRY_VOID(c.need_inputs({0, 2, 3, 5, 6}));
  TCC_TRY(double epsilon, c.get_float("epsilon", 1e-12));
  c.ignore_attribute("mask_index_type");
  const Shape s = c.input_value(0).shape;
  if (s.size() != 2) return input_error("the words must have two axes, got {}", graph::shape_text(s));
  auto rows = [&](size_t table, const Made& index) {
    return c.emit(Op::kGather, graph::AxisAttrs{0}, {c.input(table), index});
  };
  Made positions = c.has_input(8) ? Made(c.input(8)) : c.iota(DType::kI64, s[1], 1, 2);
  Made sum = c.arithmetic(Op::kAdd, rows(2, c.input(0)), rows(3, positions));
  if (c.has_input(1)) {
    if (!c.has_input(4)) return input_error("the table of segments (input 4) is missing");
    sum = c.arithmetic(Op::kAdd, sum, rows(4, c.input(1)));
  }
  TCC_TRY(ValueId x, sum);
  if (c.wants_output(2)) c.set_output(2, x);
  if (c.wants_output(1)) {
    // How many words of each sequence count.
    Made mask = c.has_input(7) ? Made(c.input(7)) : Made(c.constant(DType::kI32, s, graph::make_splat(DType::kI32, 0)));
    TCC_TRY(ValueId lengths, c.cast(c.reduce(Op::kReduceSum, mask, {1}, false), DType::kI32));
    c.set_output(1, lengths);
  }
  return c.finish(Op::kLayerNorm, graph::LayerNormAttrs{2, epsilon}, {x, c.input(5), c.input(6)});
}

}  // namespace tcc::onnx
