#include "tcc/analysis/injective.h"

#include <algorithm>

#include "tcc/ir/walk.h"

namespace tcc::analysis {

using namespace ir;

namespace {

struct Digit {
  const Loop* loop;
  Expr weight;  // of the loop variable in the binding
};

bool mentions(Expr e, Id id) {
  if (!may_mention(e, id)) return false;
  bool found = false;
  visit(e, [&](Expr x) {
    if (const Var* v = as<Var>(x)) found |= v->id == id;
    return !found;
  });
  return found;
}

// The weight of loop variable v in a term, nullptr when the term is not (symbols * v).
Expr weight_of(Builder& b, const Term& term, Id v) {
  std::vector<Expr> rest;
  bool seen = false;
  std::span<const Expr> factors(&term.atom, 1);
  if (const Prod* p = as<Prod>(term.atom)) factors = p->factors;
  for (Expr f : factors) {
    const Var* var = as<Var>(f);
    if (var != nullptr && var->id == v && !seen) {
      seen = true;
      continue;
    }
    if (mentions(f, v)) return nullptr;
    rest.push_back(f);
  }
  return seen ? b.scale(b.product(rest), term.coefficient) : nullptr;
}

// Constant weights: each exceeds what all smaller digits reach together.
bool constant_radix(std::vector<Digit>& digits) {
  std::sort(digits.begin(), digits.end(), [](const Digit& x, const Digit& y) {
    return std::abs(int_value(x.weight)) < std::abs(int_value(y.weight));
  });
  int64_t reach = 0;
  for (const Digit& d : digits) {
    int64_t n = int_value(d.loop->extent), w = std::abs(int_value(d.weight));
    if (n <= 1) continue;
    if (w <= reach) return false;
    reach += w * (n - 1);
  }
  return true;
}

// Symbolic weights: 1, e_0, e_0 e_1, ... in some order. A single digit needs no more than to move.
bool symbolic_radix(Builder& b, std::vector<Digit> digits, const Ranges& ranges) {
  if (digits.size() == 1 && ranges.prove_less(b, b.integer(0), digits[0].weight)) return true;
  Expr radix = b.integer(1);
  while (!digits.empty()) {
    auto it = std::find_if(digits.begin(), digits.end(),
                           [&](const Digit& d) { return ranges.prove_equal(b, d.weight, radix); });
    if (it == digits.end()) return false;
    radix = b.mul(radix, it->loop->extent);
    digits.erase(it);
  }
  return true;
}

}  // namespace

bool is_injective(Builder& b, const Block& block, std::span<const Loop* const> loops, const Ranges& ranges) {
  std::vector<std::vector<Digit>> digits(block.iters.size());
  for (const Loop* l : loops) {
    if (is_int(l->extent, 1)) continue;
    int uses = 0;
    for (size_t i = 0; i < block.iters.size(); ++i) {
      Expr binding = block.iters[i].binding;
      if (!mentions(binding, l->id)) continue;
      ++uses;
      Term single{1, binding};
      std::span<const Term> terms(&single, 1);
      if (const Sum* s = as<Sum>(binding)) terms = s->terms;
      Expr weight = nullptr;
      for (const Term& t : terms) {
        if (!mentions(t.atom, l->id)) continue;
        if (weight != nullptr) return false;
        weight = weight_of(b, t, l->id);
        if (weight == nullptr) return false;
      }
      digits[i].push_back({l, weight});
    }
    if (uses != 1) return false;
  }
  for (auto& list : digits) {
    bool constant = std::all_of(list.begin(), list.end(),
                                [](const Digit& d) { return is_int(d.weight) && is_int(d.loop->extent); });
    if (constant ? !constant_radix(list) : !symbolic_radix(b, list, ranges)) return false;
  }
  return true;
}

}  // namespace tcc::analysis
