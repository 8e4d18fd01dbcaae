// Operators that carry a state from one run to the next, and gates.
#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

// swish(a) * b
Result<void> import_swiglu(NodeContext& c) {
  TCC_TRY(double alpha, c.get_float("alpha", 1));
  if (c.input_value(0).shape != c.input_value(1).shape)
    return input_error("A and B have different shapes, {} and {}", graph::shape_text(c.input_value(0).shape),
                       graph::shape_text(c.input_value(1).shape));
  return c.finish(c.arithmetic(Op::kMul, c.unary(UnaryFn::kSwish, c.input(0), alpha), c.input(1)));
}

// A convolution of each channel by itself over the state (the last positions of before) and X; the last positions of
// both are the next state.
Result<void> import_causal_conv(NodeContext& c) {
  TCC_TRY(std::string activation, c.get_string("activation", "none"));
  if (activation != "none" && activation != "silu" && activation != "swish")
    return input_error("activation is '{}', expected none, silu or swish", sanitize(activation));
  const Shape s = c.input_value(0).shape, w = c.input_value(1).shape;
  if (s.size() != 3 || w.size() != 3 || w[0] != s[1] || w[1] != 1)
    return input_error("X {} and weights {} do not fit", graph::shape_text(s), graph::shape_text(w));
  const int64_t before = w[2] - 1;
  Made x = c.input(0);
  if (c.has_input(3)) {
    if (c.input_value(3).shape != Shape{s[0], s[1], before})
      return input_error("the state has shape {}, expected {}", graph::shape_text(c.input_value(3).shape),
                         graph::shape_text({s[0], s[1], before}));
    if (before > 0) x = c.emit(Op::kConcat, graph::AxisAttrs{2}, {c.input(3), x});
  } else if (before > 0) {
    x = c.emit(Op::kPad, graph::PadAttrs{{0, 0, before}, {0, 0, 0}, 0}, {x});
  }
  graph::ConvAttrs attrs{{w[2]}, {1}, {1}, {0}, {0}, s[1]};
  std::vector<Made> operands{x, c.input(1)};
  if (c.has_input(2)) operands.emplace_back(c.input(2));
  Made y = c.emit(Op::kConv, attrs, operands);
  if (c.wants_output(1)) {
    TCC_TRY(ValueId state, c.slice(x, 2, before == 0 ? 0 : s[2], before));
    c.set_output(1, state);
  }
  return c.finish(activation == "none" ? y : c.unary(UnaryFn::kSwish, y, 1));
}

// Rows of `update` in the place of rows of the past, from a position of each batch on.
Result<void> import_tensor_scatter(NodeContext& c) {
  TCC_TRY(std::string mode, c.get_string("mode", "linear"));
  TCC_TRY(int64_t axis, c.get_axis(-2, c.rank(0)));
  if (mode != "linear" && mode != "circular")
    return input_error("mode is '{}', expected linear or circular", sanitize(mode));
  const Shape s = c.input_value(0).shape, u = c.input_value(1).shape;
  bool fits = s.size() == u.size() && axis > 0;
  for (size_t i = 0; fits && i < s.size(); ++i) fits = static_cast<int64_t>(i) == axis ? u[i] <= s[i] : u[i] == s[i];
  if (!fits)
    return input_error("an update of {} does not fit {} along axis {}", graph::shape_text(u), graph::shape_text(s),
                       axis);
  const int64_t rows = s[static_cast<size_t>(axis)], fresh = u[static_cast<size_t>(axis)];
  Shape batches(s.size(), 1);
  batches[0] = s[0];
  Made first = c.scalar(DType::kI64, 0);
  if (c.has_input(2)) first = c.emit_reshape(c.cast(c.input(2), DType::kI64), batches);
  auto number = [&](int64_t v) { return c.scalar(DType::kI64, static_cast<double>(v)); };
  // Row j of the result is row j - first of the update, where it has one.
  Made from = c.arithmetic(Op::kSub, c.iota(DType::kI64, rows, static_cast<size_t>(axis), s.size()), first);
  if (mode == "circular") from = c.binary(BinaryFn::kMod, from, number(rows));
  Made inside = c.binary(BinaryFn::kAnd, c.binary(BinaryFn::kGreaterOrEqual, from, number(0)),
                         c.binary(BinaryFn::kLess, from, number(fresh)));
  Made clamped = c.where(inside, from, number(0));
  TCC_TRY(ValueId index, clamped);
  Shape wide = s;
  Made everywhere = c.emit(Op::kExpand, graph::ReshapeAttrs{wide}, {index});
  // GatherElements wants indices no wider than the data but along its axis.
  Made picked = c.emit(Op::kGatherElements, graph::AxisAttrs{axis}, {c.input(1), everywhere});
  return c.finish(c.where(inside, picked, c.input(0)));
}

}  // namespace tcc::onnx
