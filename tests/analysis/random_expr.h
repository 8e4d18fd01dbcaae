// Random index expressions over a few bounded variables, and their value at a point.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "tcc/analysis/ranges.h"
#include "tcc/ir/build.h"
#include "tcc/ir/text.h"
#include "tcc/support/check.h"
#include "tcc/support/rng.h"

namespace tcc::testing {

using Point = std::vector<int64_t>;  // value of variable i

inline int64_t floor_quotient(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// The value of an index expression or of a comparison of two of them; booleans are 0 and 1. Written from ir/expr.h, not
// from the builder's folding.
inline int64_t evaluate(ir::Expr e, const Point& at) {
  using ir::ExprKind;
  auto a = [&] { return evaluate(ir::as<ir::Binary>(e)->a, at); };
  auto b = [&] { return evaluate(ir::as<ir::Binary>(e)->b, at); };
  switch (e->kind) {
    case ExprKind::kIntConst:
      return ir::int_value(e);
    case ExprKind::kVar:
      return at[static_cast<size_t>(ir::as<ir::Var>(e)->id)];
    case ExprKind::kSum: {
      int64_t total = ir::as<ir::Sum>(e)->constant;
      for (const ir::Term& t : ir::as<ir::Sum>(e)->terms) total += t.coefficient * evaluate(t.atom, at);
      return total;
    }
    case ExprKind::kProd: {
      int64_t total = 1;
      for (ir::Expr f : ir::as<ir::Prod>(e)->factors) total *= evaluate(f, at);
      return total;
    }
    case ExprKind::kFloorDiv:
      return floor_quotient(a(), b());
    case ExprKind::kFloorMod: {
      int64_t x = a(), d = b();
      return x - floor_quotient(x, d) * d;
    }
    case ExprKind::kMin:
      return std::min(a(), b());
    case ExprKind::kMax:
      return std::max(a(), b());
    case ExprKind::kLt:
      return a() < b();
    case ExprKind::kLe:
      return a() <= b();
    case ExprKind::kEq:
      return a() == b();
    case ExprKind::kNe:
      return a() != b();
    case ExprKind::kAnd:
      return a() & b();
    case ExprKind::kOr:
      return a() | b();
    case ExprKind::kNot:
      return 1 - evaluate(ir::as<ir::Unary>(e)->a, at);
    case ExprKind::kFloatConst:
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kDiv:
    case ExprKind::kCast:
    case ExprKind::kSelect:
    case ExprKind::kLoad:
    case ExprKind::kCall:
      TCC_UNREACHABLE("not an index expression");
  }
  return 0;
}

// Nodes of the tree; a term of a sum counts its coefficient where that is not one.
inline int64_t node_count(ir::Expr e) {
  int64_t count = 1;
  if (const ir::Sum* s = ir::as<ir::Sum>(e)) {
    count += s->constant != 0 ? 1 : 0;
    for (const ir::Term& t : s->terms) count += node_count(t.atom) + (t.coefficient != 1 ? 1 : 0);
  } else if (const ir::Prod* p = ir::as<ir::Prod>(e)) {
    for (ir::Expr f : p->factors) count += node_count(f);
  } else if (const ir::Binary* b = ir::as<ir::Binary>(e)) {
    count += node_count(b->a) + node_count(b->b);
  } else if (const ir::Unary* u = ir::as<ir::Unary>(e)) {
    count += node_count(u->a);
  }
  return count;
}

// Variables 0 .. extents.size() - 1, each in [0, extent).
struct Space {
  ArenaPtr arena = std::make_shared<Arena>();
  ir::Builder b{*arena};
  ir::Kernel kernel;
  std::vector<int64_t> extents;
  analysis::Ranges ranges;

  explicit Space(std::vector<int64_t> sizes)
      : kernel(make_kernel(arena, sizes)), extents(std::move(sizes)), ranges(kernel) {
    for (size_t v = 0; v < extents.size(); ++v) ranges.set(static_cast<ir::Id>(v), b.integer(extents[v]));
  }
  static Space random(Rng& rng, int variables, int64_t largest) {
    static constexpr std::array<int64_t, 8> kCommon = {1, 2, 3, 4, 6, 8, 12, 16};
    std::vector<int64_t> sizes;
    for (int v = 0; v < variables; ++v) {
      int64_t n = rng.below(2) == 0 ? 1 + rng.below(largest) : kCommon[static_cast<size_t>(rng.below(kCommon.size()))];
      sizes.push_back(std::min(n, largest));
    }
    return Space(sizes);
  }
  ir::Expr var(size_t v) { return b.var(static_cast<ir::Id>(v)); }

  // Every point in row-major order; f returns false to stop.
  template <class F>
  void each_point(const F& f) const {
    Point at(extents.size(), 0);
    while (f(static_cast<const Point&>(at))) {
      size_t d = at.size();
      while (d > 0 && ++at[d - 1] == extents[d - 1]) at[--d] = 0;
      if (d == 0) return;
    }
  }

 private:
  static ir::Kernel make_kernel(const ArenaPtr& arena, const std::vector<int64_t>& sizes) {
    ir::Kernel k;
    k.arena = arena;
    k.next_id = static_cast<ir::Id>(sizes.size());
    return k;
  }
};

// What index arithmetic is made of: sums, scalings, quotients and remainders by small positive numbers, min and max.
inline ir::Expr random_index(Space& space, Rng& rng, int depth) {
  ir::Builder& b = space.b;
  if (depth == 0 || rng.below(8) == 0)
    return rng.below(4) == 0 ? b.integer(rng.below(17) - 4)
                             : space.var(static_cast<size_t>(rng.below(static_cast<int64_t>(space.extents.size()))));
  auto child = [&] { return random_index(space, rng, depth - 1); };
  static constexpr std::array<int64_t, 8> kDivisors = {1, 2, 3, 4, 5, 8, 12, 16};
  auto divisor = [&] { return b.integer(kDivisors[static_cast<size_t>(rng.below(kDivisors.size()))]); };
  switch (rng.below(9)) {
    case 0:
    case 1:
      return b.add(child(), child());
    case 2:
      return b.sub(child(), child());
    case 3:
      return b.scale(child(), rng.below(9) - 2);
    case 4: {
      ir::Expr x = child();
      return b.floor_div(x, divisor());
    }
    case 5: {
      ir::Expr x = child();
      return b.floor_mod(x, divisor());
    }
    case 6:
      return b.min(child(), child());
    case 7:
      return b.max(child(), child());
    default: {
      // x = d * (x div d) + x mod d, as fuse and split leave it behind.
      ir::Expr x = child(), d = divisor();
      return b.add(b.mul(b.floor_div(x, d), d), b.floor_mod(x, d));
    }
  }
}

inline ir::Expr random_condition(Space& space, Rng& rng, int depth) {
  ir::Expr x = random_index(space, rng, depth), y = random_index(space, rng, depth);
  switch (rng.below(5)) {
    case 0:
      return space.b.lt(x, y);
    case 1:
      return space.b.le(x, y);
    case 2:
      return space.b.eq(x, y);
    case 3:
      return space.b.ne(x, y);
    default:
      return space.b.logical_and(space.b.lt(x, y), space.b.le(space.b.integer(0), x));
  }
}

}  // namespace tcc::testing
