// What the arithmetic of a statement costs: instructions, and functions that the special units compute.
#include <algorithm>
#include <cmath>

#include "cost/gpu_counter.h"
#include "tcc/analysis/gelu.h"

namespace tcc::cost {

using namespace ir;

namespace {

// Instructions, counted in SASS of NVRTC 13 for sm_80 and sm_90.
constexpr double kRoot = 1;           // square roots and their reciprocals
constexpr double kSigmoid = 3;        // beside its exponential: a sum and a reciprocal with a scaled operand
constexpr double kNearErf = 13;       // an error function whose result is rounded to 16 bits (codegen/cuda/prelude.cpp)
constexpr double kNearGelu = 10;      // a GELU whose result is, from its argument
constexpr double kBack = 2;           // to 16 bits and back, of a value that goes on
constexpr double kCombine = 2;        // a shuffle, and the operation that combines two threads' values
constexpr double kMeet = 8;           // warps write their values to shared memory, meet, and read them
constexpr double kFunctionFlops = 8;  // of a mathematical function, in LaunchFacts::flops

// Operations that round their results to the type; others choose among values.
bool rounds(Expr e) {
  const ExprKind k = e->kind;
  if (k == ExprKind::kCast) return !is_half(as<Unary>(e)->a->type);
  return k == ExprKind::kAdd || k == ExprKind::kSub || k == ExprKind::kMul || k == ExprKind::kDiv ||
         k == ExprKind::kCall;
}

// `coarse`: of a result that is rounded to 16 bits.
double function_instructions(const target::SmModel& m, Intrinsic fn, bool coarse) {
  switch (fn) {
    case Intrinsic::kAbs:
    case Intrinsic::kFma:
    case Intrinsic::kFloor:
    case Intrinsic::kCeil:
    case Intrinsic::kRound:
    case Intrinsic::kBitAnd:
    case Intrinsic::kBitOr:
    case Intrinsic::kBitXor:
    case Intrinsic::kShiftLeft:
    case Intrinsic::kShiftRight:
      return 1;
    case Intrinsic::kExp:
      return m.exp_instructions;
    case Intrinsic::kErf:
      return coarse ? kNearErf : m.erf_instructions;
    case Intrinsic::kSqrt:
    case Intrinsic::kRsqrt:
      return kRoot;
    case Intrinsic::kSigmoid:
      return m.exp_instructions + kSigmoid;
    case Intrinsic::kLog:
    case Intrinsic::kTanh:
    case Intrinsic::kSin:
    case Intrinsic::kCos:
    case Intrinsic::kPow:
      return m.function_instructions;
  }
  return m.function_instructions;
}
bool is_special(Intrinsic fn) {
  return fn != Intrinsic::kAbs && fn != Intrinsic::kFma && fn != Intrinsic::kFloor && fn != Intrinsic::kCeil &&
         fn != Intrinsic::kRound && fn != Intrinsic::kErf && !takes_bits(fn);
}

}  // namespace

// A value is computed once where equal ones meet in a statement, and outside of the loops that do not move it.
GpuCounter::Wait GpuCounter::value(Expr e, double times, bool converts) {
  if (e->kind == ExprKind::kIntConst || e->kind == ExprKind::kFloatConst || e->kind == ExprKind::kVar) {
    moves_ |= e->ids;
    return {};
  }
  for (const auto& [hash, moves] : valued_)
    if (hash == e->hash) {
      moves_ |= moves;
      return {};
    }
  const uint64_t others = std::exchange(moves_, e->ids);
  const bool coarse = coarse_;
  if (e->kind == ExprKind::kCast && is_half(e->type) && as<Unary>(e)->a->type == Type::kF32) coarse_ = true;
  const Wait w = operation(e, times, converts);
  coarse_ = coarse;
  valued_.emplace_back(e->hash, moves_);
  moves_ |= others;
  return w;
}

// Executions that remain where a value stays the same over loops, as reused() has it for loads.
double GpuCounter::once(double times) const {
  for (size_t i = loops_.size(); i-- > 0 && !loops_[i].bound && !copying_;) {
    if ((moves_ & id_bit(loops_[i].loop->id)) == 0)
      times /= loops_[i].extent;
    else if (!loops_[i].expanded)
      break;
  }
  return times;
}

double GpuCounter::load_instructions(const Load& load, bool converts) const {
  const bool asks = load.predicate != nullptr && !padded_[static_cast<size_t>(load.buffer)];
  const double condition = asks && !copying_ ? model_.condition_instructions * condition_ : 0;
  return condition + (converts && is_half(load.type) ? 1 : 0);
}

// Cycles until the load has its value. An index that is loaded itself comes first.
double GpuCounter::loaded(const Load& load, double times) {
  moves_ |= stored_[static_cast<size_t>(load.buffer)];
  double before = 0;
  for (Expr i : load.indices)
    if (as<Var>(i) == nullptr && !is_int(i))
      visit(i, [&](Expr x) {
        const Load* inner = as<Load>(x);
        if (inner != nullptr) before = std::max(before, value(x, times, false).together);
        return inner == nullptr;
      });
  return before + access(*k_.buffer(load.buffer), load.indices, times, true);
}

// A product with the reciprocal, which constants have ahead and loops share where the divisor stays the same.
void GpuCounter::divide(Expr by, double times, FunctionRef<void(Expr)> part) {
  const uint64_t outer = std::exchange(moves_, 0);
  part(by);
  if (by->kind != ExprKind::kFloatConst) {
    const double reciprocals = once(times);
    facts_.instructions += warps(reciprocals) * (model_.divide_instructions - 1);
    facts_.special_functions += reciprocals;
  }
  moves_ |= outer;
}

// Of all operations but loads and divisions.
GpuCounter::Work GpuCounter::arithmetic(Expr e, FunctionRef<void(Expr)> part) const {
  Work w;
  switch (e->kind) {
    case ExprKind::kIntConst:
    case ExprKind::kFloatConst:
    case ExprKind::kVar:
    case ExprKind::kLoad:
    case ExprKind::kDiv:
      break;
    case ExprKind::kAdd:
    case ExprKind::kSub: {
      part(as<Binary>(e)->a), part(as<Binary>(e)->b);
      const bool fused = as<Binary>(e)->a->kind == ExprKind::kMul || as<Binary>(e)->b->kind == ExprKind::kMul;
      w = {fused ? 0.0 : 1.0, 1, 0};
      break;
    }
    case ExprKind::kMul:
      if (const auto gelu = coarse_ ? analysis::match_gelu(e) : std::nullopt) {
        part(gelu->x);
        for (Expr x : gelu->rest) part(x);
        w = {kNearGelu + static_cast<double>(gelu->rest.size()), kFunctionFlops, 1};
        break;
      }
      [[fallthrough]];
    case ExprKind::kMin:
    case ExprKind::kMax:
      part(as<Binary>(e)->a), part(as<Binary>(e)->b);
      w = {1, 1, 0};
      break;
    case ExprKind::kFloorDiv:
    case ExprKind::kFloorMod:
    case ExprKind::kLt:
    case ExprKind::kLe:
    case ExprKind::kEq:
    case ExprKind::kNe:
    case ExprKind::kAnd:
    case ExprKind::kOr:
      part(as<Binary>(e)->a), part(as<Binary>(e)->b);
      w.instructions = 1;
      break;
    case ExprKind::kNot:
      part(as<Unary>(e)->a);
      w.instructions = copying_ ? 0 : 1;
      break;
    case ExprKind::kCast: {
      const Expr from = as<Unary>(e)->a;
      part(from);
      // Values of 16 bits are floats in registers.
      const bool same = is_half(from->type) || is_half(e->type);
      w.instructions = copying_ || same ? 0 : 1;
      break;
    }
    case ExprKind::kSelect:
      part(as<Select>(e)->condition), part(as<Select>(e)->a), part(as<Select>(e)->b);
      w.instructions = 1;
      break;
    case ExprKind::kCall: {
      const Call& call = *as<Call>(e);
      for (Expr x : call.args) part(x);
      w = {function_instructions(model_, call.fn, coarse_), kFunctionFlops, is_special(call.fn) ? 1.0 : 0.0};
      break;
    }
    case ExprKind::kSum:
      for (const Term& t : as<Sum>(e)->terms) part(t.atom);
      w.instructions = 1;
      break;
    case ExprKind::kProd:
      for (Expr x : as<Prod>(e)->factors) part(x);
      w.instructions = 1;
      break;
  }
  return w;
}

GpuCounter::Wait GpuCounter::operation(Expr e, double times, bool converts) {
  Wait w;
  auto part = [&](Expr x) {
    const Wait inner = value(x, times, converts);
    w.together = std::max(w.together, inner.together);
    w.after += inner.after;
  };
  Work work;
  if (const Load* load = as<Load>(e)) {
    work.instructions = load_instructions(*load, converts);
    w.together = loaded(*load, times);
  } else if (e->kind == ExprKind::kDiv) {
    divide(as<Binary>(e)->b, times, part);
    part(as<Binary>(e)->a);
    work = {1, 1, 0};
  } else {
    work = arithmetic(e, part);
  }
  const double n = once(times);
  if (is_half(e->type) && rounds(e) && e != root_ && !copying_) work.instructions += kBack;
  facts_.flops += n * work.flops;
  facts_.special_functions += n * work.special;
  if (work.instructions > 0) facts_.instructions += warps(n) * work.instructions;
  return w;
}

// Threads of a row combine their values: by shuffles within warps, and what warps have by shared memory.
void GpuCounter::combine(double threads, double times) {
  const auto warp = static_cast<double>(target_.cuda.warp_size);
  double instructions = kCombine * std::ceil(std::log2(std::min(threads, warp)));
  if (threads > warp) instructions += kMeet + kCombine * std::ceil(std::log2(threads / warp));
  facts_.instructions += warps(times * threads) * instructions;
}

}  // namespace tcc::cost
