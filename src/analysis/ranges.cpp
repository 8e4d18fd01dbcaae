#include "tcc/analysis/ranges.h"

#include <algorithm>

#include "tcc/support/check.h"

namespace tcc::analysis {

using namespace ir;

namespace {

bool multiply(int64_t a, int64_t b, int64_t& out) {
  return !__builtin_mul_overflow(a, b, &out);
}
bool accumulate(int64_t& total, int64_t value) {
  return !__builtin_add_overflow(total, value, &total);
}

int64_t floor_quotient(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

}  // namespace

Ranges::Ranges(const Kernel& kernel) : kernel_(&kernel), extents_(static_cast<size_t>(kernel.next_id) + 16, nullptr) {}

Expr Ranges::set(Id v, Expr extent) {
  if (static_cast<size_t>(v) >= extents_.size()) extents_.resize(static_cast<size_t>(v) + 32, nullptr);
  return std::exchange(extents_[static_cast<size_t>(v)], extent);
}

bool Ranges::bounds(Expr e, ConstBounds& out) const {
  switch (e->kind) {
    case ExprKind::kIntConst:
      out = {int_value(e), int_value(e)};
      return true;
    case ExprKind::kVar: {
      Id id = as<Var>(e)->id;
      if (Expr n = extent(id)) {
        ConstBounds b;
        if (is_int(n))
          b = {int_value(n), int_value(n)};
        else if (!bounds(n, b))
          return false;
        out = {0, std::max<int64_t>(b.high - 1, 0)};
        return true;
      }
      if (const Scalar* s = kernel_->scalar(id)) {
        out = {s->low, s->high};
        return true;
      }
      return false;
    }
    case ExprKind::kSum: {
      int64_t low = as<Sum>(e)->constant, high = low;
      for (const Term& t : as<Sum>(e)->terms) {
        ConstBounds b;
        if (!bounds(t.atom, b)) return false;
        int64_t x, y;
        if (!multiply(t.coefficient, b.low, x) || !multiply(t.coefficient, b.high, y)) return false;
        if (!accumulate(low, std::min(x, y)) || !accumulate(high, std::max(x, y))) return false;
      }
      out = {low, high};
      return true;
    }
    case ExprKind::kProd: {
      ConstBounds total{1, 1};
      for (Expr f : as<Prod>(e)->factors) {
        ConstBounds b;
        if (!bounds(f, b)) return false;
        int64_t p[4];
        if (!multiply(total.low, b.low, p[0]) || !multiply(total.low, b.high, p[1]) ||
            !multiply(total.high, b.low, p[2]) || !multiply(total.high, b.high, p[3]))
          return false;
        total = {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
      }
      out = total;
      return true;
    }
    case ExprKind::kFloorDiv: {
      ConstBounds a, d;
      if (!bounds(as<Binary>(e)->a, a) || !bounds(as<Binary>(e)->b, d) || d.low <= 0) return false;
      out = {std::min(floor_quotient(a.low, d.low), floor_quotient(a.low, d.high)),
             std::max(floor_quotient(a.high, d.low), floor_quotient(a.high, d.high))};
      return true;
    }
    case ExprKind::kFloorMod: {
      ConstBounds a, d;
      if (!bounds(as<Binary>(e)->b, d) || d.low <= 0) return false;
      out = {0, d.high - 1};
      if (bounds(as<Binary>(e)->a, a) && a.low >= 0) out.high = std::min(out.high, a.high);
      return true;
    }
    case ExprKind::kMin:
    case ExprKind::kMax: {
      ConstBounds a, c;
      if (!bounds(as<Binary>(e)->a, a) || !bounds(as<Binary>(e)->b, c)) return false;
      out = e->kind == ExprKind::kMin ? ConstBounds{std::min(a.low, c.low), std::min(a.high, c.high)}
                                      : ConstBounds{std::max(a.low, c.low), std::max(a.high, c.high)};
      return true;
    }
    case ExprKind::kSelect: {
      ConstBounds a, c;
      if (!bounds(as<Select>(e)->a, a) || !bounds(as<Select>(e)->b, c)) return false;
      out = {std::min(a.low, c.low), std::max(a.high, c.high)};
      return true;
    }
    case ExprKind::kFloatConst:
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
    case ExprKind::kNot:
    case ExprKind::kCast:
    case ExprKind::kLoad:
    case ExprKind::kCall:
      return false;
  }
  return false;
}

Expr Ranges::bound(Builder& b, Expr e, bool up, const Predicate& inner) const {
  switch (e->kind) {
    case ExprKind::kIntConst:
      return e;
    case ExprKind::kVar: {
      Id id = as<Var>(e)->id;
      if (!inner(id)) return e;
      Expr n = extent(id);
      if (n == nullptr) return nullptr;
      return up ? bound(b, b.offset(n, -1), true, inner) : b.integer(0);
    }
    case ExprKind::kSum: {
      std::vector<Term> terms;
      terms.reserve(as<Sum>(e)->terms.size());
      for (const Term& t : as<Sum>(e)->terms) {
        Expr x = bound(b, t.atom, t.coefficient > 0 ? up : !up, inner);
        if (x == nullptr) return nullptr;
        terms.push_back({t.coefficient, x});
      }
      return b.sum(as<Sum>(e)->constant, terms);
    }
    case ExprKind::kProd: {
      std::vector<Expr> factors;
      for (Expr f : as<Prod>(e)->factors) {
        Expr x = bound(b, f, up, inner);
        if (x == nullptr) return nullptr;
        factors.push_back(x);
      }
      return b.product(factors);
    }
    case ExprKind::kFloorDiv: {
      Expr d = as<Binary>(e)->b;
      Expr x = bound(b, as<Binary>(e)->a, up, inner), y = bound(b, d, !up, inner);
      return x == nullptr || y == nullptr || is_int(y, 0) ? nullptr : b.floor_div(x, y);
    }
    case ExprKind::kFloorMod: {
      bool touched = false;
      for (size_t v = 0; v < extents_.size() && !touched; ++v)
        touched = extents_[v] != nullptr && may_mention(e, static_cast<Id>(v)) && inner(static_cast<Id>(v));
      if (!touched) return e;
      if (!up) return b.integer(0);
      Expr y = bound(b, as<Binary>(e)->b, true, inner);
      if (y == nullptr) return nullptr;
      // A negative dividend has a remainder above it.
      ConstBounds a;
      bool positive = bounds(as<Binary>(e)->a, a) && a.low >= 0;
      Expr x = positive ? bound(b, as<Binary>(e)->a, true, inner) : nullptr;
      return x == nullptr ? b.offset(y, -1) : b.min(x, b.offset(y, -1));
    }
    case ExprKind::kMin:
    case ExprKind::kMax: {
      Expr x = bound(b, as<Binary>(e)->a, up, inner), y = bound(b, as<Binary>(e)->b, up, inner);
      return x == nullptr || y == nullptr ? nullptr : b.binary(e->kind, x, y);
    }
    case ExprKind::kSelect:
    case ExprKind::kFloatConst:
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
    case ExprKind::kNot:
    case ExprKind::kCast:
    case ExprKind::kLoad:
    case ExprKind::kCall:
      return nullptr;
  }
  return nullptr;
}

Expr Ranges::apply_products(Builder& b, Expr e) const {
  if (kernel_->products.empty() || is_int(e)) return e;
  auto fold = [&](Expr atom) -> Expr {
    if (atom->kind != ExprKind::kProd) return atom;
    for (const ProductFact& fact : kernel_->products) {
      std::vector<Expr> rest(as<Prod>(atom)->factors.begin(), as<Prod>(atom)->factors.end());
      bool all = true;
      for (Expr f : fact.factors) {
        auto it = std::find_if(rest.begin(), rest.end(), [&](Expr x) { return equal(x, f); });
        if (it == rest.end()) {
          all = false;
          break;
        }
        rest.erase(it);
      }
      if (all) return b.scale(b.product(rest), fact.product);
    }
    return atom;
  };
  if (e->kind != ExprKind::kSum) return fold(e);
  std::vector<Term> terms;
  bool changed = false;
  for (const Term& t : as<Sum>(e)->terms) {
    Expr x = fold(t.atom);
    changed |= x != t.atom;
    terms.push_back({t.coefficient, x});
  }
  return changed ? apply_products(b, b.sum(as<Sum>(e)->constant, terms)) : e;
}

bool Ranges::prove_less(Builder& b, Expr x, Expr y) const {
  Expr d = b.sub(x, y);
  ConstBounds c;
  if (bounds(d, c) && c.high < 0) return true;
  if (kernel_->scalars.empty()) return false;
  // Loop variables go to their symbolic limits first; what remains is a polynomial in symbols.
  Expr u = upper(b, d, [&](Id v) { return extent(v) != nullptr; });
  if (u == nullptr) return false;
  u = apply_products(b, u);
  return bounds(u, c) && c.high < 0;
}

bool Ranges::prove_equal(Builder& b, Expr x, Expr y) const {
  if (equal(x, y)) return true;
  Expr d = apply_products(b, b.sub(x, y));
  return is_int(d, 0);
}

bool Ranges::prove_non_negative(Builder& b, Expr x) const {
  return prove_less(b, b.integer(-1), x);
}

}  // namespace tcc::analysis
