#include "small_types.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tcc::onnx {
namespace {

constexpr SmallType kSmallTypes[] = {
    {17, "float8e4m3fn", 8, SmallType::kFloat, 4, 3, 7, 0x7e, 0x7f, 0x7f},
    {18, "float8e4m3fnuz", 8, SmallType::kFloat, 4, 3, 8, 0x7f, 0x80, 0x80, false},
    {19, "float8e5m2", 8, SmallType::kFloat, 5, 2, 15, 0x7b, 0x7c, 0x7e},
    {20, "float8e5m2fnuz", 8, SmallType::kFloat, 5, 2, 16, 0x7f, 0x80, 0x80, false},
    {21, "uint4", 4, SmallType::kUnsigned},
    {22, "int4", 4, SmallType::kSigned},
    {23, "float4e2m1", 4, SmallType::kFloat, 2, 1, 1, 7, 7, 8},
    {24, "float8e8m0", 8, SmallType::kScale, 8, 0, 127, 0xfe, 0xff, 0xff},
    {25, "uint2", 2, SmallType::kUnsigned},
    {26, "int2", 2, SmallType::kSigned},
};

// The number that a code of a float means.
double number_of_code(const SmallType& t, int code) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (t.kind == SmallType::kScale) return code == t.nan ? kNan : std::ldexp(1, code - t.bias);
  const int sign_bit = 1 << (t.bits - 1), magnitude = code & (sign_bit - 1);
  if (!t.negative_zero && code == sign_bit) return kNan;
  const double sign = code < sign_bit ? 1 : -1;
  if (magnitude > t.top) return magnitude == t.overflow && t.overflow != t.nan ? sign * INFINITY : kNan;
  const int field = magnitude >> t.mantissa, fraction = magnitude & ((1 << t.mantissa) - 1);
  const int exponent = std::max(field, 1) - t.bias - t.mantissa;
  return sign * std::ldexp(field == 0 ? fraction : fraction + (1 << t.mantissa), exponent);
}

// Makes the nodes that convert numbers to codes, in one float type.
class Encoder {
 public:
  Encoder(NodeContext& c, const SmallType& type, DType dtype) : c_(c), t_(type), dtype_(dtype) {}

  Made encode(const Made& x, bool saturate) {
    const double highest = std::ldexp(1, (1 << t_.exponent) - 1);  // of y below: beyond every number of the type
    // In units of the smallest normal number, y = 2^exponent * rest with 1 <= rest < 2, or rest < 1 and exponent 0.
    Made y = times(c_.unary(UnaryFn::kAbs, x), std::ldexp(1, t_.bias - 1));
    y = c_.emit(Op::kClip, graph::ClipAttrs{0, highest}, {y});
    auto [exponent, rest] = split(y, 1 << (t_.exponent - 1));
    Made fraction = c_.unary(UnaryFn::kRound, times(rest, 1 << t_.mantissa));
    Made code = plus(times(exponent, 1 << t_.mantissa), fraction);
    code = bounded(code, saturate);
    Made signed_code = c_.where(is_negative(x), plus(code, number(1 << (t_.bits - 1))), code);
    // Where the negative zero is NaN, neither 0 nor NaN has a sign.
    if (!t_.negative_zero) {
      Made no_sign = c_.binary(BinaryFn::kOr, c_.binary(BinaryFn::kEqual, code, number(0)),
                               c_.binary(BinaryFn::kEqual, code, number(t_.nan)));
      signed_code = c_.where(no_sign, code, signed_code);
    }
    return finish(c_.unary(UnaryFn::kIsNan, x), signed_code);
  }

  // Powers of two; the sign is dropped.
  Made encode_scale(const Made& x, bool saturate, const std::string& round_mode) {
    Made y = times(c_.unary(UnaryFn::kAbs, x), std::ldexp(1, t_.bias));
    y = c_.emit(Op::kClip, graph::ClipAttrs{1, std::ldexp(1, 255)}, {y});
    auto [exponent, rest] = split(y, 128);
    Made code = exponent;
    if (round_mode != "down") {
      const bool up = round_mode == "up";
      // To nearest, the number in the middle goes up, but next to the smallest power.
      Made more = up ? c_.binary(BinaryFn::kLess, number(1), rest) : c_.binary(BinaryFn::kLess, number(1.5), rest);
      if (!up)
        more = c_.binary(BinaryFn::kOr, more,
                         c_.binary(BinaryFn::kAnd, c_.binary(BinaryFn::kEqual, rest, number(1.5)),
                                   c_.binary(BinaryFn::kLess, number(0), exponent)));
      code = plus(code, c_.cast(more, dtype_));
    }
    code = bounded(code, saturate);
    Made odd = c_.binary(BinaryFn::kOr, c_.unary(UnaryFn::kIsNan, x), c_.unary(UnaryFn::kIsInf, x, 1, 1));
    return finish(odd, code);
  }

 private:
  struct Split {
    Made exponent, rest;
  };
  Made number(double v) { return c_.scalar(dtype_, v); }
  Made times(const Made& x, double factor) { return c_.arithmetic(Op::kMul, x, number(factor)); }
  Made plus(const Made& x, const Made& y) { return c_.arithmetic(Op::kAdd, x, y); }
  Made bounded(const Made& code, bool saturate) {
    return c_.where(c_.binary(BinaryFn::kLess, number(t_.top), code), number(saturate ? t_.top : t_.overflow), code);
  }

  // A search of the exponent, bit by bit: every product is exact.
  Split split(Made y, int first) {
    Made exponent = number(0);
    for (int step = first; step > 0; step /= 2) {
      Made large = c_.binary(BinaryFn::kLessOrEqual, number(std::ldexp(1, step)), y);
      y = c_.where(large, times(y, std::ldexp(1, -step)), y);
      exponent = plus(exponent, c_.where(large, number(step), number(0)));
    }
    return {exponent, y};
  }
  Made is_negative(const Made& x) {
    Made inverse = c_.unary(UnaryFn::kReciprocal, x);
    Made zero = c_.binary(BinaryFn::kAnd, c_.binary(BinaryFn::kEqual, x, number(0)),
                          c_.binary(BinaryFn::kLess, inverse, number(0)));
    return c_.binary(BinaryFn::kOr, c_.binary(BinaryFn::kLess, x, number(0)), zero);
  }
  Made finish(const Made& is_nan, const Made& code) {
    return c_.cast(c_.where(is_nan, number(t_.nan), code), DType::kU8);
  }

  NodeContext& c_;
  const SmallType& t_;
  const DType dtype_;
};

}  // namespace

const SmallType* small_type(int32_t onnx_type) {
  for (const SmallType& type : kSmallTypes)
    if (type.number == onnx_type) return &type;
  return nullptr;
}

Result<DType> storage_of(int32_t onnx_type) {
  const SmallType* small = small_type(onnx_type);
  if (small != nullptr) return small->storage();
  return dtype_of(onnx_type);
}

int64_t packed_bytes(const SmallType& type, int64_t count) {
  const int64_t in_byte = 8 / type.bits;
  return (count + in_byte - 1) / in_byte;
}

std::vector<std::byte> unpack(const SmallType& type, std::span<const std::byte> packed, int64_t count) {
  const int64_t in_byte = 8 / type.bits;
  const int mask = (1 << type.bits) - 1, sign = 1 << (type.bits - 1);
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int shift = static_cast<int>(i % in_byte) * type.bits;
    int v = (std::to_integer<int>(packed[static_cast<size_t>(i / in_byte)]) >> shift) & mask;
    if (type.kind == SmallType::kSigned) v = (v ^ sign) - sign;
    bytes.push_back(static_cast<std::byte>(v));
  }
  return bytes;
}

SmallUse small_use(const std::string& op) {
  static const std::set<std::string> kMoves = {
      "Concat",  "DepthToSpace", "Expand", "Flatten",      "Gather",  "GatherElements", "GatherND",  "Identity",
      "Reshape", "Slice",        "Split",  "SpaceToDepth", "Squeeze", "Tile",           "Transpose", "Unsqueeze"};
  static const std::set<std::string> kKnowing = {"BitCast", "Cast",           "CastLike", "DequantizeLinear",
                                                 "If",      "QuantizeLinear", "Shape",    "Size"};
  if (kKnowing.contains(op)) return SmallUse::kKnow;
  return kMoves.contains(op) ? SmallUse::kMove : SmallUse::kRefuse;
}

Made decode_small(NodeContext& c, const Made& x, const SmallType& type) {
  if (!x || !type.is_float()) return c.cast(x, DType::kF32);
  std::vector<double> numbers;
  for (int code = 0; code < 1 << type.bits; ++code) numbers.push_back(number_of_code(type, code));
  const auto count = static_cast<int64_t>(numbers.size());
  ValueId table = c.constant(DType::kF32, {count}, graph::make_constant_from_doubles(DType::kF32, numbers));
  return c.emit(Op::kGather, graph::AxisAttrs{0}, {table, c.cast(x, DType::kI32)});
}

Made encode_small(NodeContext& c, const Made& x, const SmallType& type, bool saturate, const std::string& round_mode) {
  if (!x) return x;
  if (type.kind == SmallType::kScale)
    return Encoder(c, type, DType::kF64).encode_scale(c.cast(x, DType::kF64), saturate, round_mode);
  if (type.kind == SmallType::kFloat) {
    const DType dtype = c.value(*x).dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    return Encoder(c, type, dtype).encode(c.cast(x, dtype), saturate || type.overflow == type.top);
  }
  Made bits = c.binary(BinaryFn::kBitAnd, c.cast(x, DType::kI32), c.scalar(DType::kI32, (1 << type.bits) - 1));
  if (type.kind == SmallType::kSigned) {
    ValueId sign = c.scalar(DType::kI32, 1 << (type.bits - 1));
    bits = c.arithmetic(Op::kSub, c.binary(BinaryFn::kBitXor, bits, sign), sign);
  }
  return c.cast(bits, type.storage());
}

}  // namespace tcc::onnx
