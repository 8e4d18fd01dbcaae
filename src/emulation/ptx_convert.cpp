// cvt between all types with roundings and saturation, and cvta between address spaces.
#include <algorithm>

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_numbers.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

// --- the common ones -------------------------------------------------------------------------------------------------

template <class D, class A>
constexpr Handler kIntegers = &run_each<[](A a) { return static_cast<D>(a); }, D, A>;
constexpr auto kSingleOfHalf = [](uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, exponent = (h >> 10) & 0x1f, mantissa = h & 0x3ff;
  const float small = static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-24f;
  const uint32_t wide = (exponent == 31 ? 0xff : exponent + 112) << 23 | mantissa << 13;
  return std::bit_cast<float>((exponent == 0 ? std::bit_cast<uint32_t>(small) : wide) | sign);
};
template <bool kFlush>
constexpr auto kUnitRange = [](float a) {
  const float x = kFlush ? flush(a) : a;
  return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
};

// --- the general one -------------------------------------------------------------------------------------------------

// Bits 0-3 of imm: rounding (0 none, 1-4 rn rz rm rp, 5-8 rni rzi rmi rpi, 9 rna); then flush, saturate, relu; types in
// bits 8-15 (to) and 16-23 (from), register bytes in 24-27 (to) and 28-31 (from).
constexpr int64_t kFlush = 16, kSaturate = 32, kRelu = 64;

struct Conversion {
  int rounding;
  bool flushes, saturates, relu;
  Type to, from;
  int to_bytes, from_bytes;
};
Conversion unpack(int64_t imm) {
  return {static_cast<int>(imm & 15),
          (imm & kFlush) != 0,
          (imm & kSaturate) != 0,
          (imm & kRelu) != 0,
          static_cast<Type>((imm >> 8) & 0xff),
          static_cast<Type>((imm >> 16) & 0xff),
          static_cast<int>((imm >> 24) & 15),
          static_cast<int>((imm >> 28) & 15)};
}

uint64_t read_bits(const std::byte* at, int bytes) {
  uint64_t v = 0;
  std::memcpy(&v, at, static_cast<size_t>(bytes));
  return v;
}
double real_of(Type type, uint64_t bits) {
  if (type == Type::kF16) return interp::f16_value(static_cast<uint16_t>(bits));
  if (type == Type::kBF16) return interp::bf16_value(static_cast<uint16_t>(bits));
  if (type == Type::kF64) return std::bit_cast<double>(bits);
  return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
}
int64_t integer_of(Type type, uint64_t bits) {
  const int shift = 64 - 8 * type_bytes(type);
  return is_signed(type) ? static_cast<int64_t>(bits << shift) >> shift
                         : static_cast<int64_t>((bits << shift) >> shift);
}
double to_integral(double x, int rounding) {
  return rounding == 5   ? std::nearbyint(x)
         : rounding == 6 ? std::trunc(x)
         : rounding == 7 ? std::floor(x)
         : rounding == 8 ? std::ceil(x)
                         : x;
}
float single_rounded(double x, int rounding) {
  return rounding == 2   ? to_single<Rounding::kZero>(x)
         : rounding == 3 ? to_single<Rounding::kDown>(x)
         : rounding == 4 ? to_single<Rounding::kUp>(x)
                         : to_single<Rounding::kNearest>(x);
}
uint16_t half_rounded(double x, int rounding, bool brain) {
  const auto bits = [&](double v) { return brain ? interp::bf16_bits(v) : interp::f16_bits(v); };
  double r = brain ? interp::round_bf16(x) : interp::round_f16(x);
  const double largest = brain ? 0x1.fep127 : 65504.0;
  if (rounding == 2 && std::isinf(r) && !std::isinf(x)) r = std::copysign(largest, x);
  // Towards zero: a value that grew is one step too far.
  if (rounding == 2 && std::fabs(r) > std::fabs(x)) return static_cast<uint16_t>(bits(r) - 1);
  return bits(r);
}
uint64_t real_bits(const Conversion& c, double x) {
  x = to_integral(x, c.rounding);
  if (c.saturates) x = x > 0 ? std::min(x, 1.0) : 0.0;
  if (c.relu && !(x > 0) && !std::isnan(x)) x = 0.0;
  if (c.to == Type::kF16 || c.to == Type::kBF16) return half_rounded(x, c.rounding, c.to == Type::kBF16);
  if (c.to == Type::kF64) return std::bit_cast<uint64_t>(x);
  if (c.to == Type::kTF32) {
    // Nearest, ties away from zero, of ten bits after the point.
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(x));
    if ((bits & 0x7f800000u) == 0x7f800000u) return bits;
    if (c.rounding == 9) return (bits + 0x1000u) & ~0x1fffu;
    return (bits + 0xfffu + ((bits >> 13) & 1)) & ~0x1fffu;
  }
  const float f = single_rounded(x, c.rounding);
  return std::bit_cast<uint32_t>(c.flushes ? flush(f) : f);
}
uint64_t integer_bits_of_real(Type to, double x) {
  if (std::isnan(x)) return 0;
  const int bits = 8 * type_bytes(to);
  const double high = std::ldexp(1.0, is_signed(to) ? bits - 1 : bits), low = is_signed(to) ? -high : 0.0;
  if (x >= high) return is_signed(to) ? (uint64_t{1} << (bits - 1)) - 1 : ~uint64_t{0} >> (64 - bits);
  if (x <= low) return is_signed(to) ? uint64_t{1} << (bits - 1) : 0;
  return is_signed(to) ? static_cast<uint64_t>(static_cast<int64_t>(x)) : static_cast<uint64_t>(x);
}
double real_of_integer(Type from, int64_t v) {
  if (is_signed(from) || v >= 0) return interp::odd_double(v);
  // Unsigned above 2^63: halve with a sticky last bit.
  return 2.0 *
         interp::odd_double(static_cast<int64_t>((static_cast<uint64_t>(v) >> 1) | (static_cast<uint64_t>(v) & 1)));
}
uint64_t saturated_integer(Type to, Type from, int64_t v) {
  const int bits = 8 * type_bytes(to);
  const bool huge = !is_signed(from) && v < 0;  // an unsigned number of 64 bits
  if (is_signed(to)) {
    const int64_t high = bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1;
    return static_cast<uint64_t>(huge ? high : std::clamp(v, -high - 1, high));
  }
  const uint64_t high = ~uint64_t{0} >> (64 - bits);
  if (is_signed(from) && v < 0) return 0;
  return std::min(static_cast<uint64_t>(v), high);
}
uint64_t convert(const Conversion& c, uint64_t bits) {
  if (is_real(c.from)) {
    double x = real_of(c.from, bits);
    if (c.flushes && c.from == Type::kF32) x = static_cast<double>(flush(static_cast<float>(x)));
    return is_real(c.to) || c.to == Type::kTF32 ? real_bits(c, x)
                                                : integer_bits_of_real(c.to, to_integral(x, c.rounding));
  }
  const int64_t v = integer_of(c.from, bits);
  if (!is_real(c.to)) return c.saturates ? saturated_integer(c.to, c.from, v) : static_cast<uint64_t>(v);
  if (c.to == Type::kF64)
    return std::bit_cast<uint64_t>(is_signed(c.from) ? static_cast<double>(v)
                                                     : static_cast<double>(static_cast<uint64_t>(v)));
  return real_bits(c, real_of_integer(c.from, v));
}

void run_convert(Warp& w, const Ins& i, uint32_t lanes) {
  const Conversion c = unpack(i.imm);
  const std::byte* a = w.source<std::byte>(i.a);
  std::byte* d = w.row<std::byte>(i.d);
  for_lanes(lanes, [&](int l) {
    uint64_t r = convert(c, read_bits(a + l * c.from_bytes, c.from_bytes));
    // A narrow integer fills its register by its sign.
    if (!is_real(c.to) && c.to != Type::kTF32) r = static_cast<uint64_t>(integer_of(c.to, r));
    std::memcpy(d + l * c.to_bytes, &r, static_cast<size_t>(c.to_bytes));
  });
}
// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half.
void run_convert_pair(Warp& w, const Ins& i, uint32_t lanes) {
  Conversion c = unpack(i.imm);
  uint32_t* d = w.row<uint32_t>(i.d);
  const float* a = w.source<float>(i.a);
  const float* b = w.source<float>(i.b);
  for_lanes(lanes, [&](int l) {
    const uint64_t high = real_bits(c, static_cast<double>(a[l])), low = real_bits(c, static_cast<double>(b[l]));
    d[l] = static_cast<uint32_t>(high << 16 | low);
  });
}

// The fast form of a plain conversion whose registers are as wide as its types.
Handler integers_handler(int to, int from, bool sign) {
  if (to == 8 && from == 4) return sign ? kIntegers<int64_t, int32_t> : kIntegers<uint64_t, uint32_t>;
  if (to == 4 && from == 8) return kIntegers<uint32_t, uint64_t>;
  if (to == 4 && from == 2) return sign ? kIntegers<int32_t, int16_t> : kIntegers<uint32_t, uint16_t>;
  if (to == 2 && from == 4) return kIntegers<uint16_t, uint32_t>;
  return nullptr;
}

void select_cvt(Selector& x) {
  const int rounding = 1 + x.op.take_one({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"});
  const bool flushes = x.op.take("ftz"), saturates = x.op.take("sat"), relu = x.op.take("relu");
  const auto to = x.op.take_type(), from = x.op.take_type();
  if (!to || !from || !x.op.done()) return;
  const bool pair = *to == Type::kF16x2 || *to == Type::kBF16x2;
  const auto convertible = [](Type t) {
    return t != Type::kPred && t != Type::kB128 && t != Type::kF16x2 && t != Type::kBF16x2;
  };
  if ((!convertible(*to) && !pair) || !convertible(*from) || (pair && *from != Type::kF32)) return;
  // Reals to integers round to integers; narrower reals and reals of integers need a rounding.
  if (is_real(*from) && !is_real(*to) && *to != Type::kTF32 && !pair && rounding < 5) return;
  if (rounding > 2 && rounding < 5 && *to != Type::kF32) return;
  x.need(pair ? 3 : 2, pair ? 3 : 2);
  const Type element = *to == Type::kF16x2 ? Type::kF16 : *to == Type::kBF16x2 ? Type::kBF16 : *to;
  int to_bytes = 4, from_bytes = 4;
  x.ins.d = x.any_result(x.at(0), to_bytes);
  if (x.at(1).kind == Operand::Kind::kRegister) {
    x.ins.a = x.any_register(x.at(1), from_bytes);
  } else {
    from_bytes = std::max(type_bytes(*from), 2);
    x.ins.a = x.value(1, from_bytes);
  }
  if (to_bytes < type_bytes(*to) || from_bytes < type_bytes(*from))
    x.fail(fmt::format("a register of {} is narrower than its type", x.s.opcode));
  if (pair) x.ins.b = x.value(2, 4);
  x.ins.imm = rounding | (flushes ? kFlush : 0) | (saturates ? kSaturate : 0) | (relu ? kRelu : 0) |
              static_cast<int64_t>(element) << 8 | static_cast<int64_t>(*from) << 16 |
              static_cast<int64_t>(to_bytes) << 24 | static_cast<int64_t>(from_bytes) << 28;
  x.ins.run = pair ? &run_convert_pair : &run_convert;
  const bool exact = to_bytes == type_bytes(*to) && from_bytes == type_bytes(*from);
  if (pair || !exact || relu) return;
  if (*from == Type::kF16 && *to == Type::kF32 && !saturates && rounding == 0)
    x.ins.run = &run_each<kSingleOfHalf, float, uint16_t>;
  if (*from == Type::kF32 && *to == Type::kF32 && saturates && rounding == 0)
    x.ins.run = flushes ? elementwise<kUnitRange<true>, 1, float>() : elementwise<kUnitRange<false>, 1, float>();
  if (is_real(*from) || is_real(*to) || *to == Type::kTF32 || saturates) return;
  if (const Handler fast = integers_handler(to_bytes, from_bytes, is_signed(*from))) x.ins.run = fast;
}

void run_shift_window(Warp& w, const Ins& i, uint32_t lanes) {
  uint64_t* d = w.row<uint64_t>(i.d);
  const uint64_t* a = w.source<uint64_t>(i.a);
  const auto by = static_cast<uint64_t>(i.imm);
  for_lanes(lanes, [&](int l) { d[l] = a[l] + by; });
}

}  // namespace

void select_convert(Selector& x) {
  if (x.op.base() == "cvt") return select_cvt(x);
  const bool from_generic = x.op.take("to");
  const int space = x.op.take_one({"global", "shared", "shared::cta", "local", "const", "param"});
  if (space < 0 || !x.op.take("u64") || !x.op.done()) return;
  const uint64_t window = space == 1 || space == 2 ? kSharedWindow : space == 3 ? kLocalWindow : 0;
  x.ins.imm = static_cast<int64_t>(from_generic ? 0 - window : window);
  x.ins.run = &run_shift_window;
  x.take_operands(8, {8});
}

}  // namespace tcc::emulation
