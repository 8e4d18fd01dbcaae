#include "lower/split_tails.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "lower/rename.h"
#include "tcc/analysis/ranges.h"
#include "tcc/ir/build.h"
#include "tcc/ir/edit.h"
#include "tcc/ir/evaluate.h"
#include "tcc/ir/query.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int kSamples = 256;
constexpr double kUsual = 0.3;    // a test that holds less often is not worth a copy
constexpr double kAsGood = 0.85;  // an outer test may hold this much less often than the best inner one
constexpr int64_t kSmallBody = 8;
constexpr int kMaxTailCopies = 6;

// A loop in whose body a test may be placed.
bool is_place(const Loop& l) {
  return l.loop_kind == LoopKind::kSerial || l.loop_kind == LoopKind::kParallel;
}

// Statement instances of one execution; a vector loop counts once.
int64_t work(Stmt s) {
  int64_t n = s->kind == StmtKind::kStore || s->kind == StmtKind::kInstrCall ? 1 : 0;
  visit(s, [&](Stmt c) {
    if (c == s) return true;
    n += work(c);
    return false;
  });
  const Loop* l = as<Loop>(s);
  if (l != nullptr && l->loop_kind != LoopKind::kVectorized)
    n *= is_int(l->extent) ? std::max<int64_t>(1, int_value(l->extent)) : 2;
  return std::min<int64_t>(n, int64_t{1} << 40);
}

class TailSplitter {
 public:
  TailSplitter(const Kernel& kernel, const ArenaPtr& arena) : edit_(kernel, arena), ranges_(kernel) {
    visit(kernel.root, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) ranges_.set(l->id, l->extent), extents_[l->id] = l->extent, note_mode(*l);
      return true;
    });
  }

  Kernel run() { return edit_.finish(process(shrink(drop_certain(edit_.k.root)))); }

 private:
  using Terms = std::vector<Expr>;

  void note_mode(const Loop& l) {
    if (annotation_or(l, AnnotationKey::kTail, -1) == static_cast<int64_t>(TailMode::kMask)) masked_.push_back(l.id);
  }
  // A schedule that asks for masks gets them.
  bool is_masked(Expr term) const { return mentions_any(term, masked_); }

  static Terms collect_terms(Stmt s) {
    Terms terms;
    visit_roots(s, [&](Expr root) {
      visit(root, [&](Expr e) {
        if (e->kind != ExprKind::kLt || as<Binary>(e)->a->type != Type::kI64) return true;
        if (std::none_of(terms.begin(), terms.end(), [&](Expr t) { return equal(t, e); })) terms.push_back(e);
        return true;
      });
    });
    return terms;
  }

  Expr replace_terms(Expr e, const Terms& terms) {
    for (Expr t : terms)
      if (e->hash == t->hash && equal(e, t)) return b_.boolean(true);
    return rewrite_children(b_, e, [&](Expr c) { return replace_terms(c, terms); });
  }
  Stmt replace_terms(Stmt s, const Terms& terms) {
    return rewrite_children(
        b_, s, [&](Stmt c) { return replace_terms(c, terms); }, [&](Expr e) { return replace_terms(e, terms); });
  }

  // a < b for every value of the variables for which `inner` holds, as a test of the others; nullptr when unknown.
  template <class Inner>
  Expr for_all(Expr term, const Inner& inner) {
    const Binary* t = as<Binary>(term);
    Expr least = ranges_.lower(b_, b_.sub(t->b, t->a), inner);
    return least == nullptr ? nullptr : b_.lt(b_.integer(0), least);
  }

  Stmt drop_certain(Stmt root) {
    Terms certain;
    for (Expr t : collect_terms(root)) {
      Expr always = for_all(t, [](Id) { return true; });
      if (always != nullptr && is_int(always, 1)) certain.push_back(t);
    }
    return certain.empty() ? root : replace_terms(root, certain);
  }

  // How often a test holds over all iterations, by sampling its variables; negative: unknown.
  double frequency(Expr test) {
    if (is_int(test)) return static_cast<double>(int_value(test));
    std::vector<std::pair<Id, int64_t>> vars;
    bool known = true;
    visit(test, [&](Expr e) {
      if (const Var* v = as<Var>(e)) {
        auto it = extents_.find(v->id);
        if (it == extents_.end() || !is_int(it->second))
          known = false;
        else
          vars.push_back({v->id, int_value(it->second)});
      }
      return known;
    });
    if (!known) return -1;
    int held = 0;
    uint64_t state = 0x9e3779b97f4a7c15ull;
    for (int i = 0; i < kSamples; ++i) {
      Assignment at;
      for (const auto& [id, extent] : vars) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        at.emplace_back(id, static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(std::max<int64_t>(1, extent))));
      }
      std::optional<int64_t> v = evaluate(test, at);
      if (!v) return -1;
      held += *v != 0;
    }
    return static_cast<double>(held) / kSamples;
  }

  // The test of `term` at the start of a loop's body: over the loop and those outside of it.
  Expr test_at(Stmt body, Expr term) {
    std::vector<Id> inside;
    visit(body, [&](Stmt s) {
      if (const Loop* inner = as<Loop>(s)) inside.push_back(inner->id);
      return true;
    });
    return for_all(term, [&](Id id) { return std::find(inside.begin(), inside.end(), id) != inside.end(); });
  }

  double best_below(Stmt body, Expr term) {
    double best = 0;
    visit(body, [&](Stmt s) {
      const Loop* l = as<Loop>(s);
      if (l == nullptr) return true;
      if (!is_place(*l) || work(l->body) < kSmallBody) return false;
      Terms terms = collect_terms(l->body);
      if (std::none_of(terms.begin(), terms.end(), [&](Expr t) { return equal(t, term); })) return false;
      Expr test = test_at(l->body, term);
      if (test != nullptr) best = std::max(best, frequency(test));
      return true;
    });
    return best;
  }

  struct Choice {
    Expr term, test;
  };
  // The predicates of the body that a test at its start can do away with.
  std::vector<Choice> choose(Stmt body) {
    std::vector<Choice> out;
    const bool may_copy = copies_ < kMaxTailCopies;
    for (Expr t : collect_terms(body)) {
      Expr test = may_copy && !is_masked(t) ? test_at(body, t) : nullptr;
      if (test == nullptr || is_int(test, 0)) continue;
      double here = frequency(test);
      // What overhangs in the last tile only is code of its own, of the tile's true size.
      if (here < kUsual || (last_atoms(test).empty() && here < kAsGood * best_below(body, t))) continue;
      out.push_back({t, test});
    }
    // What the same test decides costs no further one.
    for (Expr t : may_copy ? collect_terms(body) : Terms{}) {
      if (is_masked(t) || std::any_of(out.begin(), out.end(), [&](const Choice& c) { return equal(c.term, t); }))
        continue;
      Expr test = test_at(body, t);
      if (test != nullptr && std::any_of(out.begin(), out.end(), [&](const Choice& c) { return equal(c.test, test); }))
        out.push_back({t, test});
    }
    return out;
  }

  Stmt process(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return process(c); });
    if (!is_place(*l)) return s;
    if (work(l->body) < kSmallBody) return peel_last(*l);
    return b_.with_body(*l, process_body(l->body));
  }

  // A test in every iteration costs too much beside a small body. Where only the last one overhangs, it goes behind. A
  // parallel loop has its last iteration inside, behind a test that costs less than the masks of the other vectors.
  Stmt peel_last(const Loop& l) {
    if (!is_int(l.extent) || int_value(l.extent) < 2) return &l;
    Terms whole;
    std::vector<Expr> last;
    Expr inside = nullptr;
    const bool may_copy = copies_ < kMaxTailCopies;
    for (Expr t : collect_terms(l.body)) {
      Expr test = may_copy && !is_masked(t) ? test_at(l.body, t) : nullptr;
      if (test == nullptr || is_int(test)) continue;
      std::vector<Expr> atoms = last_atoms(test);
      const Var* only = atoms.size() == 1 ? as<Var>(atoms[0]) : nullptr;
      if (only != nullptr && only->id == l.id) whole.push_back(t), last = atoms, inside = b_.logical_and(inside, test);
    }
    if (whole.empty()) return &l;
    ++copies_;
    Stmt rest = last_tile(l.body, last);
    Stmt before = replace_terms(l.body, whole);
    if (l.loop_kind == LoopKind::kParallel) return b_.with_body(l, b_.if_then(inside, before, rest));
    before = b_.loop(l.id, b_.offset(l.extent, -1), before, l.loop_kind, l.axis, l.annotations);
    std::array<Stmt, 2> both = {before, rest};
    return rest == nullptr ? before : b_.seq(both);
  }

  Stmt process_body(Stmt body) {
    std::vector<Choice> choices = choose(body);
    if (choices.empty()) return process(body);
    // One tail that is a single tile at a time: what is left of that tile is known.
    for (const Choice& c : choices) {
      std::vector<Expr> last = last_atoms(c.test);
      if (last.empty()) continue;
      ++copies_;
      Terms same;
      for (const Choice& other : choices)
        if (equal(other.test, c.test)) same.push_back(other.term);
      Stmt rest = last_tile(body, last);
      // The tiles that run most have the first choice of the copies.
      const Stmt inside = process_body(replace_terms(body, same));
      if (rest != nullptr) rest = process_body(rest);
      return b_.if_then(c.test, inside, rest);
    }
    Terms terms;
    Expr condition = nullptr;
    for (const Choice& c : choices) {
      terms.push_back(c.term);
      condition = b_.logical_and(condition, c.test);
    }
    Stmt inside = replace_terms(body, terms);
    if (is_int(condition)) return process(inside);
    ++copies_;
    Stmt rest = copy(body);
    return b_.if_then(condition, process(inside), rest);
  }

  // Where a test 0 < c - sum of coefficients times atoms fails only for the largest values of all atoms: those atoms.
  std::vector<Expr> last_atoms(Expr test) {
    if (test->kind != ExprKind::kLt) return {};
    const Sum* sum = as<Sum>(b_.sub(as<Binary>(test)->b, as<Binary>(test)->a));
    if (sum == nullptr) return {};
    int64_t at_last = sum->constant, step = std::numeric_limits<int64_t>::max();
    std::vector<Expr> atoms;
    for (const Term& term : sum->terms) {
      const Interval bounds = ranges_.bounds(term.atom);
      if (term.coefficient >= 0 || !bounds.known()) return {};
      at_last += term.coefficient * bounds.high;
      step = std::min(step, -term.coefficient);
      atoms.push_back(term.atom);
    }
    if (at_last > 0 || at_last + step <= 0) return {};
    return atoms;
  }

  // A copy of the statement for the largest values of the atoms; nullptr: it does nothing there.
  Stmt last_tile(Stmt body, const std::vector<Expr>& atoms) {
    Stmt tile = pin(copy(body), atoms);
    return tile == nullptr ? nullptr : shrink(tile);
  }
  Stmt pin(Stmt s, const std::vector<Expr>& atoms) {
    auto pinned = [&](auto part) { return pin(part, atoms); };
    return rewrite_children(b_, s, pinned, pinned);
  }
  Expr pin(Expr e, const std::vector<Expr>& atoms) {
    for (Expr a : atoms)
      if (e->hash == a->hash && equal(e, a)) {
        const Interval bounds = ranges_.bounds(a);
        return bounds.known() ? b_.integer(bounds.high) : e;
      }
    return rewrite_children(b_, e, [&](Expr c) { return pin(c, atoms); });
  }

  // How many iterations of a loop do anything, by a condition step * v + rest < c around all that is below. Statements
  // may have conditions of their own: the most of them.
  std::optional<int64_t> limit_of(Expr condition, Id v) {
    std::vector<Expr> conjuncts;
    split_conjunction(condition, conjuncts);
    std::optional<int64_t> least;
    for (Expr c : conjuncts) {
      if (c->kind != ExprKind::kLt || !is_int(as<Binary>(c)->b) || !mentions(as<Binary>(c)->a, v)) continue;
      const Expr a = as<Binary>(c)->a;
      int64_t step = 1, low = 0;
      if (const Sum* sum = as<Sum>(a)) {
        const auto own = std::find_if(sum->terms.begin(), sum->terms.end(), [&](const Term& t) {
          const Var* var = as<Var>(t.atom);
          return var != nullptr && var->id == v && t.coefficient > 0;
        });
        if (own == sum->terms.end()) continue;
        step = own->coefficient;
        const Expr rest = b_.sub(a, b_.scale(own->atom, step));
        const Interval bounds = ranges_.bounds(rest);
        if (mentions(rest, v) || bounds.low <= -Interval::kUnbounded) continue;
        low = bounds.low;
      } else if (a->kind != ExprKind::kVar) {
        continue;
      }
      const int64_t limit = (int_value(as<Binary>(c)->b) - low + step - 1) / step;
      least = std::min(limit, least.value_or(limit));
    }
    return least;
  }
  std::optional<int64_t> limit_below(Stmt s, Id v) {
    if (const Store* st = as<Store>(s)) return limit_of(st->predicate, v);
    if (const If* x = as<If>(s)) {
      std::optional<int64_t> here = limit_of(x->condition, v);
      return here || x->else_case != nullptr ? here : limit_below(x->then_case, v);
    }
    if (s->kind != StmtKind::kLoop && s->kind != StmtKind::kAlloc && s->kind != StmtKind::kSeq) return std::nullopt;
    std::optional<int64_t> most;
    bool all = true;
    visit_children(s, [&](Stmt c) {
      const std::optional<int64_t> limit = limit_below(c, v);
      all &= limit.has_value();
      most = std::max(most, limit);
    });
    return all ? most : std::nullopt;
  }

  // Shorter loops make more conditions certain.
  Stmt shrink(Stmt s) { return drop_certain(shrink_loops(s)); }

  // Loops of which only the first iterations do anything end there: a vector of 16 lanes for 4 columns would store
  // under a mask, and what is stored under a mask stays in memory.
  Stmt shrink_loops(Stmt s) {
    Stmt r = rewrite_children(b_, s, [&](Stmt c) { return shrink_loops(c); });
    const Loop* l = as<Loop>(r);
    const bool asks_for_mask = std::find(masked_.begin(), masked_.end(), l != nullptr ? l->id : kNoId) != masked_.end();
    if (l == nullptr || !is_int(l->extent) || asks_for_mask) return r;
    std::optional<int64_t> limit = limit_below(l->body, l->id);
    if (!limit || *limit < 1 || *limit > int_value(l->extent)) return r;
    ranges_.set(l->id, b_.integer(*limit));
    extents_[l->id] = b_.integer(*limit);
    Stmt body = replace_terms(l->body, {b_.lt(b_.var(l->id), b_.integer(*limit))});
    return b_.loop(l->id, b_.integer(*limit), body, l->loop_kind, l->axis, l->annotations);
  }

  // A copy with loops and local buffers of its own. It runs in place of the statement or after it, so that its buffers
  // need no further stack (Emitter::alloc).
  Stmt copy(Stmt s) {
    Renaming own;
    visit(s, [&](Stmt c) {
      if (const Loop* l = as<Loop>(c)) {
        own.ids[l->id] = edit_.fresh(l->id);
        own.vars.set(l->id, b_.var(own.ids[l->id]));
        extents_[own.ids[l->id]] = l->extent;
        ranges_.set(own.ids[l->id], l->extent);
      }
      if (const Alloc* a = as<Alloc>(c))
        for (Id id : a->buffers) {
          own.ids[id] = edit_.fresh(id);
          Buffer fields = *edit_.k.buffer(id);
          fields.id = own.ids[id];
          edit_.add_buffer(fields);
        }
      return true;
    });
    return rename(b_, s, own);
  }

  KernelEditor edit_;
  Builder& b_ = edit_.b;
  analysis::Ranges ranges_;
  std::map<Id, Expr> extents_;
  std::vector<Id> masked_;  // loops whose predicates stay
  int copies_ = 0;
};

}  // namespace

Kernel split_tails(const Kernel& kernel, const ArenaPtr& arena) {
  if (arena != kernel.arena) arena->keep_alive(kernel.arena);
  return TailSplitter(kernel, arena).run();
}

}  // namespace tcc::lower
