// Comparisons, selections, logic, predicates and moves.
#include <algorithm>

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_numbers.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

// --- comparisons -----------------------------------------------------------------------------------------------------

// Ordered comparisons are false when an operand is NaN, the unordered ones (equ, ...) true.
constexpr auto kEq = []<class T>(T a, T b) { return a == b; };
constexpr auto kNe = []<class T>(T a, T b) { return a < b || b < a; };
constexpr auto kLt = []<class T>(T a, T b) { return a < b; };
constexpr auto kLe = []<class T>(T a, T b) { return a <= b; };
constexpr auto kGt = []<class T>(T a, T b) { return a > b; };
constexpr auto kGe = []<class T>(T a, T b) { return a >= b; };
template <auto Opposite>
constexpr auto kUnless = []<class T>(T a, T b) { return !Opposite(a, b); };
constexpr auto kNumbers = []<class T>(T a, T b) { return a == a && b == b; };

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
template <class View, auto Compare>
void run_setp(Warp& w, const Ins& i, uint32_t lanes) {
  using T = typename View::Stored;
  const T* a = w.source<T>(i.a);
  const T* b = w.source<T>(i.b);
  uint32_t r = 0;
  for_lanes(lanes, [&](int l) { r |= static_cast<uint32_t>(Compare(View::value(a[l]), View::value(b[l]))) << l; });
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

// The number of a comparison among these: on all types, on integers, on reals.
constexpr int kOnIntegers = 6, kOnReals = 10;
int take_comparison(Opcode& op) {
  return op.take_one({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
                      "geu", "num", "nan"});
}

template <class View>
Handler setp_handler(int comparison, bool real) {
  constexpr Handler kHandlers[] = {
      &run_setp<View, kEq>,          &run_setp<View, kNe>,          &run_setp<View, kLt>,
      &run_setp<View, kLe>,          &run_setp<View, kGt>,          &run_setp<View, kGe>,
      &run_setp<View, kLt>,          &run_setp<View, kLe>,          &run_setp<View, kGt>,
      &run_setp<View, kGe>,          &run_setp<View, kUnless<kNe>>, &run_setp<View, kUnless<kEq>>,
      &run_setp<View, kUnless<kGe>>, &run_setp<View, kUnless<kGt>>, &run_setp<View, kUnless<kLe>>,
      &run_setp<View, kUnless<kLt>>, &run_setp<View, kNumbers>,     &run_setp<View, kUnless<kNumbers>>};
  if (real ? comparison >= kOnIntegers && comparison < kOnReals : comparison >= kOnReals) return nullptr;
  return kHandlers[comparison];
}

Handler typed_setp(int comparison, Type type, bool flushes) {
  if (type == Type::kF32)
    return flushes ? setp_handler<Flushed>(comparison, true) : setp_handler<Plain<float>>(comparison, true);
  if (flushes) return nullptr;
  if (type == Type::kF64) return setp_handler<Plain<double>>(comparison, true);
  if (type == Type::kF16) return setp_handler<Narrow<Half>>(comparison, true);
  if (type == Type::kBF16) return setp_handler<Narrow<Brain>>(comparison, true);
  return with_integer(type, [&]<class T>(T) { return setp_handler<Plain<T>>(comparison, false); });
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
  int32_t with = -1;
  if (combined >= 0) {
    bool negated = false;
    with = x.predicate(3, negated);
    x.ins.mode = static_cast<uint8_t>((combined + 1) | (negated ? 4 : 0));
  }
  x.begin_extra();
  x.code.extra.push_back(x.second_predicate(0));
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
  x.ins.run = with_bits(bytes, []<class T>(T) -> Handler { return &run_selp<T>; });
  x.need(4);
  x.set_operands(bytes, {bytes, bytes});
  bool negated = false;
  x.ins.c = x.predicate(3, negated);
  x.ins.mode = negated;
}

// --- logic -----------------------------------------------------------------------------------------------------------

constexpr auto kAnd = []<class T>(T a, T b) -> T { return static_cast<T>(a & b); };
constexpr auto kOr = []<class T>(T a, T b) -> T { return static_cast<T>(a | b); };
constexpr auto kXor = []<class T>(T a, T b) -> T { return static_cast<T>(a ^ b); };
constexpr auto kNot = []<class T>(T a) -> T { return static_cast<T>(~a); };
constexpr auto kSame = []<class T>(T a) -> T { return a; };

// Predicates: bit 0 and 1 of mode negate the operands; a literal is in imm when the operand is -1.
template <auto Op>
void run_predicates(Warp& w, const Ins& i, uint32_t lanes) {
  const uint32_t a = (i.mode & 1) != 0 ? ~w.preds[i.a] : w.preds[i.a];
  const uint32_t b = i.b < 0 ? 0 : (i.mode & 2) != 0 ? ~w.preds[i.b] : w.preds[i.b];
  uint32_t r = 0;
  if constexpr (requires { Op(a); }) {
    r = Op(a);
  } else {
    r = Op(a, b);
  }
  w.preds[i.d] = (w.preds[i.d] & ~lanes) | (r & lanes);
}
void run_literal_predicate(Warp& w, const Ins& i, uint32_t lanes) {
  w.preds[i.d] = (w.preds[i.d] & ~lanes) | (i.imm != 0 ? lanes : 0);
}

void select_predicates(Selector& x, std::string_view base) {
  const bool two = base == "and" || base == "or" || base == "xor";
  if (base == "and") x.ins.run = &run_predicates<kAnd>;
  if (base == "or") x.ins.run = &run_predicates<kOr>;
  if (base == "xor") x.ins.run = &run_predicates<kXor>;
  if (base == "not") x.ins.run = &run_predicates<kNot>;
  if (base == "mov") x.ins.run = &run_predicates<kSame>;
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

template <auto Op, int kOperands>
Handler on_bits(int bytes) {
  return with_bits(bytes, []<class T>(T) { return elementwise<Op, kOperands, T>(); });
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
  x.begin_extra();
  x.code.extra.insert(x.code.extra.end(), places.begin(), places.end());
}

void select_move(Selector& x, Type type) {
  const int bytes = type_bytes(type);
  x.ins.run = on_bits<kSame, 1>(bytes);
  if (x.ins.run == nullptr) return;
  x.need(2);
  const bool pack = x.at(1).kind == Operand::Kind::kVector, unpack = x.at(0).kind == Operand::Kind::kVector;
  if (pack || unpack) return select_pack(x, bytes, pack);
  x.set_operands(bytes, {bytes});
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
  if (base == "and") x.ins.run = on_bits<kAnd, 2>(bytes);
  if (base == "or") x.ins.run = on_bits<kOr, 2>(bytes);
  if (base == "xor") x.ins.run = on_bits<kXor, 2>(bytes);
  if (base == "not") x.ins.run = on_bits<kNot, 1>(bytes);
  if (x.ins.run == nullptr) return;
  x.take_same_operands(bytes, base == "not" ? 1 : 2);
}

}  // namespace tcc::emulation
