// Integer arithmetic and bit fields. Semantics as in the PTX ISA manual, "Integer Arithmetic Instructions" and "Logic
// and Shift Instructions".
#include <algorithm>

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

struct Add {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<Modular<T>>(a) + static_cast<Modular<T>>(b));
  }
};
struct Sub {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<Modular<T>>(a) - static_cast<Modular<T>>(b));
  }
};
struct MulLow {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<Modular<T>>(a) * static_cast<Modular<T>>(b));
  }
};
struct MulHigh {
  template <class T>
  static T run(T a, T b) {
    if constexpr (sizeof(T) == 8) {
      using W = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
      return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> 64);
    } else {
      using W = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
      return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> (8 * sizeof(T)));
    }
  }
};
// The result of a division by zero is all ones on today's machines (undefined by the manual).
struct Div {
  template <class T>
  static T run(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(Modular<T>{0} - static_cast<Modular<T>>(a));
    }
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T run(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  static T run(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static T run(T a, T b) {
    return a < b ? b : a;
  }
};
struct Abs {
  template <class T>
  static T run(T a) {
    return static_cast<T>(a < 0 ? Modular<T>{0} - static_cast<Modular<T>>(a) : static_cast<Modular<T>>(a));
  }
};
struct Neg {
  template <class T>
  static T run(T a) {
    return static_cast<T>(Modular<T>{0} - static_cast<Modular<T>>(a));
  }
};
struct Cnot {
  template <class T>
  static T run(T a) {
    return a == 0;
  }
};
struct SaturatedAdd {
  static int32_t run(int32_t a, int32_t b) {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} + b, INT32_MIN, INT32_MAX));
  }
};
struct SaturatedSub {
  static int32_t run(int32_t a, int32_t b) {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} - b, INT32_MIN, INT32_MAX));
  }
};
// The amount is a 32-bit register; more than the width shifts everything out.
struct ShiftLeft {
  template <class T>
  static T run(T a, uint32_t b) {
    return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<Modular<T>>(a) << b);
  }
};
struct ShiftRight {
  template <class T>
  static T run(T a, uint32_t b) {
    const uint32_t most = 8 * sizeof(T) - 1;
    if (b > most) return std::is_signed_v<T> ? static_cast<T>(a >> most) : T{0};
    return static_cast<T>(a >> b);
  }
};
struct Popc {
  template <class T>
  static uint32_t run(T a) {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct Clz {
  template <class T>
  static uint32_t run(T a) {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
struct Brev {
  template <class T>
  static T run(T a) {
    T r = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i) r = static_cast<T>((r << 1) | ((a >> i) & 1));
    return r;
  }
};
struct Bfind {
  template <class T>
  static uint32_t run(T a) {
    using U = UnsignedOf<T>;
    const U bits = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
    return bits == 0 ? ~0u : static_cast<uint32_t>(std::bit_width(bits) - 1);
  }
};
struct Bfe {
  template <class T>
  static T run(T a, uint32_t position, uint32_t length) {
    constexpr uint32_t kMost = 8 * sizeof(T) - 1;
    const uint32_t pos = position & 0xff, len = length & 0xff;
    const bool sign =
        std::is_signed_v<T> && len != 0 && ((static_cast<UnsignedOf<T>>(a) >> std::min(pos + len - 1, kMost)) & 1) != 0;
    UnsignedOf<T> r = 0;
    for (uint32_t i = 0; i <= kMost; ++i) {
      const bool bit = i < len && pos + i <= kMost ? ((static_cast<UnsignedOf<T>>(a) >> (pos + i)) & 1) != 0 : sign;
      if (bit) r |= UnsignedOf<T>{1} << i;
    }
    return static_cast<T>(r);
  }
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
struct MulWide {
  template <class T>
  static auto run(T a, T b) {
    using W = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                                 std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
    return static_cast<W>(static_cast<W>(a) * static_cast<W>(b));
  }
};
struct MadLow {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(MulLow::run(a, b), c);
  }
};
struct MadHigh {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(MulHigh::run(a, b), c);
  }
};
struct MadWide {
  template <class T, class W>
  static W run(T a, T b, W c) {
    return Add::run(static_cast<W>(MulWide::run(a, b)), c);
  }
};
template <class T>
T low24(T a) {
  return std::is_signed_v<T> ? static_cast<T>(static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8)
                             : static_cast<T>(a & 0xffffff);
}
struct Mul24 {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<int64_t>(low24(a)) * static_cast<int64_t>(low24(b)));
  }
};
struct Mad24 {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(Mul24::run(a, b), c);
  }
};
struct Sad {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(a < b ? Sub::run(b, a) : Sub::run(a, b), c);
  }
};
struct Prmt {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = (static_cast<uint64_t>(b) << 32) | a;
    uint32_t d = 0;
    for (int i = 0; i < 4; ++i) {
      const uint32_t pick = (selector >> (4 * i)) & 0xf;
      uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (pick & 7))) & 0xff;
      if ((pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
      d |= byte << (8 * i);
    }
    return d;
  }
};
template <bool kLeft, bool kWrap>
struct FunnelShift {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t amount) {
    const uint32_t n = kWrap ? amount & 31 : std::min(amount, 32u);
    const uint64_t both = (static_cast<uint64_t>(b) << 32) | a;
    return kLeft ? static_cast<uint32_t>((both << n) >> 32) : static_cast<uint32_t>(both >> n);
  }
};
// Sums of products of bytes (4) or of two 16-bit halves of a with two bytes of b.
template <class A, class B>
struct Dot4 {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t c) {
    int64_t sum = static_cast<int32_t>(c);
    for (int i = 0; i < 4; ++i)
      sum += static_cast<int64_t>(static_cast<A>(a >> (8 * i))) * static_cast<B>(b >> (8 * i));
    return static_cast<uint32_t>(sum);
  }
};
template <class A, class B, int kShift>
struct Dot2 {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t c) {
    int64_t sum = static_cast<int32_t>(c);
    for (int i = 0; i < 2; ++i)
      sum += static_cast<int64_t>(static_cast<A>(a >> (16 * i))) * static_cast<B>(b >> (8 * i + kShift));
    return static_cast<uint32_t>(sum);
  }
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

void operands2(Selector& x, int bytes, int result_bytes = 0) {
  x.need(3, 3);
  x.ins.d = x.result(0, result_bytes != 0 ? result_bytes : bytes);
  x.ins.a = x.value(1, bytes);
  x.ins.b = x.value(2, bytes);
}
void operands1(Selector& x, int result_bytes, int bytes) {
  x.need(2, 2);
  x.ins.d = x.result(0, result_bytes);
  x.ins.a = x.value(1, bytes);
}
void operands3(Selector& x, int bytes, int third_bytes, int result_bytes) {
  x.need(4, 4);
  x.ins.d = x.result(0, result_bytes);
  x.ins.a = x.value(1, bytes);
  x.ins.b = x.value(2, bytes);
  x.ins.c = x.value(3, third_bytes);
}

template <class Wide>
Handler wide_handler(Type type) {
  return with_integer(type, [](auto tag) -> Handler {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) > 4) {
      return nullptr;
    } else {
      using W = decltype(MulWide::run(T{}, T{}));
      if constexpr (std::is_same_v<Wide, MadWide>) {
        return &run_ternary<W, T, T, W, MadWide>;
      } else {
        return &run_binary<W, T, T, MulWide>;
      }
    }
  });
}
template <class Op>
Handler integer_ternary(Type type) {
  return with_integer(type, [](auto tag) -> Handler {
    using T = typename decltype(tag)::type;
    return &run_ternary<T, T, T, T, Op>;
  });
}

void select_product(Selector& x, Type type, bool sum) {
  const int bytes = type_bytes(type);
  const int part = x.op.take_one({"lo", "hi", "wide"});
  if (part < 0 || !x.op.done()) return;
  if (part == 2) {
    if (bytes > 4) return;
    x.ins.run = sum ? wide_handler<MadWide>(type) : wide_handler<MulWide>(type);
  } else if (sum) {
    x.ins.run = part == 0 ? integer_ternary<MadLow>(type) : integer_ternary<MadHigh>(type);
  } else {
    x.ins.run = part == 0 ? integer_binary<MulLow>(type) : integer_binary<MulHigh>(type);
  }
  const int result = part == 2 ? 2 * bytes : bytes;
  if (!sum) {
    operands2(x, bytes, result);
  } else {
    operands3(x, bytes, result, result);
  }
}

void select_shift(Selector& x, Type type, bool left) {
  if (!x.op.done()) return;
  const int bytes = type_bytes(type);
  x.ins.run = with_integer(type, [&](auto tag) -> Handler {
    using T = typename decltype(tag)::type;
    return left ? &run_binary<T, T, uint32_t, ShiftLeft> : &run_binary<T, T, uint32_t, ShiftRight>;
  });
  x.need(3, 3);
  x.ins.d = x.result(0, bytes);
  x.ins.a = x.value(1, bytes);
  x.ins.b = x.value(2, 4);
}

// popc, clz, brev, bfind, bfe, bfi
void select_bits(Selector& x, Type type, std::string_view base) {
  if (!x.op.done()) return;
  const int bytes = type_bytes(type);
  if (bytes != 4 && bytes != 8) return;
  const bool wide = bytes == 8;
  if (base == "popc") x.ins.run = wide ? &run_unary<uint32_t, uint64_t, Popc> : &run_unary<uint32_t, uint32_t, Popc>;
  if (base == "clz") x.ins.run = wide ? &run_unary<uint32_t, uint64_t, Clz> : &run_unary<uint32_t, uint32_t, Clz>;
  if (base == "brev") x.ins.run = wide ? &run_unary<uint64_t, uint64_t, Brev> : &run_unary<uint32_t, uint32_t, Brev>;
  if (base == "bfind") {
    x.ins.run = with_integer(type, [](auto tag) -> Handler {
      using T = typename decltype(tag)::type;
      return &run_unary<uint32_t, T, Bfind>;
    });
  }
  if (x.ins.run != nullptr) return operands1(x, base == "brev" ? bytes : 4, bytes);
  if (base == "bfe") {
    x.ins.run = with_integer(type, [](auto tag) -> Handler {
      using T = typename decltype(tag)::type;
      return &run_ternary<T, T, uint32_t, uint32_t, Bfe>;
    });
    x.need(4, 4);
    x.ins.d = x.result(0, bytes);
    x.ins.a = x.value(1, bytes);
    x.ins.b = x.value(2, 4);
    x.ins.c = x.value(3, 4);
  } else if (base == "bfi") {
    x.ins.run = wide ? &run_bfi<uint64_t> : &run_bfi<uint32_t>;
    x.need(5, 5);
    x.ins.d = x.result(0, bytes);
    x.ins.a = x.value(1, bytes);
    x.ins.b = x.value(2, bytes);
    x.ins.c = x.value(3, 4);
    x.ins.extra = static_cast<int32_t>(x.code.extra.size());
    x.code.extra.push_back(x.value(4, 4));
  }
}

// prmt, shf, lop3: 32-bit words
void select_words(Selector& x, std::string_view base) {
  if (base == "prmt") x.ins.run = &run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, Prmt>;
  if (base == "lop3") {
    x.ins.run = &run_lop3;
    x.need(5, 5);
    x.ins.mode = static_cast<uint8_t>(x.literal(4).value_or(0));
  }
  if (base == "shf") {
    const int side = x.op.take_one({"l", "r"}), edge = x.op.take_one({"clamp", "wrap"});
    if (side < 0 || edge < 0) return;
    constexpr Handler kHandlers[2][2] = {
        {&run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, FunnelShift<true, false>>,
         &run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, FunnelShift<true, true>>},
        {&run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, FunnelShift<false, false>>,
         &run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, FunnelShift<false, true>>}};
    x.ins.run = kHandlers[side][edge];
  }
  if (!x.op.done()) x.ins.run = nullptr;
  if (x.ins.run == nullptr) return;
  if (base != "lop3") x.need(4, 4);
  x.ins.d = x.result(0, 4);
  x.ins.a = x.value(1, 4);
  x.ins.b = x.value(2, 4);
  x.ins.c = x.value(3, 4);
}

template <class Op>
constexpr Handler kWordsTernary = &run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, Op>;

void select_dot(Selector& x, Type a, std::string_view base) {
  const auto b = x.op.take_type();
  if (!b || type_bytes(a) != 4 || type_bytes(*b) != 4) return;
  const int part = base == "dp4a" ? 0 : 1 + x.op.take_one({"lo", "hi"});
  if ((base == "dp2a" && part == 0) || !x.op.done()) return;
  // By a signed, b signed; then dp4a, dp2a.lo, dp2a.hi.
  constexpr Handler kHandlers[2][2][3] = {
      {{kWordsTernary<Dot4<uint8_t, uint8_t>>, kWordsTernary<Dot2<uint16_t, uint8_t, 0>>,
        kWordsTernary<Dot2<uint16_t, uint8_t, 16>>},
       {kWordsTernary<Dot4<uint8_t, int8_t>>, kWordsTernary<Dot2<uint16_t, int8_t, 0>>,
        kWordsTernary<Dot2<uint16_t, int8_t, 16>>}},
      {{kWordsTernary<Dot4<int8_t, uint8_t>>, kWordsTernary<Dot2<int16_t, uint8_t, 0>>,
        kWordsTernary<Dot2<int16_t, uint8_t, 16>>},
       {kWordsTernary<Dot4<int8_t, int8_t>>, kWordsTernary<Dot2<int16_t, int8_t, 0>>,
        kWordsTernary<Dot2<int16_t, int8_t, 16>>}}};
  x.ins.run = kHandlers[is_signed(a)][is_signed(*b)][part];
  operands3(x, 4, 4, 4);
}

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
    x.ins.run = base == "mul24" ? integer_binary<Mul24>(*type) : integer_ternary<Mad24>(*type);
    return base == "mul24" ? operands2(x, 4) : operands3(x, 4, 4, 4);
  }
  if (*type == Type::kS32 && x.op.take("sat")) {
    if (base == "add") x.ins.run = &run_binary<int32_t, int32_t, int32_t, SaturatedAdd>;
    if (base == "sub") x.ins.run = &run_binary<int32_t, int32_t, int32_t, SaturatedSub>;
    return x.ins.run != nullptr && x.op.done() ? operands2(x, 4) : void(x.ins.run = nullptr);
  }
  if (!x.op.done()) return;
  if (base == "sad") {
    x.ins.run = integer_ternary<Sad>(*type);
    return operands3(x, bytes, bytes, bytes);
  }
  if (base == "abs") x.ins.run = integer_unary<Abs>(*type);
  if (base == "neg") x.ins.run = integer_unary<Neg>(*type);
  if (base == "cnot") x.ins.run = integer_unary<Cnot>(*type);
  if (x.ins.run != nullptr) return operands1(x, bytes, bytes);
  if (base == "add") x.ins.run = integer_binary<Add>(*type);
  if (base == "sub") x.ins.run = integer_binary<Sub>(*type);
  if (base == "div") x.ins.run = integer_binary<Div>(*type);
  if (base == "rem") x.ins.run = integer_binary<Rem>(*type);
  if (base == "min") x.ins.run = integer_binary<Min>(*type);
  if (base == "max") x.ins.run = integer_binary<Max>(*type);
  if (x.ins.run != nullptr) operands2(x, bytes);
}

}  // namespace tcc::emulation
