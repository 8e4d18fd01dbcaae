// Integer arithmetic and bit fields. Semantics as in the PTX ISA manual, "Integer Arithmetic Instructions" and "Logic
// and Shift Instructions".
#include <algorithm>

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

constexpr auto kAdd = []<class T>(T a, T b) -> T {
  return static_cast<T>(static_cast<Modular<T>>(a) + static_cast<Modular<T>>(b));
};
constexpr auto kSub = []<class T>(T a, T b) -> T {
  return static_cast<T>(static_cast<Modular<T>>(a) - static_cast<Modular<T>>(b));
};
constexpr auto kMulLow = []<class T>(T a, T b) -> T {
  return static_cast<T>(static_cast<Modular<T>>(a) * static_cast<Modular<T>>(b));
};
constexpr auto kMulHigh = []<class T>(T a, T b) -> T {
  if constexpr (sizeof(T) == 8) {
    using W = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> 64);
  } else {
    using W = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> (8 * sizeof(T)));
  }
};
// The result of a division by zero is all ones on today's machines (undefined by the manual).
constexpr auto kDiv = []<class T>(T a, T b) -> T {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(Modular<T>{0} - static_cast<Modular<T>>(a));
  }
  return static_cast<T>(a / b);
};
constexpr auto kRem = []<class T>(T a, T b) -> T {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
};
constexpr auto kMin = []<class T>(T a, T b) -> T { return b < a ? b : a; };
constexpr auto kMax = []<class T>(T a, T b) -> T { return a < b ? b : a; };
constexpr auto kAbs = []<class T>(T a) -> T {
  return static_cast<T>(a < 0 ? Modular<T>{0} - static_cast<Modular<T>>(a) : static_cast<Modular<T>>(a));
};
constexpr auto kNeg = []<class T>(T a) -> T { return static_cast<T>(Modular<T>{0} - static_cast<Modular<T>>(a)); };
constexpr auto kCnot = []<class T>(T a) -> T { return a == 0; };
constexpr auto kSaturatedAdd = [](int32_t a, int32_t b) -> int32_t {
  return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} + b, INT32_MIN, INT32_MAX));
};
constexpr auto kSaturatedSub = [](int32_t a, int32_t b) -> int32_t {
  return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} - b, INT32_MIN, INT32_MAX));
};
// The amount is a 32-bit register; more than the width shifts everything out.
constexpr auto kShiftLeft = []<class T>(T a, uint32_t b) -> T {
  return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<Modular<T>>(a) << b);
};
constexpr auto kShiftRight = []<class T>(T a, uint32_t b) -> T {
  const uint32_t most = 8 * sizeof(T) - 1;
  if (b > most) return std::is_signed_v<T> ? static_cast<T>(a >> most) : T{0};
  return static_cast<T>(a >> b);
};
constexpr auto kPopc = []<class T>(T a) -> uint32_t { return static_cast<uint32_t>(std::popcount(a)); };
constexpr auto kClz = []<class T>(T a) -> uint32_t { return static_cast<uint32_t>(std::countl_zero(a)); };
constexpr auto kBrev = []<class T>(T a) -> T {
  T r = 0;
  for (size_t i = 0; i < 8 * sizeof(T); ++i) r = static_cast<T>((r << 1) | ((a >> i) & 1));
  return r;
};
constexpr auto kBfind = []<class T>(T a) -> uint32_t {
  using U = UnsignedOf<T>;
  const U bits = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
  return bits == 0 ? ~0u : static_cast<uint32_t>(std::bit_width(bits) - 1);
};
constexpr auto kBfe = []<class T>(T a, uint32_t position, uint32_t length) -> T {
  constexpr uint32_t kMax = 8 * sizeof(T) - 1;
  const uint32_t pos = position & 0xff, len = length & 0xff;
  const bool sign =
      std::is_signed_v<T> && len != 0 && ((static_cast<UnsignedOf<T>>(a) >> std::min(pos + len - 1, kMax)) & 1) != 0;
  UnsignedOf<T> r = 0;
  for (uint32_t i = 0; i <= kMax; ++i) {
    const bool bit = i < len && pos + i <= kMax ? ((static_cast<UnsignedOf<T>>(a) >> (pos + i)) & 1) != 0 : sign;
    if (bit) r |= UnsignedOf<T>{1} << i;
  }
  return static_cast<T>(r);
};
// d = b with the low bits of a put in at a position: operands a, b, position, length; the last is in `extra`.
template <class T>
void run_bfi(Warp& w, const Ins& i, uint32_t lanes) {
  T* d = w.row<T>(i.d);
  const T* a = w.source<T>(i.a);
  const T* b = w.source<T>(i.b);
  const uint32_t* position = w.source<uint32_t>(i.c);
  const uint32_t* length = w.source<uint32_t>(w.extra[i.extra]);
  for_lanes(lanes, [&](int l) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    const uint32_t pos = position[l] & 0xff, len = std::min(length[l] & 0xff, kBits);
    if (pos >= kBits || len == 0) {
      d[l] = b[l];
      return;
    }
    const T mask = static_cast<T>((len == kBits ? ~T{0} : static_cast<T>((T{1} << len) - 1)) << pos);
    d[l] = static_cast<T>((b[l] & ~mask) | (static_cast<T>(a[l] << pos) & mask));
  });
}
constexpr auto kMulWide = []<class T>(T a, T b) {
  using W = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                               std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
  return static_cast<W>(static_cast<W>(a) * static_cast<W>(b));
};
constexpr auto kMadLow = []<class T>(T a, T b, T c) -> T { return kAdd(kMulLow(a, b), c); };
constexpr auto kMadHigh = []<class T>(T a, T b, T c) -> T { return kAdd(kMulHigh(a, b), c); };
constexpr auto kMadWide = []<class T, class W>(T a, T b, W c) -> W { return kAdd(static_cast<W>(kMulWide(a, b)), c); };
template <class T>
T low24(T a) {
  return std::is_signed_v<T> ? static_cast<T>(static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8)
                             : static_cast<T>(a & 0xffffff);
}
constexpr auto kMul24 = []<class T>(T a, T b) -> T {
  return static_cast<T>(static_cast<int64_t>(low24(a)) * static_cast<int64_t>(low24(b)));
};
constexpr auto kMad24 = []<class T>(T a, T b, T c) -> T { return kAdd(kMul24(a, b), c); };
constexpr auto kSad = []<class T>(T a, T b, T c) -> T { return kAdd(a < b ? kSub(b, a) : kSub(a, b), c); };
constexpr auto kPrmt = [](uint32_t a, uint32_t b, uint32_t selector) -> uint32_t {
  const uint64_t bytes = (static_cast<uint64_t>(b) << 32) | a;
  uint32_t d = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t pick = (selector >> (4 * i)) & 0xf;
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (pick & 7))) & 0xff;
    if ((pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    d |= byte << (8 * i);
  }
  return d;
};
template <bool kLeft, bool kWrap>
constexpr auto kFunnelShift = [](uint32_t a, uint32_t b, uint32_t amount) -> uint32_t {
  const uint32_t n = kWrap ? amount & 31 : std::min(amount, 32u);
  const uint64_t both = (static_cast<uint64_t>(b) << 32) | a;
  return kLeft ? static_cast<uint32_t>((both << n) >> 32) : static_cast<uint32_t>(both >> n);
};
// Sums of products of bytes (4) or of two 16-bit halves of a with two bytes of b.
template <class A, class B>
constexpr auto kDot4 = [](uint32_t a, uint32_t b, uint32_t c) -> uint32_t {
  int64_t sum = static_cast<int32_t>(c);
  for (int i = 0; i < 4; ++i) sum += static_cast<int64_t>(static_cast<A>(a >> (8 * i))) * static_cast<B>(b >> (8 * i));
  return static_cast<uint32_t>(sum);
};
template <class A, class B, int kShift>
constexpr auto kDot2 = [](uint32_t a, uint32_t b, uint32_t c) -> uint32_t {
  int64_t sum = static_cast<int32_t>(c);
  for (int i = 0; i < 2; ++i)
    sum += static_cast<int64_t>(static_cast<A>(a >> (16 * i))) * static_cast<B>(b >> (8 * i + kShift));
  return static_cast<uint32_t>(sum);
};
void run_lop3(Warp& w, const Ins& i, uint32_t lanes) {
  uint32_t* d = w.row<uint32_t>(i.d);
  const uint32_t *a = w.source<uint32_t>(i.a), *b = w.source<uint32_t>(i.b), *c = w.source<uint32_t>(i.c);
  for_lanes(lanes, [&](int l) {
    uint32_t r = 0;
    for (int k = 0; k < 8; ++k) {
      if (((i.mode >> k) & 1) == 0) continue;
      r |= ((k & 4) != 0 ? a[l] : ~a[l]) & ((k & 2) != 0 ? b[l] : ~b[l]) & ((k & 1) != 0 ? c[l] : ~c[l]);
    }
    d[l] = r;
  });
}

template <bool kSum>
Handler wide_handler(Type type) {
  return with_integer(type, []<class T>(T) -> Handler {
    if constexpr (sizeof(T) > 4) {
      return nullptr;
    } else {
      using W = decltype(kMulWide(T{}, T{}));
      if constexpr (kSum) return &run_each<kMadWide, W, T, T, W>;
      return &run_each<kMulWide, W, T, T>;
    }
  });
}

void select_product(Selector& x, Type type, bool sum) {
  const int bytes = type_bytes(type);
  const int part = x.op.take_one({"lo", "hi", "wide"});
  if (part < 0 || !x.op.done()) return;
  if (part == 2) {
    if (bytes > 4) return;
    x.ins.run = sum ? wide_handler<true>(type) : wide_handler<false>(type);
  } else if (sum) {
    x.ins.run = part == 0 ? on_integers<kMadLow, 3>(type) : on_integers<kMadHigh, 3>(type);
  } else {
    x.ins.run = part == 0 ? on_integers<kMulLow, 2>(type) : on_integers<kMulHigh, 2>(type);
  }
  const int result = part == 2 ? 2 * bytes : bytes;
  sum ? x.take_operands(result, {bytes, bytes, result}) : x.take_operands(result, {bytes, bytes});
}

void select_shift(Selector& x, Type type, bool left) {
  if (!x.op.done()) return;
  const int bytes = type_bytes(type);
  x.ins.run = with_integer(type, [&]<class T>(T) -> Handler {
    return left ? &run_each<kShiftLeft, T, T, uint32_t> : &run_each<kShiftRight, T, T, uint32_t>;
  });
  x.take_operands(bytes, {bytes, 4});
}

// popc, clz, brev, bfind, bfe, bfi
void select_bits(Selector& x, Type type, std::string_view base) {
  if (!x.op.done()) return;
  const int bytes = type_bytes(type);
  if (bytes != 4 && bytes != 8) return;
  const bool wide = bytes == 8;
  if (base == "popc") x.ins.run = wide ? &run_each<kPopc, uint32_t, uint64_t> : &run_each<kPopc, uint32_t, uint32_t>;
  if (base == "clz") x.ins.run = wide ? &run_each<kClz, uint32_t, uint64_t> : &run_each<kClz, uint32_t, uint32_t>;
  if (base == "brev") x.ins.run = wide ? &run_each<kBrev, uint64_t, uint64_t> : &run_each<kBrev, uint32_t, uint32_t>;
  if (base == "bfind")
    x.ins.run = with_integer(type, []<class T>(T) -> Handler { return &run_each<kBfind, uint32_t, T>; });
  if (x.ins.run != nullptr) return x.take_operands(base == "brev" ? bytes : 4, {bytes});
  if (base == "bfe") {
    x.ins.run = with_integer(type, []<class T>(T) -> Handler { return &run_each<kBfe, T, T, uint32_t, uint32_t>; });
    x.take_operands(bytes, {bytes, 4, 4});
  } else if (base == "bfi") {
    x.ins.run = wide ? &run_bfi<uint64_t> : &run_bfi<uint32_t>;
    x.need(5);
    x.set_operands(bytes, {bytes, bytes, 4});
    x.begin_extra();
    x.code.extra.push_back(x.value(4, 4));
  }
}

template <auto Op>
constexpr Handler kWordsTernary = &run_each<Op, uint32_t, uint32_t, uint32_t, uint32_t>;

// prmt, shf, lop3: 32-bit words
void select_words(Selector& x, std::string_view base) {
  if (base == "prmt") x.ins.run = kWordsTernary<kPrmt>;
  if (base == "lop3") {
    x.ins.run = &run_lop3;
    x.need(5);
    x.ins.mode = static_cast<uint8_t>(x.literal(4).value_or(0));
  }
  if (base == "shf") {
    const int side = x.op.take_one({"l", "r"}), edge = x.op.take_one({"clamp", "wrap"});
    if (side < 0 || edge < 0) return;
    constexpr Handler kHandlers[2][2] = {
        {kWordsTernary<kFunnelShift<true, false>>, kWordsTernary<kFunnelShift<true, true>>},
        {kWordsTernary<kFunnelShift<false, false>>, kWordsTernary<kFunnelShift<false, true>>}};
    x.ins.run = kHandlers[side][edge];
  }
  if (!x.op.done()) x.ins.run = nullptr;
  if (x.ins.run == nullptr) return;
  if (base != "lop3") x.need(4);
  x.set_operands(4, {4, 4, 4});
}

void select_dot(Selector& x, Type a, std::string_view base) {
  const auto b = x.op.take_type();
  if (!b || type_bytes(a) != 4 || type_bytes(*b) != 4) return;
  const int part = base == "dp4a" ? 0 : 1 + x.op.take_one({"lo", "hi"});
  if ((base == "dp2a" && part == 0) || !x.op.done()) return;
  // By a signed, b signed; then dp4a, dp2a.lo, dp2a.hi.
  constexpr Handler kHandlers[2][2][3] = {
      {{kWordsTernary<kDot4<uint8_t, uint8_t>>, kWordsTernary<kDot2<uint16_t, uint8_t, 0>>,
        kWordsTernary<kDot2<uint16_t, uint8_t, 16>>},
       {kWordsTernary<kDot4<uint8_t, int8_t>>, kWordsTernary<kDot2<uint16_t, int8_t, 0>>,
        kWordsTernary<kDot2<uint16_t, int8_t, 16>>}},
      {{kWordsTernary<kDot4<int8_t, uint8_t>>, kWordsTernary<kDot2<int16_t, uint8_t, 0>>,
        kWordsTernary<kDot2<int16_t, uint8_t, 16>>},
       {kWordsTernary<kDot4<int8_t, int8_t>>, kWordsTernary<kDot2<int16_t, int8_t, 0>>,
        kWordsTernary<kDot2<int16_t, int8_t, 16>>}}};
  x.ins.run = kHandlers[is_signed(a)][is_signed(*b)][part];
  x.take_operands(4, {4, 4, 4});
}

// Operations on elements of one type, without modifiers.
struct PlainRow {
  std::string_view base;
  Handler (*handler)(Type);
  size_t operands;
};
constexpr PlainRow kPlain[] = {
    {"abs", on_integers<kAbs, 1>, 1}, {"neg", on_integers<kNeg, 1>, 1}, {"cnot", on_integers<kCnot, 1>, 1},
    {"add", on_integers<kAdd, 2>, 2}, {"sub", on_integers<kSub, 2>, 2}, {"div", on_integers<kDiv, 2>, 2},
    {"rem", on_integers<kRem, 2>, 2}, {"min", on_integers<kMin, 2>, 2}, {"max", on_integers<kMax, 2>, 2},
    {"sad", on_integers<kSad, 3>, 3},
};

}  // namespace

void select_integer(Selector& x) {
  const std::string_view base = x.op.base();
  const auto type = x.op.take_type();
  if (!type) return;
  const int bytes = type_bytes(*type);
  if (base == "dp4a" || base == "dp2a") return select_dot(x, *type, base);
  if (base == "mul" || base == "mad") return select_product(x, *type, base == "mad");
  if (base == "shl" || base == "shr") return select_shift(x, *type, base == "shl");
  if (base == "popc" || base == "clz" || base == "brev" || base == "bfind" || base == "bfe" || base == "bfi")
    return select_bits(x, *type, base);
  if (base == "prmt" || base == "shf" || base == "lop3") return bytes == 4 ? select_words(x, base) : void();
  if (base == "mul24" || base == "mad24") {
    if (!x.op.take("lo") || !x.op.done() || bytes != 4) return;
    x.ins.run = base == "mul24" ? on_integers<kMul24, 2>(*type) : on_integers<kMad24, 3>(*type);
    return base == "mul24" ? x.take_operands(4, {4, 4}) : x.take_operands(4, {4, 4, 4});
  }
  if (*type == Type::kS32 && x.op.take("sat")) {
    if (base == "add") x.ins.run = elementwise<kSaturatedAdd, 2, int32_t>();
    if (base == "sub") x.ins.run = elementwise<kSaturatedSub, 2, int32_t>();
    return x.ins.run != nullptr && x.op.done() ? x.take_operands(4, {4, 4}) : void(x.ins.run = nullptr);
  }
  const auto row =
      std::find_if(std::begin(kPlain), std::end(kPlain), [&](const PlainRow& r) { return r.base == base; });
  if (row == std::end(kPlain) || !x.op.done()) return;
  x.ins.run = row->handler(*type);
  if (x.ins.run != nullptr) x.take_same_operands(bytes, row->operands);
}

}  // namespace tcc::emulation
