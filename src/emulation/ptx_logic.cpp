// Comparisons, selections, logic, predicates and moves.
#include <algorithm>

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_numbers.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

// --- comparisons -----------------------------------------------------------------------------------------------------

// Ordered comparisons are false when an operand is NaN, the unordered ones (equ, ...) true.
struct Eq {
  template <class T>
  static bool run(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <class T>
  static bool run(T a, T b) {
    return a < b || b < a;
  }
};
struct Lt {
  template <class T>
  static bool run(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static bool run(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <class T>
  static bool run(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <class T>
  static bool run(T a, T b) {
    return a >= b;
  }
};
template <class Opposite>
struct Unless {
  template <class T>
  static bool run(T a, T b) {
    return !Opposite::run(a, b);
  }
};
struct Numbers {
  template <class T>
  static bool run(T a, T b) {
    return a == a && b == b;
  }
};

// How a 16-bit pattern is compared.
template <class T>
struct Plain {
  using Stored = T;
  static T value(T x) { return x; }
};
struct Flushed {
  using Stored = float;
  static float value(float x) { return flush(x); }
};
template <class Format>
struct Narrow {
  using Stored = uint16_t;
  static double value(uint16_t x) { return Format::value(x); }
};

// mode: what the result is combined with, 0 nothing, 1 and, 2 or, 3 xor; bit 2: that predicate is negated.
// extra: [0] the predicate of the opposite or -1, [1] the combined predicate.
template <class View, class Compare>
void run_setp(Warp& w, const Ins& i, uint32_t lanes) {
  using T = typename View::Stored;
  const T* a = w.source<T>(i.a);
  const T* b = w.source<T>(i.b);
  uint32_t r = 0;
  for_lanes(lanes, [&](int l) { r |= static_cast<uint32_t>(Compare::run(View::value(a[l]), View::value(b[l]))) << l; });
  const int32_t opposite = w.extra[i.extra], with = w.extra[i.extra + 1];
  uint32_t not_r = ~r;
  if ((i.mode & 3) != 0) {
    const uint32_t c = (i.mode & 4) != 0 ? ~w.preds[with] : w.preds[with];
    const auto combine = [&](uint32_t v) { return (i.mode & 3) == 1 ? v & c : (i.mode & 3) == 2 ? v | c : v ^ c; };
    r = combine(r);
    not_r = combine(not_r);
  }
  w.preds[i.d] = (w.preds[i.d] & ~lanes) | (r & lanes);
  if (opposite >= 0) w.preds[opposite] = (w.preds[opposite] & ~lanes) | (not_r & lanes);
}

// The number of a comparison among these.
int take_comparison(Opcode& op) {
  return op.take_one({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
                      "geu", "num", "nan"});
}

template <class View>
Handler setp_handler(int comparison, bool real) {
  if (!real && comparison >= 10) return nullptr;
  if (real && comparison >= 6 && comparison < 10) return nullptr;
  switch (comparison) {
    case 0:
      return &run_setp<View, Eq>;
    case 1:
      return &run_setp<View, Ne>;
    case 2:
    case 6:
      return &run_setp<View, Lt>;
    case 3:
    case 7:
      return &run_setp<View, Le>;
    case 4:
    case 8:
      return &run_setp<View, Gt>;
    case 5:
    case 9:
      return &run_setp<View, Ge>;
    case 10:
      return &run_setp<View, Unless<Ne>>;
    case 11:
      return &run_setp<View, Unless<Eq>>;
    case 12:
      return &run_setp<View, Unless<Ge>>;
    case 13:
      return &run_setp<View, Unless<Gt>>;
    case 14:
      return &run_setp<View, Unless<Le>>;
    case 15:
      return &run_setp<View, Unless<Lt>>;
    case 16:
      return &run_setp<View, Numbers>;
    case 17:
      return &run_setp<View, Unless<Numbers>>;
    default:
      return nullptr;
  }
}

Handler typed_setp(int comparison, Type type, bool flushes) {
  if (type == Type::kF32)
    return flushes ? setp_handler<Flushed>(comparison, true) : setp_handler<Plain<float>>(comparison, true);
  if (flushes) return nullptr;
  if (type == Type::kF64) return setp_handler<Plain<double>>(comparison, true);
  if (type == Type::kF16) return setp_handler<Narrow<Half>>(comparison, true);
  if (type == Type::kBF16) return setp_handler<Narrow<Brain>>(comparison, true);
  return with_integer(
      type, [&](auto tag) -> Handler { return setp_handler<Plain<typename decltype(tag)::type>>(comparison, false); });
}

void select_setp(Selector& x) {
  const auto type = x.op.take_type();
  const bool flushes = x.op.take("ftz");
  const int comparison = take_comparison(x.op);
  const int combined = x.op.take_one({"and", "or", "xor"});
  if (!type || comparison < 0 || !x.op.done()) return;
  x.ins.run = typed_setp(comparison, *type, flushes);
  if (x.ins.run == nullptr) return;
  x.need(combined < 0 ? 3 : 4, combined < 0 ? 3 : 4);
  x.ins.d = x.predicate_result(0);
  x.ins.a = x.value(1, type_bytes(*type));
  x.ins.b = x.value(2, type_bytes(*type));
  int32_t opposite = -1, with = -1;
  if (const auto& second = x.at(0).second; !second.empty()) {
    if (second[0].kind == Operand::Kind::kRegister && second[0].reg.type == Type::kPred) {
      opposite = second[0].reg.place;
    } else if (second[0].kind != Operand::Kind::kSink) {
      x.fail("the second result of setp is no predicate");
    }
  }
  if (combined >= 0) {
    bool negated = false;
    with = x.predicate(3, negated);
    x.ins.mode = static_cast<uint8_t>((combined + 1) | (negated ? 4 : 0));
  }
  x.ins.extra = static_cast<int32_t>(x.code.extra.size());
  x.code.extra.push_back(opposite);
  x.code.extra.push_back(with);
}

// --- selections ------------------------------------------------------------------------------------------------------

template <class T>
void run_selp(Warp& w, const Ins& i, uint32_t lanes) {
  T* d = w.row<T>(i.d);
  const T* a = w.source<T>(i.a);
  const T* b = w.source<T>(i.b);
  const uint32_t p = i.mode != 0 ? ~w.preds[i.c] : w.preds[i.c];
  for_lanes(lanes, [&](int l) { d[l] = ((p >> l) & 1) != 0 ? a[l] : b[l]; });
}
void select_selp(Selector& x) {
  const auto type = x.op.take_type();
  if (!type || !x.op.done()) return;
  const int bytes = type_bytes(*type);
  if (bytes == 2) x.ins.run = &run_selp<uint16_t>;
  if (bytes == 4) x.ins.run = &run_selp<uint32_t>;
  if (bytes == 8) x.ins.run = &run_selp<uint64_t>;
  x.need(4, 4);
  x.ins.d = x.result(0, bytes);
  x.ins.a = x.value(1, bytes);
  x.ins.b = x.value(2, bytes);
  bool negated = false;
  x.ins.c = x.predicate(3, negated);
  x.ins.mode = negated;
}

// --- logic -----------------------------------------------------------------------------------------------------------

struct And {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  static T run(T a) {
    return static_cast<T>(~a);
  }
};
struct Same {
  template <class T>
  static T run(T a) {
    return a;
  }
};

// Predicates: bit 0 and 1 of mode negate the operands; a literal stands in imm when the operand is -1.
template <class Op>
void run_predicates(Warp& w, const Ins& i, uint32_t lanes) {
  const uint32_t a = (i.mode & 1) != 0 ? ~w.preds[i.a] : w.preds[i.a];
  const uint32_t b = i.b < 0 ? 0 : (i.mode & 2) != 0 ? ~w.preds[i.b] : w.preds[i.b];
  uint32_t r = 0;
  if constexpr (std::is_same_v<Op, Not> || std::is_same_v<Op, Same>) {
    r = Op::run(a);
  } else {
    r = Op::run(a, b);
  }
  w.preds[i.d] = (w.preds[i.d] & ~lanes) | (r & lanes);
}
void run_literal_predicate(Warp& w, const Ins& i, uint32_t lanes) {
  w.preds[i.d] = (w.preds[i.d] & ~lanes) | (i.imm != 0 ? lanes : 0);
}

void select_predicates(Selector& x, std::string_view base) {
  const bool two = base == "and" || base == "or" || base == "xor";
  if (base == "and") x.ins.run = &run_predicates<And>;
  if (base == "or") x.ins.run = &run_predicates<Or>;
  if (base == "xor") x.ins.run = &run_predicates<Xor>;
  if (base == "not") x.ins.run = &run_predicates<Not>;
  if (base == "mov") x.ins.run = &run_predicates<Same>;
  x.need(two ? 3 : 2, two ? 3 : 2);
  x.ins.d = x.predicate_result(0);
  if (base == "mov" && x.at(1).kind == Operand::Kind::kInteger) {
    x.ins.run = &run_literal_predicate;
    x.ins.imm = x.at(1).value != 0;
    return;
  }
  bool first = false, second = false;
  x.ins.a = x.predicate(1, first);
  x.ins.b = -1;
  if (two) x.ins.b = x.predicate(2, second);
  x.ins.mode = static_cast<uint8_t>((first ? 1 : 0) | (second ? 2 : 0));
}

template <class Op>
Handler bits_binary(int bytes) {
  return bytes == 2   ? &run_binary<uint16_t, uint16_t, uint16_t, Op>
         : bytes == 4 ? &run_binary<uint32_t, uint32_t, uint32_t, Op>
         : bytes == 8 ? &run_binary<uint64_t, uint64_t, uint64_t, Op>
                      : nullptr;
}
template <class Op>
Handler bits_unary(int bytes) {
  return bytes == 2   ? &run_unary<uint16_t, uint16_t, Op>
         : bytes == 4 ? &run_unary<uint32_t, uint32_t, Op>
         : bytes == 8 ? &run_unary<uint64_t, uint64_t, Op>
                      : nullptr;
}

// --- moves -----------------------------------------------------------------------------------------------------------

// {a, b, ...} -> d and back: imm elements of `bytes`, their places in extra.
template <bool kPack>
void run_pack(Warp& w, const Ins& i, uint32_t lanes) {
  for_lanes(lanes, [&](int l) {
    for (int n = 0; n < i.count; ++n) {
      const int32_t place = w.extra[i.extra + n];
      if constexpr (kPack) {
        std::memcpy(w.regs + i.d + l * i.bytes * i.count + n * i.bytes, w.source<std::byte>(place) + l * i.bytes,
                    i.bytes);
      } else {
        std::memcpy(w.regs + place + l * i.bytes, w.source<std::byte>(i.a) + l * i.bytes * i.count + n * i.bytes,
                    i.bytes);
      }
    }
  });
}

void select_pack(Selector& x, int bytes, bool pack) {
  const Operand& list = x.at(pack ? 1 : 0);
  const int count = static_cast<int>(list.parts.size());
  if ((count != 2 && count != 4) || bytes / count < 2 || bytes / count > 4)
    return x.fail("mov takes a vector of two or four parts");
  x.ins.run = pack ? &run_pack<true> : &run_pack<false>;
  x.ins.count = static_cast<uint8_t>(count);
  x.ins.bytes = static_cast<uint8_t>(bytes / count);
  std::vector<int32_t> places;
  for (const Operand& part : list.parts)
    places.push_back(pack ? x.value(part, bytes / count) : x.result_of(part, bytes / count));
  // The parts may be the register itself, which is then read after it is written in part.
  if (pack) {
    const int32_t d = x.result(0, bytes);
    if (std::find(places.begin(), places.end(), d) != places.end()) x.fail("mov packs a register into itself");
    x.ins.d = d;
  } else {
    x.ins.a = x.value(1, bytes);
    if (std::find(places.begin(), places.end(), x.ins.a) != places.end()) x.fail("mov unpacks a register into itself");
  }
  x.ins.extra = static_cast<int32_t>(x.code.extra.size());
  x.code.extra.insert(x.code.extra.end(), places.begin(), places.end());
}

void select_move(Selector& x, Type type) {
  const int bytes = type_bytes(type);
  x.ins.run = bits_unary<Same>(bytes);
  if (x.ins.run == nullptr) return;
  x.need(2, 2);
  const bool pack = x.at(1).kind == Operand::Kind::kVector, unpack = x.at(0).kind == Operand::Kind::kVector;
  if (pack || unpack) return select_pack(x, bytes, pack);
  x.ins.d = x.result(0, bytes);
  x.ins.a = x.value(1, bytes);
}

}  // namespace

void select_logic(Selector& x) {
  const std::string_view base = x.op.base();
  if (base == "setp") return select_setp(x);
  if (base == "selp") return select_selp(x);
  const auto type = x.op.take_type();
  if (!type || !x.op.done()) return;
  const bool logic = base == "and" || base == "or" || base == "xor" || base == "not";
  if (*type == Type::kPred && (logic || base == "mov")) return select_predicates(x, base);
  if (base == "mov") return select_move(x, *type);
  if (!logic) return;
  const int bytes = type_bytes(*type);
  if (base == "and") x.ins.run = bits_binary<And>(bytes);
  if (base == "or") x.ins.run = bits_binary<Or>(bytes);
  if (base == "xor") x.ins.run = bits_binary<Xor>(bytes);
  if (base == "not") x.ins.run = bits_unary<Not>(bytes);
  if (x.ins.run == nullptr) return;
  const size_t count = base == "not" ? 2 : 3;
  x.need(count, count);
  x.ins.d = x.result(0, bytes);
  x.ins.a = x.value(1, bytes);
  if (count == 3) x.ins.b = x.value(2, bytes);
}

}  // namespace tcc::emulation
