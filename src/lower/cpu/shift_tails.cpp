#include "lower/cpu/shift_tails.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "tcc/analysis/ranges.h"
#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"

namespace tcc::lower {

using namespace ir;

namespace {

// The condition of the loop's tail: step * tile + rest < end, where 0 <= rest < step. The tile is the loop's variable,
// or the part of it that was a loop of its own before they were fused.
struct Tail {
  Expr condition = nullptr, tile = nullptr;
  int64_t step = 0, end = 0;
};

class TailShifter {
 public:
  TailShifter(const Kernel& kernel, Arena& arena) : b_(arena), ranges_(kernel) {
    visit(kernel.root, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) ranges_.set(l->id, l->extent);
      return true;
    });
  }

  Stmt rewrite(Stmt s) {
    Stmt r = rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
    const Loop* l = as<Loop>(r);
    if (l == nullptr || annotation_or(*l, AnnotationKey::kTail, -1) != static_cast<int64_t>(TailMode::kShift)) return r;
    const std::optional<Tail> tail = tail_of(*l);
    if (!tail || !may_repeat(l->body)) return r;
    moves_otherwise_ = false;
    Stmt body = shift(l->body, *tail);
    return moves_otherwise_ ? r : b_.with_body(*l, body);
  }

 private:
  // Stores depend on nothing that is stored: each of them gives the same value every time.
  static bool may_repeat(Stmt body) {
    std::vector<Id> stored;
    bool map = true;
    visit(body, [&](Stmt s) {
      if (const Store* st = as<Store>(s)) stored.push_back(st->buffer);
      map &= s->kind == StmtKind::kStore || s->kind == StmtKind::kLoop || s->kind == StmtKind::kSeq ||
             s->kind == StmtKind::kIf;
      return map;
    });
    return map && std::none_of(stored.begin(), stored.end(), [&](Id id) { return loads_from(body, id); });
  }

  // nullopt: the loop has no such condition, or several, or one of another form, or no tile is whole.
  std::optional<Tail> tail_of(const Loop& l) const {
    std::optional<Tail> found;
    bool one = true;
    visit_roots(l.body, [&](Expr root) {
      visit(root, [&](Expr e) {
        if (e->kind != ExprKind::kLt || !mentions(e, l.id)) return true;
        const Tail tail = as_tail(e, l.id);
        one &= tail.step > 0 && (!found || equal(found->condition, e));
        found = tail;
        return false;
      });
    });
    return one ? found : std::nullopt;
  }
  Tail as_tail(Expr e, Id loop) const {
    const Binary* less = as<Binary>(e);
    const Sum* sum = as<Sum>(less->a);
    if (sum == nullptr || !is_int(less->b)) return {};
    Tail tail{e, nullptr, 0, int_value(less->b)};
    int64_t rest = sum->constant;
    for (const Term& t : sum->terms) {
      const Interval bounds = ranges_.bounds(t.atom);
      if (mentions(t.atom, loop) && tail.tile == nullptr)
        tail.tile = t.atom, tail.step = t.coefficient;
      else if (mentions(t.atom, loop) || t.coefficient <= 0 || bounds.low != 0 || !bounds.known())
        return {};
      else
        rest += t.coefficient * bounds.high;
    }
    return sum->constant == 0 && tail.step == rest + 1 && tail.end >= tail.step ? tail : Tail{};
  }

  Expr shift(Expr e, const Tail& tail) {
    if (equal(e, tail.condition)) return b_.boolean(true);
    moves_otherwise_ |= equal(e, tail.tile);  // not as a part of a sum that the tiles move
    if (const Sum* sum = as<Sum>(e))
      for (const Term& t : sum->terms) {
        if (t.coefficient != tail.step || !equal(t.atom, tail.tile)) continue;
        const Expr place = b_.scale(t.atom, t.coefficient);
        const Expr rest = shift(b_.sub(e, place), tail);
        return b_.add(b_.min(place, b_.integer(tail.end - tail.step)), rest);
      }
    return rewrite_children(b_, e, [&](Expr c) { return shift(c, tail); });
  }
  Stmt shift(Stmt s, const Tail& tail) {
    return rewrite_children(b_, s, [&](Stmt c) { return shift(c, tail); }, [&](Expr e) { return shift(e, tail); });
  }

  Builder b_;
  analysis::Ranges ranges_;
  bool moves_otherwise_ = false;
};

}  // namespace

Kernel shift_tails(const Kernel& kernel, const ArenaPtr& arena) {
  Kernel k = kernel;
  k.arena = arena;
  k.root = TailShifter(kernel, *arena).rewrite(kernel.root);
  return k;
}

}  // namespace tcc::lower
