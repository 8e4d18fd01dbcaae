#include "tcc/analysis/injective.h"

#include <algorithm>
#include <optional>

#include "tcc/analysis/simplify.h"
#include "tcc/ir/query.h"

namespace tcc::analysis {

using namespace ir;

namespace {

// A loop, or a part of one: what runs over [0, extent).
struct Runner {
  Id id;
  Expr extent;
};
struct Digit {
  Expr extent;
  Expr weight;  // of the variable in the binding
};

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
    int64_t n = int_value(d.extent), w = std::abs(int_value(d.weight));
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
    radix = b.mul(radix, it->extent);
    digits.erase(it);
  }
  return true;
}

// (v / divisor) % extent of a variable with values below `all`.
struct Part {
  int64_t divisor, extent;
};
std::optional<Part> part_of(Expr e, Id v, int64_t all) {
  const Var* var = as<Var>(e);
  if (var != nullptr && var->id == v) return Part{1, all};
  if (e->kind != ExprKind::kFloorDiv && e->kind != ExprKind::kFloorMod) return std::nullopt;
  const Binary& op = *as<Binary>(e);
  const std::optional<Part> inner = is_int(op.b) && int_value(op.b) > 0 ? part_of(op.a, v, all) : std::nullopt;
  if (!inner) return std::nullopt;
  const int64_t n = int_value(op.b);
  if (e->kind == ExprKind::kFloorMod) return Part{inner->divisor, std::min(n, inner->extent)};
  return Part{inner->divisor * n, (inner->extent + n - 1) / n};
}

// A variable that is used in parts only, which together are all of it, is as good as a variable for each part.
class Splitter {
 public:
  explicit Splitter(Builder& b) : b_(b) {}

  void split(const Loop& l, std::vector<Expr>& bindings, std::vector<Runner>& runners) {
    parts_.clear();
    loop_ = &l;
    std::vector<Expr> replaced;
    if (is_int(l.extent) && std::none_of(bindings.begin(), bindings.end(), [&](Expr e) { return is_whole(e); }))
      for (Expr e : bindings) replaced.push_back(rewrite(e));
    std::sort(parts_.begin(), parts_.end(),
              [](const auto& x, const auto& y) { return x.first.divisor < y.first.divisor; });
    int64_t covered = 1;
    for (const auto& [part, id] : parts_) covered = part.divisor == covered ? covered * part.extent : 0;
    if (parts_.size() < 2 || covered < int_value(l.extent)) {
      runners.push_back({l.id, l.extent});
      return;
    }
    bindings = std::move(replaced);
    for (const auto& [part, id] : parts_) runners.push_back({id, b_.integer(part.extent)});
  }

 private:
  // The variable by itself, or times something, is in it.
  bool is_whole(Expr e) const {
    if (!mentions(e, loop_->id)) return false;
    if (as<Var>(e) != nullptr) return true;
    if (part_of(e, loop_->id, int_value(loop_->extent))) return false;
    bool whole = false;
    rewrite_children(b_, e, [&](Expr c) {
      whole |= is_whole(c);
      return c;
    });
    return whole;
  }
  Expr rewrite(Expr e) {
    if (!mentions(e, loop_->id)) return e;
    if (const std::optional<Part> part = part_of(e, loop_->id, int_value(loop_->extent))) {
      parts_.emplace_back(*part, kPartIds + next_++);
      return b_.var(parts_.back().second);
    }
    return rewrite_children(b_, e, [&](Expr c) { return rewrite(c); });
  }

  static constexpr Id kPartIds = 1 << 28;  // beyond those of any kernel
  Builder& b_;
  const Loop* loop_ = nullptr;
  std::vector<std::pair<Part, Id>> parts_;
  Id next_ = 0;
};

// Loops that were fused and split where their digits do not meet, as 240 x 168 x 3 into vectors of 16: the place of an
// instance among all, in the order of the iterators, is a sum of the loops again.
bool are_distinct_places(Builder& b, const Block& block, std::span<const Loop* const> loops, const Ranges& ranges) {
  Expr place = b.integer(0);
  int64_t stride = 1;
  for (size_t i = block.iters.size(); i-- > 0;) {
    const Iter& it = block.iters[i];
    if (std::none_of(loops.begin(), loops.end(), [&](const Loop* l) { return mentions(it.binding, l->id); })) continue;
    if (!is_int(it.extent)) return false;
    place = b.add(place, b.scale(it.binding, stride));
    stride *= int_value(it.extent);
  }
  if (std::any_of(loops.begin(), loops.end(), [](const Loop* l) { return !is_int(l->extent); })) return false;
  std::optional<std::vector<LoopStep>> steps = loop_steps(simplify_address(b, place, ranges), loops);
  if (!steps) return false;
  for (const Loop* l : loops)
    if (int_value(l->extent) > 1 &&
        std::none_of(steps->begin(), steps->end(), [&](const LoopStep& s) { return s.loop == l->id; }))
      return false;
  return are_distinct(std::move(*steps));
}

bool are_distinct_digits(Builder& b, const Block& block, std::span<const Loop* const> loops, const Ranges& ranges) {
  std::vector<Expr> bindings;
  // A loop that was fused and split again is in its quotient and its remainder until the ranges say where it ends.
  Substitution units;
  for (const Loop* l : loops)
    if (is_int(l->extent, 1)) units.set(l->id, b.integer(0));
  for (const Iter& it : block.iters) bindings.push_back(simplify(b, substitute(b, it.binding, units), ranges));
  std::vector<Runner> runners;
  Splitter splitter(b);
  for (const Loop* l : loops) splitter.split(*l, bindings, runners);
  std::vector<std::vector<Digit>> digits(bindings.size());
  for (const Runner& l : runners) {
    if (is_int(l.extent, 1)) continue;
    int uses = 0;
    for (size_t i = 0; i < bindings.size(); ++i) {
      Expr binding = bindings[i];
      if (!mentions(binding, l.id)) continue;
      ++uses;
      Term single{1, binding};
      std::span<const Term> terms(&single, 1);
      if (const Sum* s = as<Sum>(binding)) terms = s->terms;
      Expr weight = nullptr;
      for (const Term& t : terms) {
        if (!mentions(t.atom, l.id)) continue;
        if (weight != nullptr) return false;
        weight = weight_of(b, t, l.id);
        if (weight == nullptr) return false;
      }
      digits[i].push_back({l.extent, weight});
    }
    if (uses != 1) return false;
  }
  for (auto& list : digits) {
    bool constant =
        std::all_of(list.begin(), list.end(), [](const Digit& d) { return is_int(d.weight) && is_int(d.extent); });
    if (constant ? !constant_radix(list) : !symbolic_radix(b, list, ranges)) return false;
  }
  return true;
}

}  // namespace

bool is_injective(Builder& b, const Block& block, std::span<const Loop* const> loops, const Ranges& ranges) {
  return are_distinct_digits(b, block, loops, ranges) || are_distinct_places(b, block, loops, ranges);
}

std::optional<std::vector<LoopStep>> loop_steps(Expr index, std::span<const Loop* const> loops) {
  std::vector<LoopStep> steps;
  const Sum* sum = as<Sum>(index);
  const Term alone{1, index};
  for (const Term& t : sum != nullptr ? sum->terms : std::span<const Term>(&alone, 1))
    for (const Loop* l : loops) {
      if (!mentions(t.atom, l->id)) continue;
      if (as<Var>(t.atom) == nullptr) return std::nullopt;
      steps.push_back({l->id, std::abs(t.coefficient), int_value(l->extent)});
    }
  return steps;
}

bool are_distinct(std::vector<LoopStep> steps) {
  std::sort(steps.begin(), steps.end(), [](const LoopStep& a, const LoopStep& b) {
    return std::pair(a.step, a.extent) < std::pair(b.step, b.extent);
  });
  int64_t reach = 0;
  for (const LoopStep& s : steps) {
    if (s.step <= reach) return false;
    reach += s.step * (s.extent - 1);
  }
  return true;
}

}  // namespace tcc::analysis
