// Quantized operators: conversions, and products and sums of integers.
//
// An operator on quantized tensors is its meaning: dequantize, compute in f32, quantize. Sums that are integers
// themselves (MatMulInteger, ConvInteger) are computed in f64, which holds them exactly.
#include <algorithm>
#include <cmath>
#include <limits>

#include "quantization.h"
#include "small_types.h"
#include "tcc/graph/integer_range.h"
#include "tcc/support/text.h"
#include "window_attributes.h"

namespace tcc::onnx {

namespace {

Result<graph::IntegerRange> quantized_range(DType dtype, const SmallType* small = nullptr) {
  if (small != nullptr) return graph::IntegerRange{small->low(), small->high()};
  if (dtype != DType::kBool && !graph::is_float(dtype) && graph::dtype_size(dtype) < 4)
    return graph::integer_range(dtype);
  return refuse(Refusal::kElementType, "quantized numbers of type {} are not supported", graph::dtype_name(dtype));
}

}  // namespace

Result<Quantization> read_quantization(NodeContext& c, size_t scale, size_t zero) {
  if (!c.has_input(scale)) return input_error("the scale (input {}) is missing", scale);
  Quantization q{c.input(scale), {}, 1, 0};
  const graph::Value& s = c.value(q.scale);
  if (!graph::is_float(s.dtype))
    return input_error("the scale (input {}) must be floats, not {}", scale, graph::dtype_name(s.dtype));
  if (s.is_constant()) {
    const std::vector<double> values = graph::constant_doubles(*s.constant, s.dtype, s.elements());
    for (size_t i = 0; i < values.size(); ++i) {
      if (!(values[i] > 0) || !std::isfinite(values[i]))
        return input_error("the scale (input {}) is {} at position {}, expected a positive number", scale, values[i],
                           i);
    }
  }
  if (c.has_input(zero)) {
    if (c.input_value(zero).elements() != s.elements())
      return input_error("the zero point (input {}) has shape {}, the scale {}", zero,
                         graph::shape_text(c.input_value(zero).shape), graph::shape_text(s.shape));
    q.zero = c.input(zero);
  }
  return q;
}

Made spread_parameter(NodeContext& c, ValueId parameter, const Shape& shape, const Quantization& q) {
  const graph::Value& p = c.value(parameter);
  if (p.elements() == 1) return c.emit_reshape(parameter, {});
  auto rank = static_cast<int64_t>(shape.size());
  TCC_TRY(int64_t axis, c.normalize_axis(q.axis, rank));
  const int64_t extent = shape[static_cast<size_t>(axis)];
  if (q.block == 0) {
    if (p.shape != Shape{extent})
      return input_error("scales of shape {} do not fit axis {} of {}", graph::shape_text(p.shape), axis,
                         graph::shape_text(shape));
    Shape wide(shape.size(), 1);
    wide[static_cast<size_t>(axis)] = extent;
    return c.emit_reshape(parameter, wide);
  }
  const int64_t blocks = (extent + q.block - 1) / q.block;
  Shape expected = shape, split, repeated, joined = shape;
  expected[static_cast<size_t>(axis)] = blocks;
  if (p.shape != expected)
    return input_error("scales of shape {} do not fit blocks of {} along axis {} of {}", graph::shape_text(p.shape),
                       q.block, axis, graph::shape_text(shape));
  for (int64_t i = 0; i < rank; ++i) {
    split.push_back(expected[static_cast<size_t>(i)]);
    repeated.push_back(expected[static_cast<size_t>(i)]);
    if (i != axis) continue;
    split.push_back(1);
    repeated.push_back(q.block);
  }
  joined[static_cast<size_t>(axis)] = blocks * q.block;
  Made x = c.emit(Op::kExpand, graph::ReshapeAttrs{repeated}, {c.emit_reshape(parameter, split)});
  x = c.emit_reshape(x, joined);
  return blocks * q.block == extent ? x : c.slice(x, axis, 0, extent);
}

Made centered(NodeContext& c, ValueId x, const Quantization& q) {
  const Shape shape = c.value(x).shape;
  const DType dtype = c.value(x).dtype;
  Made numbers = c.cast(x, DType::kF32);
  if (!q.zero) return numbers;
  const graph::Value& zero = c.value(*q.zero);
  if (zero.dtype != dtype)
    return input_error("the zero point is {}, the numbers are {}", graph::dtype_name(zero.dtype),
                       graph::dtype_name(dtype));
  if (zero.is_constant() && zero.constant->splat && graph::constant_element(*zero.constant, dtype, 0) == 0)
    return numbers;
  return c.arithmetic(Op::kSub, numbers, c.cast(spread_parameter(c, *q.zero, shape, q), DType::kF32));
}

Made dequantize(NodeContext& c, ValueId x, const Quantization& q, DType to) {
  const Shape shape = c.value(x).shape;
  Made scale = c.cast(spread_parameter(c, q.scale, shape, q), DType::kF32);
  return c.cast(c.arithmetic(Op::kMul, centered(c, x, q), scale), to);
}

namespace {

// Numbers in units of the scale, rounded, plus zero, at the limits of `to`.
Made quantize_scaled(NodeContext& c, const Made& x, const Quantization& q, DType to, const SmallType* small = nullptr) {
  if (!x) return x;
  TCC_TRY(const graph::IntegerRange range, quantized_range(to, small));
  const Shape shape = c.value(*x).shape;
  Made y = c.unary(UnaryFn::kRound, x);
  if (q.zero) y = c.arithmetic(Op::kAdd, y, c.cast(spread_parameter(c, *q.zero, shape, q), DType::kF32));
  return c.cast(c.emit(Op::kClip, graph::ClipAttrs{range.least, range.greatest}, {y}), to);
}

}  // namespace

Made quantize(NodeContext& c, const Made& x, const Quantization& q, DType to, const SmallType* small) {
  if (!x) return x;
  Made scale = c.cast(spread_parameter(c, q.scale, c.value(*x).shape, q), DType::kF32);
  return quantize_scaled(c, c.arithmetic(Op::kDiv, c.cast(x, DType::kF32), scale), q, to, small);
}

namespace {

Result<void> read_axes(NodeContext& c, Quantization& q) {
  TCC_TRY(q.axis, c.get_int("axis", 1, c.standard() ? 13 : 1));
  TCC_TRY(q.block, c.get_int("block_size", 0, c.standard() ? 21 : 1));
  if (q.block < 0 || q.block > graph::kMaxElements) return input_error("block_size is {}, expected 0 or more", q.block);
  return {};
}

// 0: the operator's own rule.
Result<int32_t> output_type(NodeContext& c) {
  TCC_TRY(int64_t number, c.get_int("output_dtype", 0, c.standard() ? 21 : 1));
  return static_cast<int32_t>(std::clamp<int64_t>(number, -1, 1000));
}

std::string_view element_name(DType dtype, const SmallType* small) {
  return small != nullptr ? std::string_view(small->name) : graph::dtype_name(dtype);
}

// Floats of few bits are the quotient itself in their type.
Made quantize_to_float(NodeContext& c, const Quantization& q, const SmallType& to, bool saturate) {
  const Shape shape = c.input_value(0).shape;
  Made scale = c.cast(spread_parameter(c, q.scale, shape, q), DType::kF32);
  Made y = c.arithmetic(Op::kDiv, c.cast(c.input(0), DType::kF32), scale);
  if (q.zero) y = c.arithmetic(Op::kAdd, y, spread_parameter(c, *q.zero, shape, q));
  return encode_small(c, y, to, saturate, "up");
}

}  // namespace

Result<void> import_quantize_linear(NodeContext& c) {
  TCC_TRY(Quantization q, read_quantization(c, 1, 2));
  TCC_TRY_VOID(read_axes(c, q));
  TCC_TRY(const int32_t number, output_type(c));
  DType to = q.zero ? c.value(*q.zero).dtype : DType::kU8;
  const SmallType* small = c.has_input(2) ? c.item(2).small : nullptr;
  if (number != 0) {
    TCC_TRY(const DType given, storage_of(number));
    if (q.zero && (given != to || small != small_type(number)))
      return input_error("output_dtype is {}, the zero point is {}", element_name(given, small_type(number)),
                         element_name(to, small));
    to = given;
    small = small_type(number);
  }
  TCC_TRY(const bool saturate, c.get_flag("saturate", true, 19));
  if (c.opset() >= 23) c.ignore_attribute("precision");
  if (small == nullptr || !small->is_float()) {
    return c.finish(quantize(c, c.input(0), q, to, small), small);
  }
  if (q.zero) TCC_TRY_SET(q.zero, decode_small(c, *q.zero, *small));
  return c.finish(quantize_to_float(c, q, *small, saturate), small);
}

Result<void> import_dequantize_linear(NodeContext& c) {
  TCC_TRY(Quantization q, read_quantization(c, 1, 2));
  TCC_TRY_VOID(read_axes(c, q));
  TCC_TRY(const int32_t number, output_type(c));
  DType to = c.value(q.scale).dtype;
  if (number != 0) TCC_TRY_SET(to, dtype_of(number));
  const SmallType* small = c.item(0).small;
  if (c.has_input(2) && c.item(2).small != small)
    return input_error("the zero point has another element type than the numbers");
  ValueId x = c.input(0);
  if (small != nullptr && small->is_float()) {
    TCC_TRY(x, decode_small(c, x, *small));
    if (q.zero) TCC_TRY_SET(q.zero, decode_small(c, *q.zero, *small));
  }
  return c.finish(dequantize(c, x, q, to));
}

namespace {

struct Dynamic {
  ValueId y, scale, zero;
};
// u8 with a range that holds 0 and all of x.
Result<Dynamic> quantize_dynamically(NodeContext& c, ValueId x) {
  std::vector<int64_t> all = axes_from(0, static_cast<int64_t>(c.value(x).shape.size()));
  ValueId none = c.scalar(DType::kF32, 0);
  TCC_TRY(ValueId low, c.binary(graph::BinaryFn::kMin, c.reduce(Op::kReduceMin, x, all, false), none));
  TCC_TRY(ValueId high, c.binary(graph::BinaryFn::kMax, c.reduce(Op::kReduceMax, x, all, false), none));
  Made width = c.arithmetic(Op::kSub, high, low);
  Made scale = c.arithmetic(Op::kDiv, width, c.scalar(DType::kF32, 255));
  Made empty = c.binary(graph::BinaryFn::kEqual, low, high);
  Dynamic d{};
  TCC_TRY(d.scale, c.where(empty, c.scalar(DType::kF32, 1), scale));
  Made zero = c.arithmetic(Op::kDiv, c.arithmetic(Op::kSub, none, low), d.scale);
  zero = c.unary(UnaryFn::kRound, c.emit(Op::kClip, graph::ClipAttrs{0, 255}, {zero}));
  TCC_TRY(d.zero, c.cast(zero, DType::kU8));
  TCC_TRY(d.y, quantize(c, x, {d.scale, d.zero, 1, 0}, DType::kU8));
  return d;
}

}  // namespace

Result<void> import_dynamic_quantize_linear(NodeContext& c) {
  TCC_TRY(Dynamic d, quantize_dynamically(c, c.input(0)));
  c.set_output(0, d.y);
  c.set_output(1, d.scale);
  c.set_output(2, d.zero);
  return {};
}

// --- integer sums --------------------------------------------------------------------------------------------------

namespace {

// Integers minus their zero point, in a type that holds sums of their products exactly.
Made exact_operand(NodeContext& c, size_t input, size_t zero, int64_t axis) {
  const graph::Value& x = c.input_value(input);
  TCC_TRY([[maybe_unused]] const graph::IntegerRange range, quantized_range(x.dtype));
  const Shape shape = x.shape;
  const DType dtype = x.dtype;
  if (shape.empty()) return input_error("input {} is a scalar", input);
  Made numbers = c.cast(c.input(input), DType::kF64);
  if (!c.has_input(zero)) return numbers;
  const graph::Value& z = c.input_value(zero);
  if (z.dtype != dtype)
    return input_error("the zero point (input {}) is {}, the numbers are {}", zero, graph::dtype_name(z.dtype),
                       graph::dtype_name(dtype));
  Made zeros = c.input(zero);
  // One for all, one for each position of an axis, or already of a shape that broadcasts.
  if (z.elements() == 1) {
    zeros = c.emit_reshape(zeros, {});
  } else if (z.shape.size() == 1) {
    Shape wide(shape.size(), 1);
    wide[static_cast<size_t>(axis)] = z.elements();
    zeros = c.emit_reshape(zeros, wide);
  }
  return c.arithmetic(Op::kSub, numbers, c.cast(zeros, DType::kF64));
}

// A x B as i32, zero points in inputs 2 and 3: one for each row of A and each column of B.
Result<ValueId> integer_product(NodeContext& c) {
  Made a = exact_operand(c, 0, 2, std::max<int64_t>(c.rank(0) - 2, 0));
  Made b = exact_operand(c, 1, 3, c.rank(1) - 1);
  return c.cast(c.emit(Op::kMatMul, graph::MatMulAttrs{}, {a, b}), DType::kI32);
}

}  // namespace

Result<void> import_matmul_integer(NodeContext& c) {
  return c.finish(integer_product(c));
}

Result<void> import_conv_integer(NodeContext& c) {
  TCC_TRY(ValueId x, exact_operand(c, 0, 2, 1));
  TCC_TRY(ValueId w, exact_operand(c, 1, 3, 0));
  TCC_TRY(ValueId y, emit_convolution(c, x, w, {}));
  return c.finish(c.cast(y, DType::kI32));
}

// --- operators on quantized tensors ----------------------------------------------------------------------------------

namespace {

// The result of a node: type and limits from its zero point, or as given where the node has no zero point.
Result<void> finish_quantized(NodeContext& c, const Made& y, const Quantization& q, DType otherwise) {
  return c.finish(quantize(c, y, q, q.zero ? c.value(*q.zero).dtype : otherwise));
}

Made rescaled(NodeContext& c, const Made& sums, const Made& a_scale, const Made& b_scale) {
  return c.arithmetic(Op::kMul, sums, c.arithmetic(Op::kMul, a_scale, b_scale));
}

// Sums times the operands' scales over the result's, which is one factor where these are constants.
Result<void> finish_rescaled(NodeContext& c, const Made& sums, const Made& a_scale, const Made& b_scale,
                             const Quantization& q, DType otherwise) {
  Made scale = c.cast(c.emit_reshape(q.scale, {}), DType::kF32);
  Made y = rescaled(c, sums, a_scale, c.arithmetic(Op::kDiv, b_scale, scale));
  return c.finish(quantize_scaled(c, y, q, q.zero ? c.value(*q.zero).dtype : otherwise));
}

}  // namespace

Result<void> import_qlinear_conv(NodeContext& c) {
  TCC_TRY(Quantization xq, read_quantization(c, 1, 2));
  TCC_TRY(Quantization wq, read_quantization(c, 4, 5));
  TCC_TRY(Quantization yq, read_quantization(c, 6, 7));
  wq.axis = 0;
  TCC_TRY(ValueId x, centered(c, c.input(0), xq));
  TCC_TRY(ValueId w, centered(c, c.input(3), wq));
  std::optional<ValueId> bias;
  if (c.has_input(8)) {
    TCC_TRY(ValueId b, c.cast(c.input(8), DType::kF32));
    bias = b;
  }
  TCC_TRY(ValueId y, emit_convolution(c, x, w, bias));
  Shape channels(c.value(y).shape.size(), 1);
  if (c.value(wq.scale).elements() > 1) channels[1] = c.value(wq.scale).elements();
  Made scale = c.emit_reshape(wq.scale, channels);
  return finish_rescaled(c, y, scale, c.emit_reshape(xq.scale, {}), yq, c.input_value(0).dtype);
}

Result<void> import_qlinear_matmul(NodeContext& c) {
  TCC_TRY(Quantization aq, read_quantization(c, 1, 2));
  TCC_TRY(Quantization bq, read_quantization(c, 4, 5));
  TCC_TRY(Quantization yq, read_quantization(c, 6, 7));
  // Scales of A belong to rows, scales of B to columns.
  aq.axis = std::max<int64_t>(c.rank(0) - 2, 0);
  bq.axis = c.rank(3) - 1;
  Made product = c.emit(Op::kMatMul, graph::MatMulAttrs{}, {centered(c, c.input(0), aq), centered(c, c.input(3), bq)});
  TCC_TRY(ValueId sums, product);
  Made a_scale = spread_parameter(c, aq.scale, c.input_value(0).shape, aq);
  Made b_scale = spread_parameter(c, bq.scale, c.input_value(3).shape, bq);
  return finish_rescaled(c, sums, c.cast(a_scale, DType::kF32), c.cast(b_scale, DType::kF32), yq,
                         c.input_value(0).dtype);
}

// com.microsoft: A, its scale and zero point, B, its, a bias in units of the sums, those of the result (or none, then
// it is floats). Scales and zero points of B belong to columns.
Result<void> import_qgemm(NodeContext& c) {
  TCC_TRY(Quantization aq, read_quantization(c, 1, 2));
  TCC_TRY(Quantization bq, read_quantization(c, 4, 5));
  graph::GemmAttrs attrs;
  TCC_TRY(const double alpha, c.get_float("alpha", 1));
  TCC_TRY(attrs.trans_a, c.get_flag("transA", false));
  TCC_TRY(attrs.trans_b, c.get_flag("transB", false));
  bq.axis = attrs.trans_b ? 0 : 1;
  TCC_TRY(ValueId a, centered(c, c.input(0), aq));
  TCC_TRY(ValueId b, centered(c, c.input(3), bq));
  std::vector<ValueId> operands{a, b};
  if (c.has_input(6)) {
    TCC_TRY(ValueId bias, c.cast(c.input(6), DType::kF32));
    operands.push_back(bias);
  }
  TCC_TRY(ValueId sums, c.emit(Op::kGemm, attrs, std::vector<Made>(operands.begin(), operands.end())));
  const int64_t columns = c.value(bq.scale).elements();
  Made b_scale = c.emit_reshape(bq.scale, columns > 1 ? Shape{columns} : Shape{});
  if (alpha != 1) b_scale = c.arithmetic(Op::kMul, b_scale, c.scalar(DType::kF32, alpha));
  Made a_scale = c.emit_reshape(aq.scale, {});
  if (!c.has_input(7)) return c.finish(rescaled(c, sums, a_scale, b_scale));
  TCC_TRY(Quantization yq, read_quantization(c, 7, 8));
  return finish_rescaled(c, sums, a_scale, b_scale, yq, c.input_value(0).dtype);
}

// com.microsoft: A, B, scales of A and B, zero points, bias; the product as floats.
Result<void> import_matmul_integer_to_float(NodeContext& c) {
  TCC_TRY(Quantization aq, read_quantization(c, 2, 4));
  TCC_TRY(Quantization bq, read_quantization(c, 3, 5));
  bq.axis = c.rank(1) - 1;
  Made product = c.emit(Op::kMatMul, graph::MatMulAttrs{}, {centered(c, c.input(0), aq), centered(c, c.input(1), bq)});
  Made a_scale = spread_parameter(c, aq.scale, c.input_value(0).shape, aq);
  Made y = rescaled(c, product, a_scale, spread_parameter(c, bq.scale, c.input_value(1).shape, bq));
  return c.finish(c.has_input(6) ? c.arithmetic(Op::kAdd, y, c.input(6)) : y);
}

// com.microsoft: A in floats, B quantized.
Result<void> import_dynamic_quantize_matmul(NodeContext& c) {
  TCC_TRY(Dynamic a, quantize_dynamically(c, c.input(0)));
  TCC_TRY(Quantization bq, read_quantization(c, 2, 3));
  bq.axis = c.rank(1) - 1;
  Made left = centered(c, a.y, {a.scale, a.zero, 1, 0});
  Made product = c.emit(Op::kMatMul, graph::MatMulAttrs{}, {left, centered(c, c.input(1), bq)});
  Made y = rescaled(c, product, a.scale, spread_parameter(c, bq.scale, c.input_value(1).shape, bq));
  return c.finish(c.has_input(4) ? c.arithmetic(Op::kAdd, y, c.input(4)) : y);
}

namespace {

Result<ValueId> dequantized_input(NodeContext& c, size_t x, size_t scale, size_t zero) {
  TCC_TRY(Quantization q, read_quantization(c, scale, zero));
  return dequantize(c, c.input(x), q, DType::kF32);
}

}  // namespace

// com.microsoft: A, its scale and zero point, B, its, those of the result.
Result<void> import_qlinear_binary(NodeContext& c) {
  TCC_TRY(Quantization aq, read_quantization(c, 1, 2));
  TCC_TRY(Quantization bq, read_quantization(c, 4, 5));
  TCC_TRY(Quantization q, read_quantization(c, 6, 7));
  const DType type = q.zero ? c.value(*q.zero).dtype : c.input_value(0).dtype;
  auto number = [&](ValueId parameter) { return c.cast(c.emit_reshape(parameter, {}), DType::kF32); };
  if (c.op() == "QLinearMul") {
    TCC_TRY(ValueId product, c.arithmetic(Op::kMul, centered(c, c.input(0), aq), centered(c, c.input(3), bq)));
    return finish_rescaled(c, product, number(aq.scale), number(bq.scale), q, type);
  }
  // a x + (b y + c): the zero points make one number.
  Made shift = q.zero ? number(*q.zero) : Made(c.scalar(DType::kF32, 0));
  auto share = [&](size_t input, const Quantization& of) -> Made {
    TCC_TRY(ValueId factor, c.arithmetic(Op::kDiv, number(of.scale), number(q.scale)));
    if (of.zero) shift = c.arithmetic(Op::kSub, shift, c.arithmetic(Op::kMul, number(*of.zero), factor));
    return c.arithmetic(Op::kMul, c.cast(c.input(input), DType::kF32), factor);
  };
  TCC_TRY(ValueId a, share(0, aq));
  TCC_TRY(ValueId b, share(3, bq));
  Made sum = c.arithmetic(Op::kAdd, a, c.arithmetic(Op::kAdd, b, shift));
  return c.finish(quantize_scaled(c, sum, {q.scale, {}}, type));
}

// com.microsoft: X, its scale and zero point, those of the result.
Result<void> import_qlinear_unary(NodeContext& c) {
  TCC_TRY(ValueId x, dequantized_input(c, 0, 1, 2));
  TCC_TRY(Quantization q, read_quantization(c, 3, 4));
  Made y = x;
  if (c.op() == "QLinearSigmoid") {
    y = c.emit(Op::kSigmoid, graph::NoAttrs{}, {x});
  } else if (c.op() == "QLinearLeakyRelu") {
    TCC_TRY(double alpha, c.get_float("alpha", 0.01));
    y = c.emit(Op::kLeakyRelu, graph::LeakyAttrs{alpha}, {x});
  } else if (c.op() == "QLinearSoftmax") {
    TCC_TRY(int64_t axis, c.get_axis(-1, c.rank(0)));
    c.ignore_attribute("opset");
    y = c.emit(Op::kSoftmax, graph::AxisAttrs{axis}, {x});
  } else if (c.op() == "QLinearAveragePool") {
    TCC_TRY(bool last, c.get_flag("channels_last", false));
    TCC_TRY_VOID(spatial_axes(c));
    if (last) y = channels_moved(c, y, true);
    TCC_TRY(const ValueId pixels, y);
    y = emit_average_pool(c, pixels);
    if (last) y = channels_moved(c, y, false);
  } else {  // QLinearGlobalAveragePool
    TCC_TRY(bool last, c.get_flag("channels_last", false));
    if (c.rank(0) < 3) return input_error("needs an input of rank 3 or more");
    std::vector<int64_t> axes = last ? axes_from(1, c.rank(0) - 1) : axes_from(2, c.rank(0));
    y = c.reduce(Op::kReduceMean, x, axes, true);
  }
  return finish_quantized(c, y, q, c.input_value(0).dtype);
}

// com.microsoft: condition; X, its scale and zero point; Y, its; those of the result.
Result<void> import_qlinear_where(NodeContext& c) {
  if (c.input_value(0).dtype != DType::kBool)
    return input_error("the condition is {}, expected bool", graph::dtype_name(c.input_value(0).dtype));
  TCC_TRY(ValueId x, dequantized_input(c, 1, 2, 3));
  TCC_TRY(ValueId y, dequantized_input(c, 4, 5, 6));
  TCC_TRY(Quantization q, read_quantization(c, 7, 8));
  return finish_quantized(c, c.where(c.input(0), x, y), q, c.input_value(1).dtype);
}

// com.microsoft: scale and zero point of the result, then a tensor, its scale and its zero point, again and again.
Result<void> import_qlinear_concat(NodeContext& c) {
  if (c.input_count() < 5 || c.input_count() % 3 != 2)
    return input_error("has {} inputs, expected two and three for each tensor", c.input_count());
  TCC_TRY(Quantization q, read_quantization(c, 0, 1));
  TCC_TRY(int64_t axis, c.get_axis(0, c.rank(2)));
  std::vector<Made> parts;
  for (size_t i = 2; i < c.input_count(); i += 3) parts.push_back(dequantized_input(c, i, i + 1, i + 2));
  return finish_quantized(c, c.emit(Op::kConcat, graph::AxisAttrs{axis}, parts), q, c.input_value(2).dtype);
}

}  // namespace tcc::onnx
