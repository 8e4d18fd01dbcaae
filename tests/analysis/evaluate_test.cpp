// Values of integer expressions.
#include "tcc/ir/evaluate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "random_expr.h"

using namespace tcc;
using namespace tcc::ir;

TEST_CASE("division and remainder go towards negative infinity", "[unit]") {
  for (int64_t a = -9; a <= 9; ++a)
    for (int64_t b : {-4, -3, -1, 1, 3, 4}) {
      CAPTURE(a, b);
      CHECK(floor_div(a, b) == static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b))));
      CHECK(floor_div(a, b) * b + floor_mod(a, b) == a);
    }
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  CHECK(floor_div(kLeast, -1) == kLeast);
  CHECK(floor_mod(kLeast, -1) == 0);
}

TEST_CASE("expressions have the values that their parts say", "[unit]") {
  Rng rng(11);
  for (int i = 0; i < 400; ++i) {
    tcc::testing::Space space = tcc::testing::Space::random(rng, 3, 9);
    Expr e = i % 2 == 0 ? random_index(space, rng, 4) : random_condition(space, rng, 3);
    CAPTURE(print(space.kernel, e));
    space.each_point([&](const tcc::testing::Point& at) {
      Assignment values;
      for (size_t v = 0; v < at.size(); ++v) assign(values, static_cast<Id>(v), at[v]);
      const std::optional<int64_t> value = evaluate(e, values);
      if (value == tcc::testing::evaluate(e, at)) return true;
      CHECK(value == tcc::testing::evaluate(e, at));
      return false;
    });
  }
}

TEST_CASE("comparisons are 0 or 1, and what is not known has no value", "[unit]") {
  Arena arena;
  Builder b(arena);
  constexpr Id kX = 1, kUnknown = 3;
  Assignment values;
  assign(values, kX, 7);
  assign(values, kX, 5);
  Expr x = b.var(kX), unknown = b.var(kUnknown);
  CHECK(evaluate(b.lt(x, b.integer(6)), values) == 1);
  CHECK(evaluate(b.lt(x, b.integer(5)), values) == 0);
  CHECK(evaluate(b.select(b.lt(x, b.integer(6)), b.integer(3), unknown), values) == 3);
  CHECK(evaluate(b.select(b.lt(b.integer(6), x), b.integer(3), unknown), values) == std::nullopt);
  CHECK(evaluate(b.add(x, unknown), values) == std::nullopt);
  CHECK(evaluate(b.floor_div(b.integer(4), b.sub(x, b.integer(5))), values) == std::nullopt);
  assign(values, kUnknown, std::numeric_limits<int64_t>::max());
  CHECK(evaluate(b.add(x, unknown), values) == std::nullopt);
  CHECK(evaluate(b.mul(x, unknown), values) == std::nullopt);
}
