// Index arithmetic where every variable has a value: what a simulated warp does at each access.
#include <algorithm>

#include "simulation/warp_code.h"
#include "tcc/ir/evaluate.h"
#include "tcc/support/hash.h"

namespace tcc::simulation {

using namespace ir;

namespace {

// Indices that memory holds: any, but always the same ones.
constexpr int64_t kStoredIndices = 1 << 20;

int64_t evaluate_pair(const Binary& e, const Values& values) {
  const int64_t a = evaluate(e.a, values), b = evaluate(e.b, values);
  switch (e.kind) {
    case ExprKind::kFloorDiv:
      return b == 0 ? 0 : floor_div(a, b);
    case ExprKind::kFloorMod:
      return b == 0 ? 0 : floor_mod(a, b);
    case ExprKind::kMin:
      return std::min(a, b);
    case ExprKind::kMax:
      return std::max(a, b);
    case ExprKind::kAdd:
      return a + b;
    case ExprKind::kSub:
      return a - b;
    case ExprKind::kMul:
      return a * b;
    case ExprKind::kDiv:
      return b == 0 ? 0 : a / b;
    case ExprKind::kLt:
      return a < b;
    case ExprKind::kLe:
      return a <= b;
    case ExprKind::kEq:
      return a == b;
    case ExprKind::kNe:
      return a != b;
    case ExprKind::kAnd:
      return a != 0 && b != 0;
    case ExprKind::kOr:
      return a != 0 || b != 0;
    default:
      return 0;  // not a pair
  }
}

}  // namespace

int64_t evaluate(Expr e, const Values& values) {
  switch (e->kind) {
    case ExprKind::kIntConst:
      return int_value(e);
    case ExprKind::kVar:
      return values[static_cast<size_t>(as<Var>(e)->id)];
    case ExprKind::kSum: {
      const Sum& s = *as<Sum>(e);
      int64_t total = s.constant;
      for (const Term& t : s.terms) total += t.coefficient * evaluate(t.atom, values);
      return total;
    }
    case ExprKind::kProd: {
      int64_t product = 1;
      for (Expr f : as<Prod>(e)->factors) product *= evaluate(f, values);
      return product;
    }
    case ExprKind::kSelect: {
      const Select& s = *as<Select>(e);
      return evaluate(evaluate(s.condition, values) != 0 ? s.a : s.b, values);
    }
    case ExprKind::kLoad: {
      uint64_t place = static_cast<uint64_t>(as<Load>(e)->buffer);
      for (Expr i : as<Load>(e)->indices) place = combine_hash(place, static_cast<uint64_t>(evaluate(i, values)));
      return static_cast<int64_t>(mix_hash(place) % kStoredIndices);
    }
    case ExprKind::kCast:
      return evaluate(as<Unary>(e)->a, values);
    case ExprKind::kNot:
      return evaluate(as<Unary>(e)->a, values) == 0;
    case ExprKind::kFloatConst:
    case ExprKind::kCall:
      return 0;
    case ExprKind::kFloorDiv:
    case ExprKind::kFloorMod:
    case ExprKind::kMin:
    case ExprKind::kMax:
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kDiv:
    case ExprKind::kLt:
    case ExprKind::kLe:
    case ExprKind::kEq:
    case ExprKind::kNe:
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return evaluate_pair(*as<Binary>(e), values);
  }
  return 0;
}

}  // namespace tcc::simulation
