// How far loops are unrolled. What a launch unrolls is paid in NVRTC's time, about in proportion to the
// statements that result: a condition counts as several, since it makes blocks, and a math function as what it is
// inlined to. Up to kMostStatements a launch, and kMostOfLoop a loop, everything is unrolled that is marked so. Beyond,
// loops are unrolled in part, each by its share, but for those whose variable picks elements of a local array: the
// array would no longer be registers. For the same reason short loops that do so are unrolled whether marked or not.
#include <algorithm>
#include <bit>

#include "codegen/cuda/emitter.h"
#include "tcc/ir/walk.h"

namespace tcc::codegen::cuda {

using namespace ir;

namespace {

constexpr double kMostStatements = 2000;
constexpr double kMostOfLoop = 768;
constexpr double kCondition = 4, kFunction = 10;
constexpr int64_t kShort = 64;  // iterations

bool mentions(Expr e, Id id) {
  if (!may_mention(e, id)) return false;
  bool found = false;
  visit(e, [&](Expr part) {
    if (const Var* v = as<Var>(part)) found = found || v->id == id;
    return !found;
  });
  return found;
}

double cost_of_value(Expr e) {
  double cost = 0;
  visit(e, [&](Expr part) {
    if (const Call* call = as<Call>(part))
      cost += call->fn == Intrinsic::kAbs || call->fn == Intrinsic::kFma ? 0 : kFunction;
    if (const Load* load = as<Load>(part)) cost += load->predicate != nullptr ? kCondition : 0;
    return true;
  });
  return cost;
}

}  // namespace

bool Emitter::is_unrolled(const Loop& l) {
  if (!is_int(l.extent)) return false;
  if (l.loop_kind == LoopKind::kUnrolled) return true;
  return l.loop_kind == LoopKind::kSerial && int_value(l.extent) <= kShort && picks_registers(l);
}

// Statements once all is unrolled.
double Emitter::cost_of(Stmt s) {
  double cost = 0;
  switch (s->kind) {
    case StmtKind::kSeq:
      for (Stmt child : as<Seq>(s)->stmts) cost += cost_of(child);
      return cost;
    case StmtKind::kLoop: {
      const Loop& l = *as<Loop>(s);
      const bool copies =
          is_int(l.extent) && (l.loop_kind == LoopKind::kVectorized || l.axis == Axis::kVthread || is_unrolled(l));
      return cost_of(l.body) * (copies ? static_cast<double>(int_value(l.extent)) : 1);
    }
    case StmtKind::kStore:
      return 1 + cost_of_value(as<Store>(s)->value) + (as<Store>(s)->predicate != nullptr ? kCondition : 0);
    case StmtKind::kIf:
      cost = kCondition + cost_of(as<If>(s)->then_case);
      return cost + (as<If>(s)->else_case != nullptr ? cost_of(as<If>(s)->else_case) : 0);
    case StmtKind::kAlloc:
      return cost_of(as<Alloc>(s)->body);
    case StmtKind::kInstrCall:
      return 1;
    case StmtKind::kRoles:
      for (const Role& r : as<Roles>(s)->roles) cost += cost_of(r.body);
      return cost;
    case StmtKind::kBlock:
      break;
  }
  return cost;
}

void Emitter::plan_unrolling(Stmt body) {
  unroll_share_ = std::min(1.0, kMostStatements / std::max(cost_of(body), 1.0));
}

bool Emitter::picks_registers(const Loop& l) {
  bool picks = false;
  auto look = [&](Id id, std::span<const Expr> indices) {
    if (buffer(id).scope == Scope::kLocal)
      for (Expr e : indices) picks = picks || mentions(e, l.id);
  };
  auto look_into = [&](Expr e) {
    visit(e, [&](Expr part) {
      if (const Load* load = as<Load>(part)) look(load->buffer, load->indices);
      return !picks;
    });
  };
  visit(l.body, [&](Stmt s) {
    if (const Store* store = as<Store>(s)) {
      look(store->buffer, store->indices);
      look_into(store->value);
    }
    if (const InstrCall* call = as<InstrCall>(s))
      for (const Operand& o : call->operands) look(o.buffer, o.indices);
    return !picks;
  });
  return picks;
}

// The pragma of a loop. What is below a loop that has got its share is unrolled whole.
std::string Emitter::unroll_pragma(const Loop& l) {
  if (!is_unrolled(l)) return l.loop_kind == LoopKind::kSerial ? "#pragma unroll 1" : "#pragma unroll";
  const double share = std::min(unroll_share_, kMostOfLoop / std::max(cost_of(&l), 1.0));
  if (share >= 1 || picks_registers(l)) return "#pragma unroll";
  const int64_t extent = int_value(l.extent);
  const auto most = static_cast<int64_t>(static_cast<double>(extent) * share);
  // A divisor leaves no rest behind; else a power of two.
  int64_t times = 1;
  for (int64_t n = 2; n <= most; ++n)
    if (extent % n == 0) times = n;
  if (times < most / 4) times = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
  unroll_share_ = 1;
  return fmt::format("#pragma unroll {}", times);
}

}  // namespace tcc::codegen::cuda
