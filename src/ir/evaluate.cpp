#include "tcc/ir/evaluate.h"

#include <algorithm>

namespace tcc::ir {

void assign(Assignment& values, Id id, int64_t value) {
  auto at = std::find_if(values.begin(), values.end(), [&](const auto& entry) { return entry.first == id; });
  if (at == values.end())
    values.emplace_back(id, value);
  else
    at->second = value;
}

std::optional<int64_t> evaluate(Expr e, std::span<const std::pair<Id, int64_t>> values) {
  auto both = [&](auto f) -> std::optional<int64_t> {
    const std::optional<int64_t> a = evaluate(as<Binary>(e)->a, values), b = evaluate(as<Binary>(e)->b, values);
    return a && b ? std::optional<int64_t>(f(*a, *b)) : std::nullopt;
  };
  switch (e->kind) {
    case ExprKind::kIntConst:
      return int_value(e);
    case ExprKind::kVar:
      for (const auto& [id, value] : values)
        if (id == as<Var>(e)->id) return value;
      return std::nullopt;
    case ExprKind::kSum: {
      int64_t total = as<Sum>(e)->constant;
      for (const Term& t : as<Sum>(e)->terms) {
        const std::optional<int64_t> atom = evaluate(t.atom, values);
        int64_t product = 0;
        if (!atom || __builtin_mul_overflow(t.coefficient, *atom, &product) ||
            __builtin_add_overflow(total, product, &total))
          return std::nullopt;
      }
      return total;
    }
    case ExprKind::kProd: {
      int64_t total = 1;
      for (Expr f : as<Prod>(e)->factors) {
        const std::optional<int64_t> factor = evaluate(f, values);
        if (!factor || __builtin_mul_overflow(total, *factor, &total)) return std::nullopt;
      }
      return total;
    }
    case ExprKind::kFloorDiv:
    case ExprKind::kFloorMod: {
      const std::optional<int64_t> a = evaluate(as<Binary>(e)->a, values), b = evaluate(as<Binary>(e)->b, values);
      if (!a || !b || *b == 0) return std::nullopt;
      return e->kind == ExprKind::kFloorDiv ? floor_div(*a, *b) : floor_mod(*a, *b);
    }
    case ExprKind::kMin:
      return both([](int64_t a, int64_t b) { return std::min(a, b); });
    case ExprKind::kMax:
      return both([](int64_t a, int64_t b) { return std::max(a, b); });
    case ExprKind::kLt:
      return both([](int64_t a, int64_t b) { return a < b; });
    case ExprKind::kLe:
      return both([](int64_t a, int64_t b) { return a <= b; });
    case ExprKind::kEq:
      return both([](int64_t a, int64_t b) { return a == b; });
    case ExprKind::kNe:
      return both([](int64_t a, int64_t b) { return a != b; });
    case ExprKind::kAnd:
      return both([](int64_t a, int64_t b) { return a != 0 && b != 0; });
    case ExprKind::kOr:
      return both([](int64_t a, int64_t b) { return a != 0 || b != 0; });
    case ExprKind::kNot: {
      const std::optional<int64_t> a = evaluate(as<Unary>(e)->a, values);
      return a ? std::optional<int64_t>(*a == 0) : std::nullopt;
    }
    case ExprKind::kSelect: {
      const std::optional<int64_t> condition = evaluate(as<Select>(e)->condition, values);
      if (!condition) return std::nullopt;
      return evaluate(*condition != 0 ? as<Select>(e)->a : as<Select>(e)->b, values);
    }
    case ExprKind::kFloatConst:
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kDiv:
    case ExprKind::kCast:
    case ExprKind::kLoad:
    case ExprKind::kCall:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace tcc::ir
