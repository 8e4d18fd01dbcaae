// The bytecode loop: directly threaded, one copy without checks and one with.
#include <algorithm>
#include <cmath>

#include "interp/machine.h"
#include "interp/sync.h"
#include "tcc/ir/evaluate.h"

namespace tcc::interp {
namespace {

double min_float(double a, double b) {
  return std::isnan(a) ? b : (std::isnan(b) ? a : std::min(a, b));
}
double max_float(double a, double b) {
  return std::isnan(a) ? b : (std::isnan(b) ? a : std::max(a, b));
}

double math_call(ir::Intrinsic fn, double a, double b, double c, ir::Type type) {
  switch (fn) {
    case ir::Intrinsic::kExp:
      return std::exp(a);
    case ir::Intrinsic::kLog:
      return std::log(a);
    case ir::Intrinsic::kTanh:
      return std::tanh(a);
    case ir::Intrinsic::kErf:
      return std::erf(a);
    case ir::Intrinsic::kSqrt:
      return std::sqrt(a);
    case ir::Intrinsic::kRsqrt:
      return 1.0 / std::sqrt(a);
    case ir::Intrinsic::kSigmoid:
      return 1.0 / (1.0 + std::exp(-a));
    case ir::Intrinsic::kAbs:
      return std::fabs(a);
    case ir::Intrinsic::kFloor:
      return std::floor(a);
    case ir::Intrinsic::kCeil:
      return std::ceil(a);
    case ir::Intrinsic::kRound:
      return std::nearbyint(a);  // ties to even
    case ir::Intrinsic::kSin:
      return std::sin(a);
    case ir::Intrinsic::kCos:
      return std::cos(a);
    case ir::Intrinsic::kPow:
      return std::pow(a, b);
    case ir::Intrinsic::kFma:
      return type == ir::Type::kF32
                 ? static_cast<double>(std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)))
                 : std::fma(a, b, c);
    case ir::Intrinsic::kBitAnd:
    case ir::Intrinsic::kBitOr:
    case ir::Intrinsic::kBitXor:
    case ir::Intrinsic::kShiftLeft:
    case ir::Intrinsic::kShiftRight:
      break;  // of integers
  }
  return 0;
}

int64_t bits_call(ir::Intrinsic fn, int64_t a, int64_t b) {
  const bool fits = b >= 0 && b < 64;
  switch (fn) {
    case ir::Intrinsic::kBitAnd:
      return a & b;
    case ir::Intrinsic::kBitOr:
      return a | b;
    case ir::Intrinsic::kBitXor:
      return a ^ b;
    case ir::Intrinsic::kShiftLeft:
      return fits ? static_cast<int64_t>(static_cast<uint64_t>(a) << b) : 0;
    case ir::Intrinsic::kShiftRight:
      return fits ? a >> b : 0;
    default:
      return 0;
  }
}

Reg call(const Ins& in, const Reg* r) {
  const auto fn = static_cast<ir::Intrinsic>(in.x);
  const auto type = static_cast<ir::Type>(in.c);
  Reg out;
  if (ir::is_float(type)) {
    const double b = in.b >= 0 ? r[in.b].f : 0, c = in.e >= 0 ? r[in.e].f : 0;
    out.f = round_to(type, math_call(fn, r[in.a].f, b, c, type));
  } else if (ir::takes_bits(fn)) {
    out.i = wrap_to(type, bits_call(fn, r[in.a].i, r[in.b].i));
  } else if (fn == ir::Intrinsic::kFma) {
    const auto product = static_cast<uint64_t>(r[in.a].i) * static_cast<uint64_t>(r[in.b].i);
    out.i = wrap_to(type, static_cast<int64_t>(product + static_cast<uint64_t>(r[in.e].i)));
  } else if (fn == ir::Intrinsic::kAbs) {
    out.i = wrap_to(type, r[in.a].i < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(r[in.a].i)) : r[in.a].i);
  } else {
    out.i = saturate_to(type, math_call(fn, static_cast<double>(r[in.a].i),
                                        in.b >= 0 ? static_cast<double>(r[in.b].i) : 0, 0, ir::Type::kF64));
  }
  return out;
}

// What the checks of an instruction find; away from the loop, which they would only lengthen.
[[gnu::cold]] void report_bounds(Machine& m, const Thread& t, const Ins* pc, int64_t index, int64_t extent) {
  m.report(Finding::Kind::kOutOfBounds, t, pc, pc->e, -1,
           fmt::format("index {} of dimension {} is not in [0, {})", index, pc->x, extent));
}
[[gnu::cold]] void report_iterator(Machine& m, const Thread& t, const Ins* pc, int64_t value, int64_t extent) {
  m.report(Finding::Kind::kOutOfBounds, t, pc, -1, -1,
           fmt::format("block iterator {} is {}, not in [0, {})", ir::name_hint(m.info->kernel, pc->e), value, extent));
}
[[gnu::cold]] void report_alignment(Machine& m, const Thread& t, const Ins* pc, int64_t address) {
  m.report(Finding::Kind::kMisaligned, t, pc, pc->e, address,
           fmt::format("a vector access of {} elements starts at address {}", pc->x, address));
}
[[gnu::cold]] int64_t report_zero_divisor(Machine& m, const Thread& t, const Ins* pc) {
  m.report(Finding::Kind::kZeroDivisor, t, pc, -1, -1, "the divisor is zero");
  return 0;
}

int64_t quotient(Machine& m, const Thread& t, const Ins* pc, int64_t a, int64_t b) {
  if (b == 0) [[unlikely]]
    return report_zero_divisor(m, t, pc);
  if (pc->op == Op::kFloorDivI) return ir::floor_div(a, b);
  if (pc->op == Op::kFloorModI) return ir::floor_mod(a, b);
  return b == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a / b;
}

double int_to_float(ir::Type type, int64_t v) {
  if (type == ir::Type::kF32) return static_cast<double>(static_cast<float>(v));
  if (type == ir::Type::kF64) return static_cast<double>(v);
  return round_to(type, odd_double(v));
}

}  // namespace

// Handlers. PC is the current instruction; R its registers.
#define R(field) r[pc->field]
#define INT2(name, expression)                  \
  L_##name : {                                  \
    const int64_t a = R(a).i, b = R(b).i;       \
    static_cast<void>(a), static_cast<void>(b); \
    R(d).i = (expression);                      \
  }                                             \
  NEXT
#define FLOAT2(name, field, expression)  \
  L_##name : {                           \
    const double a = R(a).f, b = R(b).f; \
    R(d).field = (expression);           \
  }                                      \
  NEXT
#define NEXT \
  ++pc;      \
  goto* labels[static_cast<size_t>(pc->op)]
#define JUMP   \
  pc += pc->c; \
  goto* labels[static_cast<size_t>(pc->op)]
#define JUMP_IF(name, condition) \
  L_##name : if (condition) {    \
    JUMP;                        \
  }                              \
  NEXT
#define LOAD(name, ctype, field, convert)                               \
  L_##name : {                                                          \
    Memory& mem = *t.mems[pc->e];                                       \
    const int64_t at = R(a).i;                                          \
    if constexpr (kChecked) m.check_read(mem, at, t, pc);               \
    R(d).field = convert(reinterpret_cast<const ctype*>(mem.data)[at]); \
  }                                                                     \
  NEXT
#define STORE(name, ctype, convert, field)                                            \
  L_##name : {                                                                        \
    Memory& mem = *t.mems[pc->e];                                                     \
    const int64_t at = R(a).i;                                                        \
    if constexpr (kChecked) m.check_write(mem, at, t, pc);                            \
    reinterpret_cast<ctype*>(mem.data)[at] = static_cast<ctype>(convert(R(b).field)); \
  }                                                                                   \
  NEXT
#define SINGLE(name, statement) \
  L_##name : statement;         \
  NEXT
#define WRAPPED(a, op, b) static_cast<int64_t>(static_cast<uint64_t>(a) op static_cast<uint64_t>(b))

// Instructions that do one thing and go on: name and statement.
// clang-format off
#define TCC_INTERP_SINGLE(X) \
  X(ParallelEnter, if constexpr (kChecked) m.strands.enter()); \
  X(ParallelLeave, if constexpr (kChecked) m.strands.leave()); \
  X(ParallelExit, if constexpr (kChecked) m.strands.exit()); \
  X(Reset, if constexpr (kChecked) t.mems[pc->e]->reset()); \
  X(Count, operations += pc->b); \
  X(Move, R(d) = R(a)); \
  X(NotB, R(d).i = R(a).i == 0); \
  X(DivI, R(d).i = quotient(m, t, pc, R(a).i, R(b).i)); \
  X(FloorDivI, R(d).i = quotient(m, t, pc, R(a).i, R(b).i)); \
  X(FloorModI, R(d).i = quotient(m, t, pc, R(a).i, R(b).i)); \
  X(WrapI, R(d).i = wrap_to(static_cast<ir::Type>(pc->x), R(a).i)); \
  X(RoundF, R(d).f = round_to(static_cast<ir::Type>(pc->x), R(a).f)); \
  X(FloatToInt, R(d).i = saturate_to(static_cast<ir::Type>(pc->x), R(a).f)); \
  X(FloatToBool, R(d).i = R(a).f != 0); \
  X(IntToFloat, R(d).f = int_to_float(static_cast<ir::Type>(pc->x), R(a).i)); \
  X(Call, R(d) = call(*pc, r))
// Integers a and b: name and result.
#define TCC_INTERP_INT2(X) \
  X(AddI, WRAPPED(a, +, b)); \
  X(SubI, WRAPPED(a, -, b)); \
  X(MulI, WRAPPED(a, *, b)); \
  X(MAddI, WRAPPED(a, +, WRAPPED(b, *, R(e).i))); \
  X(ShrI, a >> b); \
  X(ShlI, static_cast<int64_t>(static_cast<uint64_t>(a) << b)); \
  X(AndI, a & b); \
  X(XorI, a ^ b); \
  X(MinI, std::min(a, b)); \
  X(MaxI, std::max(a, b)); \
  X(LtI, a < b); \
  X(LeI, a <= b); \
  X(EqI, a == b); \
  X(NeI, a != b); \
  X(AndB, (a & b) != 0); \
  X(OrB, (a | b) != 0)
// Floats a and b: name, member of the result, result. Sums, products and quotients of floats rounded from double equal
// those computed in float.
#define TCC_INTERP_FLOAT2(X) \
  X(LtF, i, a < b); \
  X(LeF, i, a <= b); \
  X(EqF, i, a == b); \
  X(NeF, i, a != b); \
  X(AddF64, f, a + b); \
  X(SubF64, f, a - b); \
  X(MulF64, f, a * b); \
  X(DivF64, f, a / b); \
  X(AddF32, f, round_f32(a + b)); \
  X(SubF32, f, round_f32(a - b)); \
  X(MulF32, f, round_f32(a * b)); \
  X(DivF32, f, round_f32(a / b)); \
  X(MinF, f, min_float(a, b)); \
  X(MaxF, f, max_float(a, b))
// Name, type in memory, member of the register, conversion.
#define TCC_INTERP_LOADS(X) \
  X(LoadI8, int8_t, i, static_cast<int64_t>); \
  X(LoadU8, uint8_t, i, static_cast<int64_t>); \
  X(LoadI16, int16_t, i, static_cast<int64_t>); \
  X(LoadU16, uint16_t, i, static_cast<int64_t>); \
  X(LoadI32, int32_t, i, static_cast<int64_t>); \
  X(LoadI64, int64_t, i, static_cast<int64_t>); \
  X(LoadF16, uint16_t, f, f16_value); \
  X(LoadBF16, uint16_t, f, bf16_value); \
  X(LoadF32, float, f, static_cast<double>); \
  X(LoadF64, double, f, static_cast<double>)
// Name, type in memory, conversion, member of the register.
#define TCC_INTERP_STORES(X) \
  X(StoreI8, uint8_t, static_cast<uint8_t>, i); \
  X(StoreI16, uint16_t, static_cast<uint16_t>, i); \
  X(StoreI32, int32_t, static_cast<int32_t>, i); \
  X(StoreI64, int64_t, static_cast<int64_t>, i); \
  X(StoreF16, uint16_t, f16_bits, f); \
  X(StoreBF16, uint16_t, bf16_bits, f); \
  X(StoreF32, float, static_cast<float>, f); \
  X(StoreF64, double, static_cast<double>, f)
// clang-format on

template <bool kChecked>
Stop execute(Machine& m, Thread& t, int64_t slice) {
  static const void* const labels[] = {
#define TCC_X(name) &&L_##name,
      TCC_INTERP_OPS(TCC_X)
#undef TCC_X
  };
  const Ins* pc = t.pc;
  Reg* const r = t.regs;
  int64_t operations = 0;
  const int64_t allowed = std::min(slice, m.steps_left);
  int64_t left = allowed;
  const auto save = [&] {
    t.pc = pc;
    m.operations += operations;
    m.steps += allowed - left;
    m.steps_left -= allowed - left;
  };
  goto* labels[static_cast<size_t>(pc->op)];

L_Halt:
  save();
  t.state = Thread::State::kDone;
  return Stop::kDone;
L_Jump:
  JUMP;
  JUMP_IF(JumpIfFalse, R(a).i == 0);
  JUMP_IF(JumpIfTrue, R(a).i != 0);
L_LoopBegin:
  R(d).i = 0;
  if (R(a).i <= 0) {
    JUMP;
  }
  NEXT;
L_LoopNext:
  operations += pc->b;
  --left;
  if (++R(d).i < R(a).i) {
    pc += pc->c;
  } else {
    ++pc;
  }
  if (left <= 0) [[unlikely]] {
    save();
    return m.steps_left <= 0 ? Stop::kLimit : Stop::kSlice;
  }
  goto* labels[static_cast<size_t>(pc->op)];
L_Bounds:
  if (static_cast<uint64_t>(R(a).i) >= static_cast<uint64_t>(R(b).i)) [[unlikely]] {
    report_bounds(m, t, pc, R(a).i, R(b).i);
    if (pc->d >= 0) R(d).i = 0;
    JUMP;
  }
  NEXT;
L_IterBounds:
  if (static_cast<uint64_t>(R(a).i) >= static_cast<uint64_t>(R(b).i)) [[unlikely]] {
    report_iterator(m, t, pc, R(a).i, R(b).i);
    JUMP;
  }
  NEXT;
L_Align:
  if ((R(a).i - R(b).i) % pc->x != 0) [[unlikely]]
    report_alignment(m, t, pc, R(a).i - R(b).i);
  NEXT;

  TCC_INTERP_SINGLE(SINGLE);
  TCC_INTERP_INT2(INT2);
  TCC_INTERP_FLOAT2(FLOAT2);
  TCC_INTERP_LOADS(LOAD);
  TCC_INTERP_STORES(STORE);

L_Instr:
  t.pc = pc;
  if (!perform(m, t)) {
    save();
    return Stop::kBlocked;
  }
  NEXT;
}

template Stop execute<false>(Machine& m, Thread& t, int64_t slice);
template Stop execute<true>(Machine& m, Thread& t, int64_t slice);

}  // namespace tcc::interp
