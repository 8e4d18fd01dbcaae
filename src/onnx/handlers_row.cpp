// Operators that look at whole rows: reductions, softmax, normalizations, positions of extrema, sums so far.
#include <algorithm>
#include <map>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

// The greatest or least elements along axes; NaN where an element is.
Made extremum(NodeContext& c, const Made& x, bool max, std::vector<int64_t> axes, bool keep_dims) {
  if (!x) return x;
  const bool nan = graph::is_float(c.value(*x).dtype) && !axes.empty();
  return c.emit(max ? Op::kReduceMax : Op::kReduceMin, graph::ReduceAttrs{std::move(axes), keep_dims, nan}, {x});
}

Result<ValueId> hardmax(NodeContext& c, ValueId x, int64_t axis) {
  const Shape shape = c.value(x).shape;
  Made where = c.emit(Op::kArg, graph::ArgAttrs{axis, true, false}, {x});
  Made position = c.iota(DType::kI64, shape[static_cast<size_t>(axis)], static_cast<size_t>(axis), shape.size());
  return c.cast(c.binary(BinaryFn::kEqual, position, where), c.value(x).dtype);
}

Result<ValueId> softmax_like(NodeContext& c, ValueId x, int64_t axis) {
  if (c.op() == "Hardmax") return hardmax(c, x, axis);
  return c.emit(c.op() == "LogSoftmax" ? Op::kLogSoftmax : Op::kSoftmax, graph::AxisAttrs{axis}, {x});
}

}  // namespace

Result<void> import_softmax(NodeContext& c) {
  const Shape shape = c.input_value(0).shape;
  auto rank = static_cast<int64_t>(shape.size());
  if (c.opset() >= 13) {
    TCC_TRY(int64_t axis, c.get_axis(-1, rank));
    return c.finish(softmax_like(c, c.input(0), axis));
  }
  // Before opset 13 the input was seen as a matrix: axes from `axis` on are one row.
  TCC_TRY(int64_t axis, c.get_int("axis", 1));
  // Negative axes came with opset 11; exporters wrote them earlier.
  if (axis < -rank || axis > rank) return input_error("axis {} is out of range for rank {}", axis, rank);
  if (axis < 0) axis += rank;
  auto split = shape.begin() + axis;
  Shape matrix{graph::element_count(Shape(shape.begin(), split)), graph::element_count(Shape(split, shape.end()))};
  TCC_TRY(ValueId x, c.emit_reshape(c.input(0), matrix));
  return c.finish(c.emit_reshape(softmax_like(c, x, 1), shape));
}

Result<void> import_reduce(NodeContext& c) {
  static const std::map<std::string, Op> kPlain = {{"ReduceMean", Op::kReduceMean},
                                                   {"ReduceMax", Op::kReduceMax},
                                                   {"ReduceSum", Op::kReduceSum},
                                                   {"ReduceMin", Op::kReduceMin},
                                                   {"ReduceProd", Op::kReduceProd}};
  TCC_TRY(bool keep, c.get_flag("keepdims", true));
  std::vector<int64_t> axes;
  if (c.opset() >= (c.op() == "ReduceSum" ? 13 : 18)) {
    TCC_TRY(axes, c.optional_integers(1, "axes"));
    TCC_TRY(bool no_op, c.get_flag("noop_with_empty_axes", false));
    // A sum of one term: what is done with each element before and after the sum stays.
    if (axes.empty() && no_op) {
      const ValueId x = c.input(0);
      if ((c.op() == "ReduceL1" || c.op() == "ReduceL2") && !graph::is_unsigned(c.value(x).dtype))
        return c.finish(c.unary(UnaryFn::kAbs, x));
      if (c.op() == "ReduceSumSquare") return c.finish(c.arithmetic(Op::kMul, x, x));
      if (c.op() == "ReduceLogSum") return c.finish(c.unary(UnaryFn::kLog, x));
      return c.finish(Op::kIdentity, graph::NoAttrs{}, {x});
    }
  } else {
    TCC_TRY(auto listed, c.get_ints("axes"));
    if (listed) axes = *listed;
    if (c.has_input(1)) return input_error("axes became an input only in a later opset than {}", c.opset());
  }
  if (axes.empty()) axes = axes_from(0, c.rank(0));
  TCC_TRY(axes, c.normalize_axes(axes, c.rank(0)));
  ValueId x = c.input(0);
  // Of integers: means truncate, and what has roots and logarithms is computed in f64.
  const DType dtype = c.value(x).dtype;
  if (!graph::is_float(dtype) && c.op() == "ReduceMean") {
    for (int64_t axis : axes)
      if (c.count(0, static_cast<size_t>(axis)) != graph::kNone)
        return c.refuse_count(x, static_cast<size_t>(axis), "is that of integers of which a mean is taken");
    double count = 1;
    for (int64_t axis : axes) count *= static_cast<double>(c.value(x).shape[static_cast<size_t>(axis)]);
    if (count == 0) return input_error("the mean of no integers is not a number");
    return c.finish(c.arithmetic(Op::kDiv, c.reduce(Op::kReduceSum, x, axes, keep), Made(c.scalar(dtype, count))));
  }
  const bool rooted = c.op() == "ReduceL2" || c.op() == "ReduceLogSum" || c.op() == "ReduceLogSumExp";
  if (rooted && !graph::is_float(dtype)) TCC_TRY_SET(x, c.cast(x, DType::kF64));
  if (rooted || c.op() == "ReduceSumSquare") TCC_TRY_SET(x, c.widened(x));
  const auto finish = [&](const Made& y) { return c.finish(c.cast(y, dtype)); };
  if (c.op() == "ReduceMax" || c.op() == "ReduceMin")
    return c.finish(extremum(c, x, c.op() == "ReduceMax", axes, keep));
  if (auto plain = kPlain.find(c.op()); plain != kPlain.end())
    return c.finish(plain->second, graph::ReduceAttrs{axes, keep}, {x});

  if (c.op() == "ReduceLogSumExp") {
    // Infinite elements are not shifted: infinity minus itself would not be a number.
    TCC_TRY(ValueId max, c.reduce(Op::kReduceMax, x, axes, true));
    TCC_TRY(max, c.where(c.unary(UnaryFn::kIsInf, max, 1, 1), c.scalar(c.value(max).dtype, 0), max));
    Made sum = c.reduce(Op::kReduceSum, c.unary(UnaryFn::kExp, c.arithmetic(Op::kSub, x, max)), axes, true);
    TCC_TRY(ValueId y, c.arithmetic(Op::kAdd, c.unary(UnaryFn::kLog, sum), max));
    Shape shape;
    for (int64_t i = 0; i < c.rank(0); ++i) {
      bool reduced = std::binary_search(axes.begin(), axes.end(), i);
      if (keep || !reduced) shape.push_back(c.value(y).shape[static_cast<size_t>(i)]);
    }
    return finish(c.emit_reshape(y, shape));
  }
  Made y = x;
  if (c.op() == "ReduceL1" && !graph::is_unsigned(dtype)) y = c.unary(UnaryFn::kAbs, x);
  if (c.op() == "ReduceL2" || c.op() == "ReduceSumSquare") y = c.arithmetic(Op::kMul, x, x);
  y = c.reduce(Op::kReduceSum, y, axes, keep);
  if (c.op() == "ReduceL2") y = c.unary(UnaryFn::kSqrt, y);
  if (c.op() == "ReduceLogSum") y = c.unary(UnaryFn::kLog, y);
  return finish(y);
}

Result<void> import_arg(NodeContext& c) {
  TCC_TRY(int64_t axis, c.get_axis(0, c.rank(0)));
  TCC_TRY(bool keep, c.get_flag("keepdims", true));
  TCC_TRY(bool last, c.get_flag("select_last_index", false, 12));
  TCC_TRY(ValueId y, c.emit(Op::kArg, graph::ArgAttrs{axis, c.op() == "ArgMax", last}, {c.input(0)}));
  Shape shape = c.value(y).shape;
  if (!keep) shape.erase(shape.begin() + axis);
  return c.finish(c.emit_reshape(y, shape));
}

Result<void> import_layer_norm(NodeContext& c) {
  graph::LayerNormAttrs attrs;
  TCC_TRY(attrs.axis, c.get_axis(-1, c.rank(0)));
  TCC_TRY(attrs.epsilon, c.get_float("epsilon", 1e-5));
  c.ignore_attribute("stash_type");
  if (c.wants_output(1) || c.wants_output(2)) {
    std::vector<int64_t> axes = axes_from(attrs.axis, c.rank(0));
    TCC_TRY(const ValueId x, c.widened(c.input(0)));  // whose type these outputs have
    TCC_TRY(ValueId mean, c.reduce(Op::kReduceMean, x, axes, true));
    c.set_output(1, mean);
    TCC_TRY(ValueId d, c.arithmetic(Op::kSub, x, mean));
    Made variance = c.reduce(Op::kReduceMean, c.arithmetic(Op::kMul, d, d), axes, true);
    variance = c.arithmetic(Op::kAdd, variance, c.scalar(c.value(d).dtype, attrs.epsilon));
    TCC_TRY(ValueId scale, c.unary(UnaryFn::kReciprocal, c.unary(UnaryFn::kSqrt, variance)));
    c.set_output(2, scale);
  }
  return c.finish(Op::kLayerNorm, attrs, c.inputs());
}

Result<void> import_instance_norm(NodeContext& c) {
  graph::LayerNormAttrs attrs{2, 1e-5};
  TCC_TRY(attrs.epsilon, c.get_float("epsilon", 1e-5));
  const Shape shape = c.input_value(0).shape;
  if (shape.size() < 3) return input_error("needs an input of rank 3 or more, got {}", graph::shape_text(shape));
  const Shape channel{shape[1], 1};
  int64_t pixels = graph::element_count(Shape(shape.begin() + 2, shape.end()));
  ValueId one = c.constant(c.input_value(0).dtype, {1}, graph::make_splat(c.input_value(0).dtype, 1));
  Made x = c.emit_reshape(c.input(0), {shape[0], shape[1], pixels});
  x = c.emit(Op::kLayerNorm, attrs, {x, one});
  // Rows of channels as long as they are rows: scale and bias belong to the norm's kernel.
  Made scale = c.emit_reshape(c.input(1), channel);
  Made bias = c.emit_reshape(c.input(2), channel);
  x = c.arithmetic(Op::kAdd, c.arithmetic(Op::kMul, x, scale), bias);
  return c.finish(c.emit_reshape(x, shape));
}

Result<void> import_mean_variance(NodeContext& c) {
  TCC_TRY(auto listed, c.get_ints("axes"));
  TCC_TRY(auto axes, c.normalize_axes(listed ? *listed : std::vector<int64_t>{0, 2, 3}, c.rank(0)));
  TCC_TRY(const ValueId x, c.widened(c.input(0)));
  TCC_TRY(ValueId d, c.arithmetic(Op::kSub, x, c.reduce(Op::kReduceMean, x, axes, true)));
  Made deviation = c.unary(UnaryFn::kSqrt, c.reduce(Op::kReduceMean, c.arithmetic(Op::kMul, d, d), axes, true));
  deviation = c.arithmetic(Op::kAdd, deviation, c.scalar(c.value(d).dtype, 1e-9));
  return c.finish(c.cast(c.arithmetic(Op::kDiv, d, deviation), c.input_value(0).dtype));
}

Result<void> import_lp_norm(NodeContext& c) {
  TCC_TRY(int64_t axis, c.get_axis(-1, c.rank(0)));
  TCC_TRY(int64_t p, c.get_int("p", 2));
  if (p != 1 && p != 2) return input_error("p is {}, expected 1 or 2", p);
  TCC_TRY(const ValueId x, c.widened(c.input(0)));
  Made norm = p == 1 ? c.unary(UnaryFn::kAbs, x) : c.arithmetic(Op::kMul, x, x);
  norm = c.reduce(Op::kReduceSum, norm, {axis}, true);
  if (p == 2) norm = c.unary(UnaryFn::kSqrt, norm);
  // A row of zeros stays one.
  const DType dtype = c.value(x).dtype;
  Made none = c.binary(BinaryFn::kEqual, norm, c.scalar(dtype, 0));
  return c.finish(c.cast(c.arithmetic(Op::kDiv, x, c.where(none, c.scalar(dtype, 1), norm)), c.input_value(0).dtype));
}

namespace {

// The loss of log-probabilities `x` (N, C, ...) for the classes `target` (N, ...): -x at the class, times its weight.
// Classes that equal ignore_index, or are outside of 0 .. C - 1, count nothing.
Result<void> class_loss(NodeContext& c, ValueId x, ValueId target, std::optional<ValueId> weight) {
  TCC_TRY(std::string reduction, c.get_string("reduction", "mean"));
  std::optional<int64_t> ignored;
  if (c.has_attribute("ignore_index")) TCC_TRY_SET(ignored, c.get_int("ignore_index", 0));
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return input_error("reduction is '{}', expected none, sum or mean", sanitize(reduction));
  const Shape shape = c.value(x).shape;
  Shape classes = c.value(target).shape;
  DType dtype = c.value(x).dtype, index = c.value(target).dtype;
  if (shape.size() < 2 || classes.size() + 1 != shape.size())
    return input_error("scores {} and classes {} do not fit", graph::shape_text(shape), graph::shape_text(classes));
  classes.insert(classes.begin() + 1, 1);
  TCC_TRY(ValueId wanted, c.emit_reshape(target, classes));
  auto whole = [&](int64_t n) { return c.scalar(index, static_cast<double>(n)); };
  Made counts = c.binary(BinaryFn::kAnd, c.binary(BinaryFn::kGreaterOrEqual, wanted, whole(0)),
                         c.binary(BinaryFn::kLess, wanted, whole(shape[1])));
  if (ignored) {
    const Made skip = c.binary(BinaryFn::kEqual, wanted, whole(*ignored));
    counts = c.binary(BinaryFn::kAnd, counts, c.unary(UnaryFn::kNot, skip));
  }
  Made own_weight = c.scalar(dtype, 1);
  if (weight) own_weight = c.emit(Op::kGather, graph::AxisAttrs{0}, {*weight, wanted});
  const Made weights = c.where(counts, own_weight, c.scalar(dtype, 0));
  Made loss = c.emit(Op::kGatherElements, graph::AxisAttrs{1}, {x, wanted});
  loss = c.where(counts, loss, c.scalar(dtype, 0));
  loss = c.unary(UnaryFn::kNeg, c.arithmetic(Op::kMul, loss, weights));
  if (reduction == "none") return c.finish(c.emit_reshape(loss, c.value(target).shape));
  const std::vector<int64_t> all = axes_from(0, static_cast<int64_t>(shape.size()));
  loss = c.reduce(Op::kReduceSum, loss, all, false);
  if (reduction == "mean") loss = c.arithmetic(Op::kDiv, loss, c.reduce(Op::kReduceSum, weights, all, false));
  return c.finish(loss);
}

}  // namespace

Result<void> import_nll_loss(NodeContext& c) {
  return class_loss(c, c.input(0), c.input(1), c.has_input(2) ? std::optional(c.input(2)) : std::nullopt);
}

Result<void> import_cross_entropy(NodeContext& c) {
  if (c.rank(0) < 2) return input_error("needs scores of rank 2 or more");
  TCC_TRY(ValueId x, c.emit(Op::kLogSoftmax, graph::AxisAttrs{1}, {c.input(0)}));
  c.set_output(1, x);
  return class_loss(c, x, c.input(1), c.has_input(2) ? std::optional(c.input(2)) : std::nullopt);
}

}  // namespace tcc::onnx
