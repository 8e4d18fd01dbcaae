#include "tcc/ir/interval.h"

#include <algorithm>

#include "tcc/ir/evaluate.h"
#include "tcc/ir/kinds.h"

namespace tcc::ir {
namespace {

using Wide = __int128;
constexpr int64_t kUnbounded = Interval::kUnbounded;

// An end that leaves the range becomes unknown.
Interval make(Wide low, Wide high) {
  auto inside = [](Wide v) { return -kUnbounded < v && v < kUnbounded; };
  return {inside(low) ? static_cast<int64_t>(low) : -kUnbounded,
          inside(high) ? static_cast<int64_t>(high) : kUnbounded};
}
bool is_known(int64_t end) {
  return -kUnbounded < end && end < kUnbounded;
}
Interval multiply(Interval a, Interval b) {
  const Wide p[] = {Wide{a.low} * b.low, Wide{a.low} * b.high, Wide{a.high} * b.low, Wide{a.high} * b.high};
  return make(*std::min_element(p, p + 4), *std::max_element(p, p + 4));
}

}  // namespace

Interval interval_of(Expr e, FunctionRef<Interval(Id)> variable) {
  auto of = [&](Expr x) { return interval_of(x, variable); };
  switch (e->kind) {
    case ExprKind::kIntConst:
      return make(int_value(e), int_value(e));
    case ExprKind::kVar:
      return variable(static_cast<const Var*>(e)->id);
    case ExprKind::kSum: {
      constexpr Wide kInfinite = Wide{1} << 100;  // no sum of known ends brings it back
      const Sum* s = static_cast<const Sum*>(e);
      Wide low = s->constant, high = s->constant;
      for (const Term& t : s->terms) {
        const Interval x = of(t.atom);
        const int64_t first = t.coefficient > 0 ? x.low : x.high, last = t.coefficient > 0 ? x.high : x.low;
        low += is_known(first) ? Wide{t.coefficient} * first : -kInfinite;
        high += is_known(last) ? Wide{t.coefficient} * last : kInfinite;
      }
      return make(low, high);
    }
    case ExprKind::kProd: {
      Interval total{1, 1};
      for (Expr f : static_cast<const Prod*>(e)->factors) total = multiply(total, of(f));
      return total;
    }
    case ExprKind::kFloorDiv: {
      const Interval a = of(static_cast<const Binary*>(e)->a), d = of(static_cast<const Binary*>(e)->b);
      if (d.low <= 0) return {};
      return {a.low > -kUnbounded ? std::min(floor_div(a.low, d.low), floor_div(a.low, d.high)) : -kUnbounded,
              a.high < kUnbounded ? std::max(floor_div(a.high, d.low), floor_div(a.high, d.high)) : kUnbounded};
    }
    case ExprKind::kFloorMod: {
      const Interval a = of(static_cast<const Binary*>(e)->a), d = of(static_cast<const Binary*>(e)->b);
      if (d.low <= 0) return {};
      const int64_t most = d.high < kUnbounded ? d.high - 1 : kUnbounded;
      return {0, a.low >= 0 ? std::min(a.high, most) : most};
    }
    case ExprKind::kMin:
    case ExprKind::kMax: {
      const Interval a = of(static_cast<const Binary*>(e)->a), b = of(static_cast<const Binary*>(e)->b);
      if (e->kind == ExprKind::kMin) return {std::min(a.low, b.low), std::min(a.high, b.high)};
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    }
    case ExprKind::kSelect: {
      const Interval a = of(static_cast<const Select*>(e)->a), b = of(static_cast<const Select*>(e)->b);
      return {std::min(a.low, b.low), std::max(a.high, b.high)};
    }
    case ExprKind::kFloatConst:
    case TCC_DATA_KINDS:
      return {};
  }
  return {};
}

}  // namespace tcc::ir
