#include "fast_math.h"

#include "tcc/ir/walk.h"

namespace tcc::task {

using namespace ir;

namespace {

class NumberRewriter {
 public:
  explicit NumberRewriter(Builder& b) : b_(b) {}

  Stmt rewrite(Stmt s) {
    return rewrite_children(
        b_, s, [this](Stmt child) { return rewrite(child); }, [this](Expr child) { return rewrite(child); });
  }

 private:
  Expr rewrite(Expr e) {
    e = rewrite_children(b_, e, [this](Expr child) { return rewrite(child); });
    const auto* choice = as<Select>(e);
    if (choice == nullptr) return e;
    const Expr condition = without_tests(choice->condition);
    if (const Expr extremum = as_extremum(condition, choice->a, choice->b)) return extremum;
    return condition == choice->condition ? e : b_.select(condition, choice->a, choice->b);
  }

  // The condition with x != x as false.
  Expr without_tests(Expr e) {
    if (e->kind == ExprKind::kNe) {
      const auto* test = as<Binary>(e);
      return is_float(test->a->type) && equal(test->a, test->b) ? b_.boolean(false) : e;
    }
    if (e->kind != ExprKind::kAnd && e->kind != ExprKind::kOr && e->kind != ExprKind::kNot) return e;
    return rewrite_children(b_, e, [this](Expr child) { return without_tests(child); });
  }

  // Of select(p < q, x, y); nullptr: it is another function. A limit may be decided before the other one is applied:
  // select(v < low, low, min(v, high)).
  Expr as_extremum(Expr condition, Expr x, Expr y) {
    if (condition->kind != ExprKind::kLt || !is_float(x->type)) return nullptr;
    const Expr p = as<Binary>(condition)->a, q = as<Binary>(condition)->b;
    if (p->type != x->type) return nullptr;
    if (equal(x, p) && equal(y, q)) return b_.min(p, q);
    if (equal(x, q) && equal(y, p)) return b_.max(p, q);
    const auto* low = as<FloatConst>(x);
    if (low == nullptr || !equal(x, q) || y->kind != ExprKind::kMin) return nullptr;
    const auto* top = as<Binary>(y);
    for (const auto& [value, limit] : {std::pair{top->a, top->b}, std::pair{top->b, top->a}}) {
      const auto* high = as<FloatConst>(limit);
      if (high != nullptr && low->value <= high->value && equal(value, p)) return b_.max(y, x);
    }
    return nullptr;
  }

  Builder& b_;
};

}  // namespace

Stmt take_floats_as_numbers(Builder& b, Stmt root) {
  return NumberRewriter(b).rewrite(root);
}

}  // namespace tcc::task
