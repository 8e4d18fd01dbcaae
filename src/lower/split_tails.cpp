#include "lower/split_tails.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "tcc/analysis/ranges.h"
#include "tcc/ir/build.h"
#include "tcc/ir/walk.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int kSamples = 256;
constexpr double kUsual = 0.3;    // a test that holds less often is not worth a copy
constexpr double kAsGood = 0.85;  // an outer test may hold this much less often than the best inner one
constexpr int64_t kSmallBody = 8;
constexpr int kMaxCopies = 6;

// Value of an index expression under an assignment; nullopt for anything that is no index arithmetic.
std::optional<int64_t> evaluate(Expr e, const std::map<Id, int64_t>& at) {
  auto both = [&](auto f) -> std::optional<int64_t> {
    std::optional<int64_t> a = evaluate(as<Binary>(e)->a, at), b = evaluate(as<Binary>(e)->b, at);
    if (!a || !b) return std::nullopt;
    return f(*a, *b);
  };
  auto floor_div = [](int64_t a, int64_t b) -> int64_t {
    if (b == 0) return 0;
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
  };
  switch (e->kind) {
    case ExprKind::kIntConst:
      return int_value(e);
    case ExprKind::kVar: {
      auto it = at.find(as<Var>(e)->id);
      return it == at.end() ? std::nullopt : std::optional(it->second);
    }
    case ExprKind::kSum: {
      int64_t total = as<Sum>(e)->constant;
      for (const Term& t : as<Sum>(e)->terms) {
        std::optional<int64_t> v = evaluate(t.atom, at);
        if (!v) return std::nullopt;
        total += t.coefficient * *v;
      }
      return total;
    }
    case ExprKind::kProd: {
      int64_t total = 1;
      for (Expr f : as<Prod>(e)->factors) {
        std::optional<int64_t> v = evaluate(f, at);
        if (!v) return std::nullopt;
        total *= *v;
      }
      return total;
    }
    case ExprKind::kFloorDiv:
      return both(floor_div);
    case ExprKind::kFloorMod:
      return both([&](int64_t a, int64_t b) { return a - floor_div(a, b) * b; });
    case ExprKind::kMin:
      return both([](int64_t a, int64_t b) { return std::min(a, b); });
    case ExprKind::kMax:
      return both([](int64_t a, int64_t b) { return std::max(a, b); });
    case ExprKind::kLt:
      return both([](int64_t a, int64_t b) -> int64_t { return a < b; });
    case ExprKind::kFloatConst:
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kDiv:
    case ExprKind::kLe:
    case ExprKind::kEq:
    case ExprKind::kNe:
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kNot:
    case ExprKind::kCast:
    case ExprKind::kSelect:
    case ExprKind::kLoad:
    case ExprKind::kCall:
      return std::nullopt;
  }
  return std::nullopt;
}

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
  TailSplitter(const Kernel& kernel, Arena& arena) : k_(kernel), b_(arena), ranges_(kernel) {
    visit(kernel.root, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) ranges_.set(l->id, l->extent), extents_[l->id] = l->extent, note_mode(*l);
      return true;
    });
    buffers_.assign(kernel.buffers.begin(), kernel.buffers.end());
  }

  Kernel run(const ArenaPtr& arena) {
    Stmt root = drop_certain(k_.root);
    k_.root = process(root);
    k_.arena = arena;
    k_.buffers = b_.arena().copy(buffers_);
    return k_;
  }

 private:
  using Terms = std::vector<Expr>;

  void note_mode(const Loop& l) {
    for (const Annotation& a : l.annotations)
      if (a.key == AnnotationKey::kTail && is_int(a.value, static_cast<int64_t>(TailMode::kMask)))
        masked_.push_back(l.id);
  }
  // A schedule that asks for masks gets them.
  bool is_masked(Expr term) const {
    return std::any_of(masked_.begin(), masked_.end(), [&](Id id) {
      bool found = false;
      visit(term, [&](Expr e) {
        if (const Var* v = as<Var>(e)) found |= v->id == id;
        return !found;
      });
      return found;
    });
  }

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
      std::map<Id, int64_t> at;
      for (const auto& [id, extent] : vars) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        at.try_emplace(id, static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(std::max<int64_t>(1, extent))));
      }
      std::optional<int64_t> v = evaluate(test, at);
      if (!v) return -1;
      held += *v != 0;
    }
    return static_cast<double>(held) / kSamples;
  }

  // The test of `term` at the start of the loop's body: over the loop and those outside of it.
  Expr test_at(const Loop& l, Expr term) {
    std::vector<Id> inside;
    visit(l.body, [&](Stmt s) {
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
      Expr test = test_at(*l, term);
      if (test != nullptr) best = std::max(best, frequency(test));
      return true;
    });
    return best;
  }

  Stmt process(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return process(c); }, [](Expr e) { return e; });
    if (!is_place(*l) || work(l->body) < kSmallBody) return s;
    Terms chosen;
    Expr condition = nullptr;
    for (Expr t : collect_terms(l->body)) {
      Expr test = copies_ < kMaxCopies && !is_masked(t) ? test_at(*l, t) : nullptr;
      if (test == nullptr || is_int(test, 0)) continue;
      double here = frequency(test);
      if (here < kUsual || here < kAsGood * best_below(l->body, t)) continue;
      chosen.push_back(t);
      condition = b_.logical_and(condition, test);
    }
    if (chosen.empty()) return b_.with_body(*l, process(l->body));
    Stmt inside = replace_terms(l->body, chosen);
    if (is_int(condition)) return b_.with_body(*l, process(inside));
    ++copies_;
    Stmt rest = copy(l->body);
    return b_.with_body(*l, b_.if_then(condition, process(inside), rest));
  }

  // A copy with loops and local buffers of its own.
  Stmt copy(Stmt s) {
    Substitution vars;
    std::map<Id, Id> ids;
    visit(s, [&](Stmt c) {
      if (const Loop* l = as<Loop>(c)) {
        ids[l->id] = fresh(l->id);
        vars.set(l->id, b_.var(ids[l->id]));
        extents_[ids[l->id]] = l->extent;
      }
      if (const Alloc* a = as<Alloc>(c))
        for (Id id : a->buffers) {
          ids[id] = fresh(id);
          Buffer fields = *k_.buffer(id);
          fields.id = ids[id];
          buffers_.push_back(b_.buffer(fields));
        }
      return true;
    });
    return rename(s, vars, ids);
  }
  Id fresh(Id from) {
    Id id = k_.next_id++;
    k_.names = b_.arena().make<NameHint>(k_.names, id, from, 1, nullptr);
    return id;
  }
  Expr rename(Expr e, const Substitution& vars, const std::map<Id, Id>& ids) {
    if (e->kind == ExprKind::kVar) {
      Expr v = vars.find(as<Var>(e)->id);
      return v != nullptr ? v : e;
    }
    Expr r = rewrite_children(b_, e, [&](Expr c) { return rename(c, vars, ids); });
    const Load* l = as<Load>(r);
    if (l == nullptr || ids.count(l->buffer) == 0) return r;
    return b_.load(ids.at(l->buffer), l->type, l->indices, l->predicate, l->other);
  }
  Stmt rename(Stmt s, const Substitution& vars, const std::map<Id, Id>& ids) {
    auto name = [&](Id id) { return ids.count(id) != 0 ? ids.at(id) : id; };
    Stmt r = rewrite_children(
        b_, s, [&](Stmt c) { return rename(c, vars, ids); }, [&](Expr e) { return rename(e, vars, ids); });
    if (const Loop* l = as<Loop>(r))
      return b_.loop(name(l->id), l->extent, l->body, l->loop_kind, l->axis, l->annotations);
    if (const Store* st = as<Store>(r)) return b_.store(name(st->buffer), st->indices, st->value, st->predicate);
    if (const Alloc* a = as<Alloc>(r)) {
      std::vector<Id> buffers;
      for (Id id : a->buffers) buffers.push_back(name(id));
      return b_.alloc(buffers, a->body);
    }
    if (const InstrCall* call = as<InstrCall>(r)) {
      std::vector<Operand> operands(call->operands.begin(), call->operands.end());
      for (Operand& o : operands) o.buffer = name(o.buffer);
      return b_.instr(call->instr, operands, call->args, call->predicate);
    }
    return r;
  }

  Kernel k_;
  Builder b_;
  analysis::Ranges ranges_;
  std::map<Id, Expr> extents_;
  std::vector<const Buffer*> buffers_;
  std::vector<Id> masked_;  // loops whose predicates stay
  int copies_ = 0;
};

}  // namespace

Kernel split_tails(const Kernel& kernel, const ArenaPtr& arena) {
  if (arena != kernel.arena) arena->keep_alive(kernel.arena);
  return TailSplitter(kernel, *arena).run(arena);
}

}  // namespace tcc::lower
