#include "tcc/analysis/simplify.h"

#include <algorithm>
#include <array>
#include <span>

#include "tcc/ir/walk.h"

namespace tcc::analysis {

using namespace ir;

namespace {

constexpr int64_t kMaxFactor = int64_t{1} << 31;  // products of two of them are numbers

struct Context {
  Builder& b;
  const Ranges& ranges;
  bool of_address = false;
};

// Nodes as written: constants and coefficients other than one count too.
int64_t size(Expr e) {
  int64_t nodes = 0;
  visit(e, [&](Expr x) {
    ++nodes;
    if (const Sum* s = as<Sum>(x)) {
      nodes += s->constant != 0 ? 1 : 0;
      for (const Term& t : s->terms) nodes += t.coefficient != 1 ? 1 : 0;
    }
    return true;
  });
  return nodes;
}

// A rule returns the smaller equal expression or nullptr. Operands are simplified already.
using Rule = Expr (*)(Context&, Expr);

// x div d = 0 and x mod d = x when 0 <= x < d.
Expr quotient_of_small(Context& c, Expr e) {
  if (e->kind != ExprKind::kFloorDiv && e->kind != ExprKind::kFloorMod) return nullptr;
  const Binary* x = as<Binary>(e);
  if (!c.ranges.prove_less(c.b, x->a, x->b) || !c.ranges.prove_non_negative(c.b, x->a)) return nullptr;
  return e->kind == ExprKind::kFloorDiv ? c.b.integer(0) : x->a;
}

// (c q + r) div c = q + k when k c <= r < (k + 1) c for the part r with small coefficients: canonical form pulls q out,
// the remaining quotient is constant when both ends of its range agree.
Expr constant_quotient(Context& c, Expr e) {
  if (e->kind != ExprKind::kFloorDiv) return nullptr;
  const Interval bounds = c.ranges.bounds(e);
  return bounds.low == bounds.high ? c.b.integer(bounds.low) : nullptr;
}

// (r + y div c) div d = (c r + y) div (c d); nullptr: the numerator has no such part.
Expr joined_quotient(Context& c, const Binary* x) {
  const Sum* s = as<Sum>(x->a);
  if (s == nullptr || !is_int(x->b)) return nullptr;
  for (const Term& t : s->terms) {
    const Binary* inner = t.coefficient == 1 && t.atom->kind == ExprKind::kFloorDiv ? as<Binary>(t.atom) : nullptr;
    if (inner == nullptr || !is_int(inner->b) || int_value(inner->b) <= 0 || int_value(inner->b) > kMaxFactor ||
        int_value(x->b) <= 0 || int_value(x->b) > kMaxFactor)
      continue;
    Expr rest = c.b.scale(c.b.sub(x->a, t.atom), int_value(inner->b));
    return c.b.floor_div(c.b.add(rest, inner->a), c.b.integer(int_value(inner->b) * int_value(x->b)));
  }
  return nullptr;
}

// (x mod m) div d stays, but (x mod m) with x = m' y, m = m' n is canonical already; nested mod of a bounded part:
// (a + b) mod d = a mod d + b when a is a multiple of g, g divides d, 0 <= b < g.
Expr split_modulo(Context& c, Expr e) {
  if (e->kind != ExprKind::kFloorMod && e->kind != ExprKind::kFloorDiv) return nullptr;
  const Binary* x = as<Binary>(e);
  const Sum* s = as<Sum>(x->a);
  if (s == nullptr || !is_int(x->b) || int_value(x->b) <= 0) return nullptr;
  int64_t d = int_value(x->b);
  for (const Term& t : s->terms) {
    int64_t g = t.coefficient;
    if (g <= 1 || d % g != 0) continue;
    std::vector<Term> big, small;
    for (const Term& u : s->terms) (u.coefficient % g == 0 ? big : small).push_back(u);
    int64_t constant = ((s->constant % g) + g) % g;
    if (small.empty() && constant == 0) continue;
    Expr rest = c.b.sum(constant, small);
    const Interval bounds = c.ranges.bounds(rest);
    if (bounds.low < 0 || bounds.high >= g) continue;
    Expr whole = c.b.sum(s->constant - constant, big);
    if (e->kind == ExprKind::kFloorDiv) return c.b.floor_div(whole, x->b);
    // A constant with parts in both would be written twice.
    Expr apart = c.b.add(c.b.floor_mod(whole, x->b), rest);
    if (size(apart) > size(e)) continue;
    return apart;
  }
  return nullptr;
}

bool is_factor(int64_t n) {
  return n > 0 && n <= kMaxFactor;
}

// m->a div m->b, as a sum may hold it: simplified, (16 x + y) div 48 is x div 3 for y < 16.
std::array<Expr, 4> quotients_of(Context& c, const Binary* m) {
  const Expr whole = c.b.floor_div(m->a, m->b), joined = joined_quotient(c, m);
  if (!c.of_address) return {whole, joined, nullptr, nullptr};
  return {whole, joined, split_modulo(c, whole), joined != nullptr ? split_modulo(c, joined) : nullptr};
}

// k d (x div d) + k (x mod d) = k x.
Expr recombine(Context& c, Expr e) {
  const Sum* s = as<Sum>(e);
  if (s == nullptr) return nullptr;
  for (const Term& mod : s->terms) {
    if (mod.atom->kind != ExprKind::kFloorMod) continue;
    const Binary* m = as<Binary>(mod.atom);
    for (const Expr quotient : quotients_of(c, m)) {
      if (quotient == nullptr) continue;
      Expr scaled = c.b.scale(c.b.mul(quotient, m->b), mod.coefficient);
      // The quotient part may have been pulled apart by the canonical form: subtract it and see whether the sum
      // shrinks.
      Expr candidate =
          c.b.add(c.b.sub(e, c.b.add(scaled, c.b.scale(mod.atom, mod.coefficient))), c.b.scale(m->a, mod.coefficient));
      const size_t before = s->terms.size();
      const size_t after = candidate->kind == ExprKind::kSum ? as<Sum>(candidate)->terms.size() : 1;
      bool quotient_gone = true;
      visit(candidate, [&](Expr x) {
        if (equal(x, quotient) || equal(x, mod.atom)) quotient_gone = false;
        return quotient_gone;
      });
      // x may have more terms than the two of its quotient and remainder, but is there once instead of twice.
      if (quotient_gone && (after < before || size(candidate) < size(e))) return candidate;
    }
  }
  return nullptr;
}

// The terms of a sum; `own` holds that of another expression.
std::span<const Term> terms_of(Expr e, Term& own) {
  if (const Sum* s = as<Sum>(e)) return s->terms;
  own = {1, e};
  return {&own, 1};
}

Expr simplify_node(Context& c, Expr e);

// x with x div d = `quotient` and x mod d = `low`, a simplified remainder by d; nullptr: none that forms tell. x need
// not be the dividend of `low`, which has lost what is a multiple of d: where d divides m n, the remainder of m (z mod
// n) + r is that of m z + r. And the quotient has lost what is smaller than a common factor g of its dividend and d;
// the remainder by g is that part.
Expr number_of_digits(Context& c, Expr quotient, Expr low) {
  const Binary* mod = as<Binary>(low);
  const int64_t d = int_value(mod->b);
  Term own{};
  for (const Term& t : terms_of(quotient, own)) {
    const Binary* inner = t.coefficient == 1 && t.atom->kind == ExprKind::kFloorDiv ? as<Binary>(t.atom) : nullptr;
    if (inner == nullptr || !is_int(inner->b) || !is_factor(int_value(inner->b)) || d % int_value(inner->b) != 0)
      continue;
    const int64_t g = d / int_value(inner->b);
    const Expr rest = c.b.scale(c.b.sub(quotient, t.atom), int_value(inner->b));
    Expr x = c.b.scale(c.b.add(rest, inner->a), g);
    if (g > 1) x = c.b.add(x, simplify_node(c, c.b.floor_mod(mod->a, c.b.integer(g))));
    if (equal(simplify_node(c, c.b.floor_mod(x, mod->b)), low)) return x;
  }
  return nullptr;
}

// Neighboring digits are one: k d (x div d) + k (x mod d) = k x, and where the upper one has a limit,
// k d ((x div d) mod n) + k (x mod d) = k (x mod (d n)).
Expr join_digits(Context& c, Expr e) {
  const Sum* s = as<Sum>(e);
  if (s == nullptr || !c.of_address) return nullptr;
  const auto divides_by_number = [](const Term& t) {
    return is_int(as<Binary>(t.atom)->b) && is_factor(int_value(as<Binary>(t.atom)->b));
  };
  for (const Term& low : s->terms) {
    if (low.atom->kind != ExprKind::kFloorMod || !divides_by_number(low) || !is_factor(std::abs(low.coefficient)))
      continue;
    const int64_t d = int_value(as<Binary>(low.atom)->b);
    for (const Term& high : s->terms) {
      const bool limited = high.atom->kind == ExprKind::kFloorMod;
      if ((!limited && high.atom->kind != ExprKind::kFloorDiv) || !divides_by_number(high) ||
          high.coefficient != low.coefficient * d)
        continue;
      const Binary* upper = as<Binary>(high.atom);
      Expr one = number_of_digits(c, limited ? upper->a : high.atom, low.atom);
      if (one == nullptr) continue;
      if (limited) one = c.b.floor_mod(one, c.b.integer(d * int_value(upper->b)));
      const Expr both = c.b.add(c.b.scale(high.atom, high.coefficient), c.b.scale(low.atom, low.coefficient));
      const Expr candidate = c.b.add(c.b.sub(e, both), c.b.scale(one, low.coefficient));
      if (size(candidate) < size(e)) return candidate;
    }
  }
  return nullptr;
}

// The term f ((m (x mod n) + r) div d), or f m (x mod n), with m x in place of m (x mod n): it becomes
// f m n / d (x div n) larger. nullptr: it has no such part for which wanted(x, n, f m n / d).
template <class F>
Expr without_remainder(Context& c, const Term& term, const F& wanted) {
  const Binary* quotient = term.atom->kind == ExprKind::kFloorDiv ? as<Binary>(term.atom) : nullptr;
  if (!is_factor(std::abs(term.coefficient)) || (quotient != nullptr && !is_int(quotient->b))) return nullptr;
  const int64_t d = quotient != nullptr ? int_value(quotient->b) : 1;
  const Expr inner = quotient != nullptr ? quotient->a : term.atom;
  if (!is_factor(d)) return nullptr;
  Term own{};
  for (const Term& t : terms_of(inner, own)) {
    const Binary* mod = t.atom->kind == ExprKind::kFloorMod ? as<Binary>(t.atom) : nullptr;
    if (mod == nullptr || !is_int(mod->b) || !is_factor(int_value(mod->b)) || !is_factor(t.coefficient)) continue;
    const int64_t n = int_value(mod->b), step = t.coefficient * n / d;
    if (t.coefficient * n % d != 0 || !is_factor(step) || !wanted(mod->a, n, step * term.coefficient)) continue;
    Expr whole = c.b.add(c.b.sub(inner, c.b.scale(t.atom, t.coefficient)), c.b.scale(mod->a, t.coefficient));
    if (quotient != nullptr) whole = c.b.floor_div(whole, quotient->b);
    return c.b.scale(whole, term.coefficient);
  }
  return nullptr;
}

// A remainder within a modulo by a divisor of what it would grow by is not needed. A program that is made with symbols
// for its decisions has such remainders, where one that is made with numbers has none.
Expr modulo_of_remainder(Context& c, Expr e) {
  const Binary* whole = e->kind == ExprKind::kFloorMod ? as<Binary>(e) : nullptr;
  if (whole == nullptr || !is_int(whole->b) || int_value(whole->b) <= 0) return nullptr;
  Term own{};
  for (const Term& t : terms_of(whole->a, own)) {
    const auto vanishes = [&](Expr, int64_t, int64_t step) { return step % int_value(whole->b) == 0; };
    Expr without = without_remainder(c, t, vanishes);
    if (without == nullptr) continue;
    Expr candidate = c.b.floor_mod(c.b.add(c.b.sub(whole->a, c.b.scale(t.atom, t.coefficient)), without), whole->b);
    if (size(candidate) < size(e)) return candidate;
  }
  return nullptr;
}

// A remainder and its quotient are one: k (x div n) + f ((m (x mod n) + r) div d) = f ((m x + r) div d) where
// d k = f m n. The canonical form pulls such quotients apart before their parts are known to be one index.
Expr recombine_quotients(Context& c, Expr e) {
  const Sum* s = as<Sum>(e);
  if (s == nullptr) return nullptr;
  for (const Term& t : s->terms) {
    if (t.atom->kind != ExprKind::kFloorDiv) continue;
    const Term* apart = nullptr;
    const auto has_quotient = [&](Expr x, int64_t n, int64_t step) {
      for (const Term& q : s->terms)
        if (q.coefficient == step && q.atom->kind == ExprKind::kFloorDiv && is_int(as<Binary>(q.atom)->b, n) &&
            equal(as<Binary>(q.atom)->a, x))
          apart = &q;
      return apart != nullptr;
    };
    Expr without = without_remainder(c, t, has_quotient);
    if (without == nullptr) continue;
    Expr both = c.b.add(c.b.scale(apart->atom, apart->coefficient), c.b.scale(t.atom, t.coefficient));
    Expr candidate = c.b.add(c.b.sub(e, both), without);
    if (size(candidate) < size(e)) return candidate;
  }
  return nullptr;
}

Expr known_comparison(Context& c, Expr e) {
  if (e->kind != ExprKind::kLt && e->kind != ExprKind::kEq && e->kind != ExprKind::kNe) return nullptr;
  const Binary* x = as<Binary>(e);
  if (x->a->type != Type::kI64) return nullptr;
  if (e->kind == ExprKind::kLt) {
    if (c.ranges.prove_less(c.b, x->a, x->b)) return c.b.boolean(true);
    if (c.ranges.prove_less(c.b, c.b.offset(x->b, -1), x->a)) return c.b.boolean(false);
    return nullptr;
  }
  if (c.ranges.prove_less(c.b, x->a, x->b) || c.ranges.prove_less(c.b, x->b, x->a))
    return c.b.boolean(e->kind == ExprKind::kNe);
  return nullptr;
}

Expr known_extremum(Context& c, Expr e) {
  if ((e->kind != ExprKind::kMin && e->kind != ExprKind::kMax) || e->type != Type::kI64) return nullptr;
  const Binary* x = as<Binary>(e);
  bool a_small = c.ranges.prove_less(c.b, x->a, c.b.offset(x->b, 1));
  if (a_small) return e->kind == ExprKind::kMin ? x->a : x->b;
  bool b_small = c.ranges.prove_less(c.b, x->b, c.b.offset(x->a, 1));
  if (b_small) return e->kind == ExprKind::kMin ? x->b : x->a;
  return nullptr;
}

// The factor of an atom in a sum, 0 where it is not there.
int64_t factor_of(Expr atom, Expr e) {
  if (const Sum* s = as<Sum>(e)) {
    for (const Term& t : s->terms)
      if (equal(t.atom, atom)) return t.coefficient;
    return 0;
  }
  return equal(e, atom) ? 1 : 0;
}

// Is x < y certain where fact < n? x - y is k fact and a rest.
bool follows(Context& c, Expr fact, int64_t n, Expr x, Expr y) {
  const Sum* s = as<Sum>(fact);
  const Expr atom = s != nullptr ? s->terms[0].atom : fact;
  const int64_t own = s != nullptr ? s->terms[0].coefficient : 1;
  const Expr difference = c.b.sub(x, y);
  const int64_t k = factor_of(atom, difference) / own;
  if (k <= 0 || k > kMaxFactor || n < 1 || n > kMaxFactor) return false;
  return c.ranges.bounds(c.b.add(c.b.sub(difference, c.b.scale(fact, k)), c.b.integer(k * (n - 1)))).high < 0;
}

// What another conjunct makes certain need not be asked: a loop that is split again, with a predicate of its own,
// leaves the first split's behind.
Expr implied_conjunct(Context& c, Expr e) {
  if (e->kind != ExprKind::kAnd) return nullptr;
  auto index_bound = [](Expr x) { return x->kind == ExprKind::kLt && as<Binary>(x)->a->type == Type::kI64; };
  std::vector<Expr> conjuncts;
  split_conjunction(e, conjuncts);
  for (Expr fact : conjuncts) {
    if (!index_bound(fact) || !is_int(as<Binary>(fact)->b) || is_int(as<Binary>(fact)->a)) continue;
    const Binary* known = as<Binary>(fact);
    for (Expr other : conjuncts) {
      if (other == fact || !index_bound(other)) continue;
      if (!follows(c, known->a, int_value(known->b), as<Binary>(other)->a, as<Binary>(other)->b)) continue;
      Expr rest = nullptr;
      for (Expr x : conjuncts)
        if (x != other) rest = c.b.logical_and(rest, x);
      return rest;
    }
  }
  return nullptr;
}

constexpr std::array<Rule, 10> kRules = {quotient_of_small, constant_quotient,   split_modulo,        recombine,
                                         join_digits,       modulo_of_remainder, recombine_quotients, known_comparison,
                                         known_extremum,    implied_conjunct};

bool has_rules(ExprKind kind) {
  using enum ExprKind;
  return kind == kFloorDiv || kind == kFloorMod || kind == kLt || kind == kEq || kind == kNe || kind == kMin ||
         kind == kMax;
}

bool needs_rules(Expr e) {
  bool found = false;
  visit(e, [&](Expr x) {
    found |= has_rules(x->kind);
    return !found;
  });
  return found;
}

Expr simplify_node(Context& c, Expr e) {
  std::vector<Expr> done;
  while (true) {
    // The builder may answer with nodes of its own, such as (2 x) mod 4 = 2 (x mod 2): those come again.
    Expr rebuilt = rewrite_children(c.b, e, [&](Expr child) {
      if (child->kind == ExprKind::kVar || is_int(child)) return child;
      if (std::find(done.begin(), done.end(), child) != done.end()) return child;
      done.push_back(simplify_node(c, child));
      return done.back();
    });
    if (rebuilt != e) {
      e = rebuilt;
      continue;
    }
    Expr smaller = nullptr;
    for (size_t i = 0; i < kRules.size() && smaller == nullptr; ++i) smaller = kRules[i](c, e);
    if (smaller == nullptr) return e;
    e = smaller;
  }
}

}  // namespace

Expr simplify(Builder& b, Expr e, const Ranges& ranges) {
  if (!needs_rules(e)) return e;
  Context c{b, ranges};
  return simplify_node(c, e);
}

Expr simplify_address(Builder& b, Expr e, const Ranges& ranges) {
  if (!needs_rules(e)) return e;
  Context c{b, ranges, true};
  return simplify_node(c, e);
}

}  // namespace tcc::analysis
