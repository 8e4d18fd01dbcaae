// The canonical form: equal polynomials are equal nodes, however they were built.
#include <catch2/catch.hpp>

#include <map>

#include "random_expr.h"

using namespace tcc;
using namespace tcc::testing;

namespace {

using Monomial = std::vector<int>;  // sorted variables, repeated by their power
using Polynomial = std::map<Monomial, int64_t>;

void add_scaled(Polynomial& into, const Polynomial& p, int64_t factor) {
  for (const auto& [m, c] : p)
    if ((into[m] += c * factor) == 0) into.erase(m);
}
Polynomial multiply(const Polynomial& x, const Polynomial& y) {
  Polynomial out;
  for (const auto& [m, c] : x)
    for (const auto& [n, d] : y) {
      Monomial both = m;
      both.insert(both.end(), n.begin(), n.end());
      std::sort(both.begin(), both.end());
      add_scaled(out, {{both, c * d}}, 1);
    }
  return out;
}

struct Pair {
  ir::Expr expr;
  Polynomial polynomial;
};
// An expression of sums, differences, products and scalings, with the polynomial that it is.
Pair random_polynomial(Space& space, Rng& rng, int depth) {
  ir::Builder& b = space.b;
  if (depth == 0 || rng.below(6) == 0) {
    if (rng.below(3) == 0) {
      int64_t c = rng.below(11) - 5;
      return {b.integer(c), c == 0 ? Polynomial{} : Polynomial{{{}, c}}};
    }
    int v = static_cast<int>(rng.below(static_cast<int64_t>(space.extents.size())));
    return {space.var(static_cast<size_t>(v)), {{{v}, 1}}};
  }
  Pair x = random_polynomial(space, rng, depth - 1), y = random_polynomial(space, rng, depth - 1);
  switch (rng.below(4)) {
    case 0:
      add_scaled(x.polynomial, y.polynomial, 1);
      return {b.add(x.expr, y.expr), x.polynomial};
    case 1:
      add_scaled(x.polynomial, y.polynomial, -1);
      return {b.sub(x.expr, y.expr), x.polynomial};
    case 2:
      return {b.mul(x.expr, y.expr), multiply(x.polynomial, y.polynomial)};
    default: {
      int64_t factor = rng.below(7) - 3;
      Polynomial scaled;
      if (factor != 0) add_scaled(scaled, x.polynomial, factor);
      return {b.scale(x.expr, factor), scaled};
    }
  }
}

template <class T>
void shuffle(std::vector<T>& v, Rng& rng) {
  for (size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[static_cast<size_t>(rng.below(static_cast<int64_t>(i)))]);
}

// The polynomial as a sum in random order and association, factors in random order too.
ir::Expr build_shuffled(Space& space, Rng& rng, const Polynomial& p) {
  ir::Builder& b = space.b;
  std::vector<ir::Expr> parts = {b.integer(0)};
  for (const auto& [monomial, coefficient] : p) {
    std::vector<ir::Expr> factors = {b.integer(coefficient)};
    for (int v : monomial) factors.push_back(space.var(static_cast<size_t>(v)));
    shuffle(factors, rng);
    ir::Expr product = factors[0];
    for (size_t i = 1; i < factors.size(); ++i) product = b.mul(product, factors[i]);
    parts.push_back(product);
  }
  while (parts.size() > 1) {
    shuffle(parts, rng);
    ir::Expr sum = b.add(parts[parts.size() - 2], parts.back());
    parts.resize(parts.size() - 2);
    parts.push_back(sum);
  }
  return parts[0];
}

}  // namespace

TEST_CASE("equal polynomials are equal nodes") {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    Space space = Space::random(rng, 4, 9);
    Pair p = random_polynomial(space, rng, 4);
    ir::Expr q = build_shuffled(space, rng, p.polynomial);
    INFO("seed " << seed << ": " << ir::print(space.kernel, p.expr) << " and " << ir::print(space.kernel, q));
    REQUIRE(ir::equal(p.expr, q));
    CHECK(p.expr->hash == q->hash);
    CHECK(ir::print(space.kernel, p.expr) == ir::print(space.kernel, q));
    CHECK(ir::is_int(space.b.sub(p.expr, q), 0));
    // And different ones are not: one more term.
    ir::Expr other = space.b.add(q, space.b.mul(space.var(0), space.var(1)));
    CHECK_FALSE(ir::equal(p.expr, other));
  }
}

TEST_CASE("building keeps the value of random index expressions", "[fuzz]") {
  // random_index builds through the canonical form; here the same draws are computed as plain numbers too.
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    Space space = Space::random(rng, 2, 7);
    ir::Expr x = random_index(space, rng, 3), y = random_index(space, rng, 2);
    int64_t d = 1 + rng.below(9), factor = rng.below(9) - 4;
    ir::Builder& b = space.b;
    ir::Expr sum = b.add(x, y), difference = b.sub(x, y), product = b.mul(x, y), scaled = b.scale(x, factor);
    ir::Expr quotient = b.floor_div(x, b.integer(d)), rest = b.floor_mod(x, b.integer(d));
    ir::Expr least = b.min(x, y), most = b.max(x, y), less = b.lt(x, y), same = b.eq(x, y);
    INFO("seed " << seed << ": " << ir::print(space.kernel, x) << " and " << ir::print(space.kernel, y) << " by " << d);
    space.each_point([&](const Point& at) {
      int64_t u = evaluate(x, at), v = evaluate(y, at);
      bool ok = evaluate(sum, at) == u + v && evaluate(difference, at) == u - v && evaluate(product, at) == u * v &&
                evaluate(scaled, at) == u * factor && evaluate(quotient, at) == floor_quotient(u, d) &&
                evaluate(rest, at) == u - floor_quotient(u, d) * d && evaluate(least, at) == std::min(u, v) &&
                evaluate(most, at) == std::max(u, v) && evaluate(less, at) == (u < v) && evaluate(same, at) == (u == v);
      if (!ok) FAIL_CHECK("at " << at[0] << ", " << at[1] << ": operands " << u << " and " << v);
      return ok;
    });
  }
}
