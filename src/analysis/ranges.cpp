#include "tcc/analysis/ranges.h"

#include <algorithm>

#include "tcc/ir/kinds.h"
#include "tcc/ir/walk.h"

namespace tcc::analysis {

using namespace ir;

Ranges::Ranges(const Kernel& kernel) : kernel_(&kernel), extents_(static_cast<size_t>(kernel.next_id) + 16, nullptr) {}

Expr Ranges::set(Id v, Expr extent) {
  if (static_cast<size_t>(v) >= extents_.size()) extents_.resize(static_cast<size_t>(v) + 32, nullptr);
  return std::exchange(extents_[static_cast<size_t>(v)], extent);
}

ir::Interval Ranges::bounds(Expr e) const {
  return interval_of(e, [&](Id id) -> Interval {
    if (Expr n = extent(id)) {
      const int64_t most = is_int(n) ? int_value(n) : bounds(n).high;
      return {0, most < Interval::kUnbounded ? std::max<int64_t>(most - 1, 0) : most};
    }
    const Scalar* s = kernel_->scalar(id);
    return s != nullptr ? Interval{s->low, s->high} : Interval{};
  });
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
      Expr x = bounds(as<Binary>(e)->a).low >= 0 ? bound(b, as<Binary>(e)->a, true, inner) : nullptr;
      return x == nullptr ? b.offset(y, -1) : b.min(x, b.offset(y, -1));
    }
    case ExprKind::kMin:
    case ExprKind::kMax: {
      Expr x = bound(b, as<Binary>(e)->a, up, inner), y = bound(b, as<Binary>(e)->b, up, inner);
      return x == nullptr || y == nullptr ? nullptr : b.binary(e->kind, x, y);
    }
    case ExprKind::kSelect:
    case ExprKind::kFloatConst:
    case TCC_DATA_KINDS:
      return nullptr;
  }
  return nullptr;
}

int64_t Ranges::most(Expr e) const {
  using Wide = __int128;
  constexpr int64_t kUnbounded = ir::Interval::kUnbounded;
  if (const Sum* s = as<Sum>(e)) {
    Wide total = s->constant;
    for (const Term& t : s->terms) {
      const int64_t end = t.coefficient > 0 ? most(t.atom) : bounds(t.atom).low;
      if (end >= kUnbounded || end <= -kUnbounded) return kUnbounded;
      total += Wide{t.coefficient} * end;
    }
    return total < kUnbounded ? static_cast<int64_t>(std::max<Wide>(total, -kUnbounded)) : kUnbounded;
  }
  int64_t result = bounds(e).high;
  const Prod* p = as<Prod>(e);
  if (p == nullptr) return result;
  // The other factors of a fact are 1 or more.
  for (const ProductFact& fact : kernel_->products) {
    const bool all = std::all_of(p->factors.begin(), p->factors.end(), [&](Expr f) {
      auto same = [&](Expr x) { return equal(x, f); };
      return std::count_if(p->factors.begin(), p->factors.end(), same) <=
             std::count_if(fact.factors.begin(), fact.factors.end(), same);
    });
    if (all) result = std::min(result, fact.product);
  }
  return result;
}

bool Ranges::depends_on_decisions(Expr e) const {
  if (kernel_->scalars.empty()) return false;
  bool found = false;
  visit(e, [&](Expr x) {
    const Var* v = as<Var>(x);
    if (v == nullptr || found) return !found;
    const Expr n = extent(v->id);
    const Scalar* s = n == nullptr ? kernel_->scalar(v->id) : nullptr;
    found = n != nullptr ? depends_on_decisions(n) : s != nullptr && s->role == ScalarRole::kDecision;
    return !found;
  });
  return found;
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
  if (bounds(d).high < 0) return true;
  if (kernel_->scalars.empty()) return false;
  // Loop variables go to their symbolic limits first; what remains is a polynomial in symbols.
  Expr u = upper(b, d, [&](Id v) { return extent(v) != nullptr; });
  if (u == nullptr) return false;
  return bounds(apply_products(b, u)).high < 0;
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
