// Operators of one element: functions, comparisons, powers.
#include <algorithm>
#include <cmath>

#include "handlers.h"
#include "tcc/support/check.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

const graph::UnaryRow& function_row(const std::string& op) {
  for (const graph::UnaryRow& row : graph::unary_rows())
    if (row.since > 0 && row.name == op) return row;
  TCC_UNREACHABLE("{}", op);
}

}  // namespace

namespace {

// x - bias above lambd, x + bias below -lambd, else 0, of u32 and u64.
Made unsigned_shrink(NodeContext& c, double lambd, double bias) {
  const DType dtype = c.input_value(0).dtype;
  if (bias != std::trunc(bias) || std::abs(bias) > 0x1p53) {
    const Made wide =
        c.emit(Op::kUnary, graph::UnaryAttrs{UnaryFn::kShrink, lambd, bias}, {c.cast(c.input(0), DType::kF64)});
    return c.cast(wide, dtype);
  }
  const Made x = c.input(0), zero = c.scalar(dtype, 0), magnitude = c.scalar(dtype, std::abs(bias));
  const double most = dtype == DType::kU64 ? 0x1p64 : 0x1p32;
  auto moved = [&](bool up) { return c.arithmetic(up ? Op::kAdd : Op::kSub, x, magnitude); };
  if (lambd >= 0) {
    if (std::floor(lambd) >= most) return c.arithmetic(Op::kMul, x, zero);
    return c.where(c.binary(BinaryFn::kGreater, x, c.scalar(dtype, std::floor(lambd))), moved(bias < 0), zero);
  }
  if (std::ceil(-lambd) >= most) return moved(bias >= 0);
  const Made below = c.binary(BinaryFn::kLess, x, c.scalar(dtype, std::ceil(-lambd)));
  return c.where(below, moved(bias >= 0), moved(bias < 0));
}

}  // namespace

Result<void> import_function(NodeContext& c) {
  const graph::UnaryRow& row = function_row(c.op());
  if (graph::is_wide_unsigned(c.input_value(0).dtype)) {
    if (c.op() == "Abs") return c.finish(Op::kIdentity, graph::NoAttrs{}, {c.input(0)});
    if (c.op() == "Sign") return c.finish(c.binary(BinaryFn::kMin, c.input(0), c.scalar(c.input_value(0).dtype, 1)));
  }
  graph::ScalarAttributes named = row.attributes;
  // The defaults changed at opset 6.
  if (c.op() == "Selu" && c.opset() < 6) named.alpha = 1.6732, named.beta = 1.0507;
  graph::UnaryAttrs attrs{row.fn, named.alpha, named.beta};
  if (named.alpha_name != nullptr) TCC_TRY_SET(attrs.alpha, c.get_float(named.alpha_name, named.alpha));
  if (named.beta_name != nullptr) TCC_TRY_SET(attrs.beta, c.get_float(named.beta_name, named.beta));
  if (c.op() == "Shrink" && graph::is_wide_unsigned(c.input_value(0).dtype))
    return c.finish(unsigned_shrink(c, attrs.alpha, attrs.beta));
  if (c.op() == "IsInf") {
    TCC_TRY(attrs.alpha, c.get_flag("detect_positive", true));
    TCC_TRY(attrs.beta, c.get_flag("detect_negative", true));
  } else if (c.op() == "Gelu") {
    TCC_TRY(std::string form, c.get_string("approximate", "none"));
    if (form != "none" && form != "tanh")
      return input_error("approximate is '{}', expected none or tanh", sanitize(form));
    if (form == "tanh") attrs.fn = UnaryFn::kGeluTanh;
  }
  return c.finish(Op::kUnary, attrs, {c.input(0)});
}

Result<void> import_comparison(NodeContext& c) {
  static const std::map<std::string, BinaryFn> kFns = {
      {"And", BinaryFn::kAnd},         {"Or", BinaryFn::kOr},
      {"Xor", BinaryFn::kXor},         {"Equal", BinaryFn::kEqual},
      {"Less", BinaryFn::kLess},       {"LessOrEqual", BinaryFn::kLessOrEqual},
      {"Greater", BinaryFn::kGreater}, {"GreaterOrEqual", BinaryFn::kGreaterOrEqual}};
  TCC_TRY(ValueId b, legacy_broadcast(c, c.input(0), c.input(1)));
  return c.finish(Op::kBinary, graph::BinaryAttrs{kFns.at(c.op())}, {c.input(0), b});
}

Result<void> import_extremum(NodeContext& c) {
  BinaryFn fn = c.op() == "Max" ? BinaryFn::kMax : BinaryFn::kMin;
  ValueId result = c.input(0);
  for (size_t i = 1; i < c.input_count(); ++i) TCC_TRY_SET(result, c.binary(fn, result, c.input(i)));
  return c.finish(result);
}

Result<void> import_mean(NodeContext& c) {
  ValueId sum = c.input(0);
  for (size_t i = 1; i < c.input_count(); ++i) TCC_TRY_SET(sum, c.arithmetic(Op::kAdd, sum, c.input(i)));
  if (c.input_count() > 1) {
    ValueId count = c.scalar(c.value(sum).dtype, static_cast<double>(c.input_count()));
    TCC_TRY(sum, c.arithmetic(Op::kDiv, sum, count));
  }
  return c.finish(sum);
}

namespace {

constexpr int kDeepest = 8;             // nodes behind one another that never_negative follows
constexpr int64_t kMostNumbers = 4096;  // of a constant that it reads

// No element is below 0, nor is one -0. Variances and sums of squares are such values.
bool never_negative(const NodeContext& c, ValueId id, int depth = 0) {
  const graph::Value& v = c.value(id);
  if (v.is_constant()) {
    const int64_t count = v.constant->splat ? 1 : v.elements();
    if (!graph::is_float(v.dtype) || count > kMostNumbers) return false;
    for (int64_t i = 0; i < count; ++i)
      if (std::signbit(graph::constant_element(*v.constant, v.dtype, i))) return false;
    return true;
  }
  const graph::Node* node = c.producer(id);
  if (node == nullptr || depth == kDeepest) return false;
  auto all = [&] {
    return std::all_of(node->inputs.begin(), node->inputs.end(),
                       [&](ValueId input) { return never_negative(c, input, depth + 1); });
  };
  switch (node->op) {
    case Op::kMul:
      return node->inputs[0] == node->inputs[1] || all();
    case Op::kUnary:
      return node->as<graph::UnaryAttrs>().fn == UnaryFn::kAbs || node->as<graph::UnaryAttrs>().fn == UnaryFn::kExp;
    case Op::kAdd:
    case Op::kDiv:
    case Op::kReduceSum:
    case Op::kReduceMean:
    case Op::kReshape:
    case Op::kIdentity:
      return all();
    default:
      return false;
  }
}

// Of -infinity a power has infinity, and of -0 it has 0, where a root has neither.
Made half_power(NodeContext& c, ValueId x) {
  Made root = c.unary(UnaryFn::kSqrt, x);
  if (never_negative(c, x)) return root;
  const DType dtype = c.value(x).dtype;
  auto number = [&](double v) { return c.scalar(dtype, v); };
  root = c.where(c.binary(BinaryFn::kEqual, x, number(0)), number(0), root);
  return c.where(c.binary(BinaryFn::kEqual, x, number(-HUGE_VAL)), number(HUGE_VAL), root);
}

}  // namespace

Result<void> import_pow(NodeContext& c) {
  ValueId x = c.input(0);
  TCC_TRY(ValueId y, legacy_broadcast(c, x, c.input(1)));
  const graph::Value& power = c.value(y);
  DType dtype = c.value(x).dtype;
  bool scalar = power.is_constant() && power.elements() == 1 && power.shape.size() <= c.value(x).shape.size();
  double exponent = scalar ? graph::constant_element(*power.constant, power.dtype, 0) : 0;
  if (exponent == 2 || exponent == 3) {
    Made square = c.arithmetic(Op::kMul, x, x);
    return c.finish(exponent == 3 ? c.arithmetic(Op::kMul, square, x) : square);
  }
  if (exponent == 0.5 && graph::is_float(dtype)) return c.finish(half_power(c, x));
  // Integers to a fractional power are powers of reals, cut off.
  DType through = graph::is_float(dtype) || !graph::is_float(power.dtype) ? dtype : DType::kF64;
  Made base = c.cast(x, through);
  return c.finish(c.cast(c.binary(BinaryFn::kPow, base, c.cast(y, through)), dtype));
}

Result<void> import_mod(NodeContext& c) {
  TCC_TRY(bool fmod, c.get_flag("fmod", false));
  if (!fmod && graph::is_float(c.input_value(0).dtype)) {
    // Floats take it from opset 28 on: the remainder has the sign of the divisor, also where it is 0.
    if (c.opset() < 28) return input_error("floats need attribute fmod = 1");
    ValueId y = c.input(1), zero = c.scalar(c.value(y).dtype, 0);
    TCC_TRY(ValueId rest, c.binary(BinaryFn::kFMod, c.input(0), y));
    Made differ = c.binary(BinaryFn::kXor, c.binary(BinaryFn::kLess, rest, zero), c.binary(BinaryFn::kLess, y, zero));
    Made some = c.where(differ, c.arithmetic(Op::kAdd, rest, y), rest);
    Made none = c.where(c.binary(BinaryFn::kLess, y, zero), c.scalar(c.value(y).dtype, -0.0), zero);
    return c.finish(c.where(c.binary(BinaryFn::kEqual, rest, zero), none, some));
  }
  return c.finish(Op::kBinary, graph::BinaryAttrs{fmod ? BinaryFn::kFMod : BinaryFn::kMod}, {c.input(0), c.input(1)});
}

Result<void> import_prelu(NodeContext& c) {
  ValueId slope = c.input(1);
  const Shape& from = c.value(slope).shape;
  // Before opset 7 a vector of slopes belonged to the channels.
  if (c.opset() < 7 && from.size() == 1 && from[0] != 1 && c.rank(0) > 1) {
    Shape shape(static_cast<size_t>(c.rank(0)), 1);
    shape[1] = from[0];
    TCC_TRY(slope, c.emit_reshape(slope, shape));
  }
  if (graph::broadcast_shapes(c.input_value(0).shape, c.value(slope).shape) != c.input_value(0).shape) {
    return input_error("slope {} does not broadcast to {}", graph::shape_text(c.value(slope).shape),
                       graph::shape_text(c.input_value(0).shape));
  }
  // Nothing is below 0.
  if (graph::is_wide_unsigned(c.input_value(0).dtype)) return c.finish(Op::kIdentity, graph::NoAttrs{}, {c.input(0)});
  return c.finish(Op::kBinary, graph::BinaryAttrs{BinaryFn::kPRelu}, {c.input(0), slope});
}

Result<void> import_where(NodeContext& c) {
  return c.finish(Op::kWhere, graph::NoAttrs{}, {c.input(0), c.input(1), c.input(2)});
}

}  // namespace tcc::onnx
