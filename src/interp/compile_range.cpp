// Intervals of index expressions from loop extents: what needs no bounds check when run.
#include <algorithm>

#include "interp/compile.h"
#include "tcc/ir/evaluate.h"

namespace tcc::interp {
namespace {

using Wide = __int128;

Interval make(Wide low, Wide high) {
  constexpr Wide kLimit = Wide{1} << 62;
  if (low < -kLimit || high > kLimit) return {};
  return {static_cast<int64_t>(low), static_cast<int64_t>(high)};
}
Interval multiply(const Interval& a, const Interval& b) {
  if (!a.known() || !b.known()) return {};
  const Wide p[] = {Wide{a.low} * b.low, Wide{a.low} * b.high, Wide{a.high} * b.low, Wide{a.high} * b.high};
  return make(*std::min_element(p, p + 4), *std::max_element(p, p + 4));
}

}  // namespace

Interval Compiler::interval(ir::Expr e) {
  switch (e->kind) {
    case ir::ExprKind::kIntConst:
      return {ir::int_value(e), ir::int_value(e)};
    case ir::ExprKind::kVar: {
      expr(e);  // binds scalars
      return variables_[static_cast<size_t>(static_cast<const ir::Var*>(e)->id)].range;
    }
    case ir::ExprKind::kSum: {
      const auto* s = static_cast<const ir::Sum*>(e);
      Wide low = s->constant, high = s->constant;
      for (const ir::Term& t : s->terms) {
        const Interval part = multiply(interval(t.atom), {t.coefficient, t.coefficient});
        if (!part.known()) return {};
        low += part.low;
        high += part.high;
      }
      return make(low, high);
    }
    case ir::ExprKind::kProd: {
      Interval total{1, 1};
      for (ir::Expr f : static_cast<const ir::Prod*>(e)->factors) total = multiply(total, interval(f));
      return total;
    }
    case ir::ExprKind::kFloorDiv:
    case ir::ExprKind::kFloorMod: {
      const auto* b = static_cast<const ir::Binary*>(e);
      if (!ir::is_int(b->b) || ir::int_value(b->b) <= 0) return {};
      const int64_t divisor = ir::int_value(b->b);
      const Interval a = interval(b->a);
      if (e->kind == ir::ExprKind::kFloorMod) {
        if (!a.known() || ir::floor_div(a.low, divisor) != ir::floor_div(a.high, divisor)) return {0, divisor - 1};
        return {a.low - ir::floor_div(a.low, divisor) * divisor, a.high - ir::floor_div(a.high, divisor) * divisor};
      }
      if (!a.known()) return {};
      return {ir::floor_div(a.low, divisor), ir::floor_div(a.high, divisor)};
    }
    case ir::ExprKind::kMin:
    case ir::ExprKind::kMax: {
      const auto* b = static_cast<const ir::Binary*>(e);
      const Interval x = interval(b->a), y = interval(b->b);
      if (!x.known() || !y.known()) return {};
      if (e->kind == ir::ExprKind::kMin) return {std::min(x.low, y.low), std::min(x.high, y.high)};
      return {std::max(x.low, y.low), std::max(x.high, y.high)};
    }
    case ir::ExprKind::kSelect: {
      const auto* s = static_cast<const ir::Select*>(e);
      const Interval x = interval(s->a), y = interval(s->b);
      if (!x.known() || !y.known()) return {};
      return {std::min(x.low, y.low), std::max(x.high, y.high)};
    }
    case ir::ExprKind::kFloatConst:
    case ir::ExprKind::kAdd:
    case ir::ExprKind::kSub:
    case ir::ExprKind::kMul:
    case ir::ExprKind::kDiv:
    case ir::ExprKind::kLt:
    case ir::ExprKind::kLe:
    case ir::ExprKind::kEq:
    case ir::ExprKind::kNe:
    case ir::ExprKind::kAnd:
    case ir::ExprKind::kOr:
    case ir::ExprKind::kNot:
    case ir::ExprKind::kCast:
    case ir::ExprKind::kLoad:
    case ir::ExprKind::kCall:
      return {};
  }
  return {};
}

}  // namespace tcc::interp
