// Values of integer expressions.
#include "tcc/ir/evaluate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tcc/ir/build.h"
#include "tcc/ir/walk.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::ir;

namespace {

constexpr Id kX = 1, kY = 2, kUnknown = 3;

// Index arithmetic over two variables.
Expr random_index(Builder& b, Rng& rng, int depth) {
  if (depth == 0) {
    const int64_t kind = rng.below(3);
    return kind == 0 ? b.integer(rng.below(41) - 20) : b.var(kind == 1 ? kX : kY);
  }
  Expr x = random_index(b, rng, depth - 1), y = random_index(b, rng, depth - 1);
  switch (rng.below(6)) {
    case 0:
      return b.add(x, y);
    case 1:
      return b.mul(x, y);
    case 2:
      return b.floor_div(x, b.integer(rng.below(9) + 1));
    case 3:
      return b.floor_mod(x, b.integer(rng.below(9) + 1));
    case 4:
      return b.min(x, y);
    default:
      return b.max(x, y);
  }
}

}  // namespace

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

TEST_CASE("an expression has the value that it folds to with the variables put in", "[unit]") {
  Rng rng(11);
  int checked = 0;
  for (int i = 0; i < 2000; ++i) {
    Arena arena;
    Builder b(arena);
    Expr e = random_index(b, rng, 4);
    Assignment values;
    assign(values, kX, rng.below(200) - 100);
    assign(values, kY, rng.below(200) - 100);
    Substitution put;
    for (const auto& [id, value] : values) put.set(id, b.integer(value));
    Expr folded = substitute(b, e, put);
    const std::optional<int64_t> value = evaluate(e, values);
    if (!value || !is_int(folded)) continue;  // beyond 64 bits
    ++checked;
    REQUIRE(*value == int_value(folded));
  }
  CHECK(checked > 1500);
}

TEST_CASE("comparisons are 0 or 1, and what is not known has no value", "[unit]") {
  Arena arena;
  Builder b(arena);
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
