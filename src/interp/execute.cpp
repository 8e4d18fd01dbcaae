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
  }
  return 0;
}

Reg call(const Ins& in, const Reg* r) {
  const auto fn = static_cast<ir::Intrinsic>(in.x);
  const auto type = static_cast<ir::Type>(in.c);
  Reg out;
  if (ir::is_float(type)) {
    const double b = in.b >= 0 ? r[in.b].f : 0, c = in.e >= 0 ? r[in.e].f : 0;
    out.f = round_to(type, math_call(fn, r[in.a].f, b, c, type));
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
#define WRAPPED(a, op, b) static_cast<int64_t>(static_cast<uint64_t>(a) op static_cast<uint64_t>(b))

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
L_JumpIfFalse:
  if (R(a).i == 0) {
    JUMP;
  }
  NEXT;
L_JumpIfTrue:
  if (R(a).i != 0) {
    JUMP;
  }
  NEXT;
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
L_ParallelEnter:
  if constexpr (kChecked) m.strands.enter();
  NEXT;
L_ParallelLeave:
  if constexpr (kChecked) m.strands.leave();
  NEXT;
L_ParallelExit:
  if constexpr (kChecked) m.strands.exit();
  NEXT;
L_Count:
  operations += pc->b;
  NEXT;
L_Move:
  R(d) = R(a);
  NEXT;
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

  INT2(AddI, WRAPPED(a, +, b));
  INT2(SubI, WRAPPED(a, -, b));
  INT2(MulI, WRAPPED(a, *, b));
  INT2(MAddI, WRAPPED(a, +, WRAPPED(b, *, R(e).i)));
  INT2(ShrI, a >> b);
  INT2(ShlI, static_cast<int64_t>(static_cast<uint64_t>(a) << b));
  INT2(AndI, a & b);
  INT2(XorI, a ^ b);
  INT2(MinI, std::min(a, b));
  INT2(MaxI, std::max(a, b));
  INT2(LtI, a < b);
  INT2(LeI, a <= b);
  INT2(EqI, a == b);
  INT2(NeI, a != b);
  INT2(AndB, (a & b) != 0);
  INT2(OrB, (a | b) != 0);
L_NotB:
  R(d).i = R(a).i == 0;
  NEXT;
L_DivI:
L_FloorDivI:
L_FloorModI:
  R(d).i = quotient(m, t, pc, R(a).i, R(b).i);
  NEXT;
  FLOAT2(LtF, i, a < b);
  FLOAT2(LeF, i, a <= b);
  FLOAT2(EqF, i, a == b);
  FLOAT2(NeF, i, a != b);
  FLOAT2(AddF64, f, a + b);
  FLOAT2(SubF64, f, a - b);
  FLOAT2(MulF64, f, a * b);
  FLOAT2(DivF64, f, a / b);
  // Sums, products and quotients of floats rounded from double equal those computed in float.
  FLOAT2(AddF32, f, round_f32(a + b));
  FLOAT2(SubF32, f, round_f32(a - b));
  FLOAT2(MulF32, f, round_f32(a * b));
  FLOAT2(DivF32, f, round_f32(a / b));
  FLOAT2(MinF, f, min_float(a, b));
  FLOAT2(MaxF, f, max_float(a, b));
L_WrapI:
  R(d).i = wrap_to(static_cast<ir::Type>(pc->x), R(a).i);
  NEXT;
L_RoundF:
  R(d).f = round_to(static_cast<ir::Type>(pc->x), R(a).f);
  NEXT;
L_FloatToInt:
  R(d).i = saturate_to(static_cast<ir::Type>(pc->x), R(a).f);
  NEXT;
L_FloatToBool:
  R(d).i = R(a).f != 0;
  NEXT;
L_IntToFloat:
  R(d).f = int_to_float(static_cast<ir::Type>(pc->x), R(a).i);
  NEXT;
L_Call:
  R(d) = call(*pc, r);
  NEXT;

  LOAD(LoadI8, int8_t, i, static_cast<int64_t>);
  LOAD(LoadU8, uint8_t, i, static_cast<int64_t>);
  LOAD(LoadI32, int32_t, i, static_cast<int64_t>);
  LOAD(LoadI64, int64_t, i, static_cast<int64_t>);
  LOAD(LoadF16, uint16_t, f, f16_value);
  LOAD(LoadBF16, uint16_t, f, bf16_value);
  LOAD(LoadF32, float, f, static_cast<double>);
  LOAD(LoadF64, double, f, static_cast<double>);
  STORE(StoreI8, uint8_t, static_cast<uint8_t>, i);
  STORE(StoreI32, int32_t, static_cast<int32_t>, i);
  STORE(StoreI64, int64_t, static_cast<int64_t>, i);
  STORE(StoreF16, uint16_t, f16_bits, f);
  STORE(StoreBF16, uint16_t, bf16_bits, f);
  STORE(StoreF32, float, static_cast<float>, f);
  STORE(StoreF64, double, static_cast<double>, f);
L_Reset:
  if constexpr (kChecked) t.mems[pc->e]->reset();
  NEXT;
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
