// How far loops are unrolled. What a launch unrolls is paid in NVRTC's time, about in proportion to the
// statements that result: a condition counts as several, since it makes blocks, a math function as what it is
// inlined to, and a division of a variable that is unrolled as the multiplication and shifts that it becomes. Up to
// kMostStatements a launch, and kMostOfLoop a loop, everything is unrolled that is marked so. Beyond, loops are
// unrolled in part, each by its share, but for those whose variable picks elements of a local array: the array would no
// longer be registers. For the same reason short loops that do so are unrolled whether marked or not.
//
// Accesses to memory are what NVRTC's optimizer is slowest with, slower than in proportion to their number. A nest of
// unrolled loops around one store to memory is therefore put in the order in which its contiguous loop is innermost,
// and printed as if that were vectorised.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "codegen/cuda/address.h"
#include "codegen/cuda/emitter.h"
#include "tcc/ir/query.h"

namespace tcc::codegen::cuda {

using namespace ir;

namespace {

constexpr double kMostStatements = 1000;
constexpr double kMostOfLoop = 192;
constexpr double kCondition = 4, kFunction = 10;
constexpr int64_t kShort = 64;  // iterations
constexpr int64_t kMostLanes = 16;

double cost_of_value(Expr e, std::span<const Id> copied) {
  double cost = 0;
  visit(e, [&](Expr part) {
    if (part->kind == ExprKind::kFloorDiv || part->kind == ExprKind::kFloorMod)
      cost += std::any_of(copied.begin(), copied.end(), [&](Id id) { return mentions(part, id); }) ? 1 : 0;
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
      if (!copies) return cost_of(l.body);
      copied_.push_back(l.id);
      cost = cost_of(l.body) * static_cast<double>(int_value(l.extent));
      copied_.pop_back();
      return cost;
    }
    case StmtKind::kStore:
      cost = 1 + cost_of_value(as<Store>(s)->value, copied_) + (as<Store>(s)->predicate != nullptr ? kCondition : 0);
      for (Expr e : as<Store>(s)->indices) cost += cost_of_value(e, copied_);
      return cost;
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

namespace {

// No two iterations of the loops have the same value of `flat`: each loop's step is beyond what the smaller ones reach.
bool is_injective(Expr flat, const std::vector<const Loop*>& nest) {
  const Sum* sum = as<Sum>(flat);
  if (sum == nullptr) return false;
  std::vector<std::pair<int64_t, int64_t>> steps;  // step, extent
  for (const Term& t : sum->terms) {
    const Var* v = as<Var>(t.atom);
    for (const Loop* l : nest) {
      if (!mentions(t.atom, l->id)) continue;
      if (v == nullptr) return false;
      steps.emplace_back(std::abs(t.coefficient), int_value(l->extent));
    }
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [step, extent] : steps) {
    if (step <= reach) return false;
    reach += step * (extent - 1);
  }
  return steps.size() == nest.size();
}

}  // namespace

// The nest of unrolled loops at `l` around one store to memory, its contiguous loop vectorised; nullptr for another
// loop, and where the order of the iterations might matter.
Stmt Emitter::vectorized_nest(const Loop& l) {
  std::vector<const Loop*> nest;
  Stmt s = &l;
  for (const Loop* at = &l; at != nullptr; at = as<Loop>(s)) {
    const bool unrolled = at->loop_kind == LoopKind::kUnrolled || at->axis == Axis::kVthread;
    if (!unrolled || !is_int(at->extent)) return nullptr;
    nest.push_back(at);
    s = at->body;
  }
  const Store* store = as<Store>(s);
  if (store == nullptr || store->predicate != nullptr || lane_id_ != kNoId) return nullptr;
  const Buffer& target = buffer(store->buffer);
  if (target.layout != nullptr || (target.scope != Scope::kGlobal && target.scope != Scope::kShared)) return nullptr;
  bool plain = true;
  visit(store->value, [&](Expr e) {
    if (const Load* load = as<Load>(e)) plain = plain && load->buffer != store->buffer;
    return plain;
  });
  Expr flat = flat_address(b_, target, store->indices);
  if (!plain || !is_injective(flat, nest)) return nullptr;
  for (const Loop* inner : nest) {
    if (int_value(inner->extent) > kMostLanes) continue;
    if (vector_width(b_, kernel_, ranges_, target, flat, inner->id, int_value(inner->extent)) < 2) continue;
    Stmt out = b_.loop(inner->id, inner->extent, store, LoopKind::kVectorized);
    for (auto outer = nest.rbegin(); outer != nest.rend(); ++outer)
      if (*outer != inner) out = b_.loop((*outer)->id, (*outer)->extent, out, LoopKind::kUnrolled);
    return out;
  }
  return nullptr;
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
