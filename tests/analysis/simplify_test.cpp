// simplify against evaluation: equal everywhere the ranges hold, idempotent, never larger.
#include <catch2/catch.hpp>

#include <cstdlib>

#include "random_expr.h"
#include "tcc/analysis/simplify.h"

using namespace tcc;
using namespace tcc::testing;

namespace {

int64_t cases_wanted(int64_t usual) {
  return std::getenv("TCC_SOAK") != nullptr ? usual * 20 : usual;
}

using Simplify = ir::Expr (*)(ir::Builder& b, ir::Expr e, const analysis::Ranges& ranges);

void check_simplify(Space& space, ir::Expr e, uint64_t seed, Simplify simplify = analysis::simplify) {
  ir::Expr s = simplify(space.b, e, space.ranges);
  auto describe = [&] {
    std::string text =
        fmt::format("seed {}: {} -> {} for extents", seed, ir::print(space.kernel, e), ir::print(space.kernel, s));
    for (int64_t n : space.extents) text += fmt::format(" {}", n);
    return text;
  };
  space.each_point([&](const Point& at) {
    if (evaluate(e, at) == evaluate(s, at)) return true;
    FAIL_CHECK(describe() << ": " << evaluate(e, at) << " became " << evaluate(s, at));
    return false;
  });
  ir::Expr again = simplify(space.b, s, space.ranges);
  if (again != s)
    FAIL_CHECK(describe() << (ir::equal(again, s) ? ": equal but new"
                                                  : ": not idempotent, then " + ir::print(space.kernel, again)));
  if (node_count(s) > node_count(e))
    FAIL_CHECK(describe() << ": grew from " << node_count(e) << " to " << node_count(s));
}

}  // namespace

TEST_CASE("simplify keeps the value of random index expressions", "[fuzz]") {
  for (int64_t n = 0; n < cases_wanted(6000); ++n) {
    auto seed = static_cast<uint64_t>(n);
    Rng rng(seed);
    Space space = Space::random(rng, 1 + static_cast<int>(rng.below(3)), 9);
    ir::Expr e = random_index(space, rng, 1 + static_cast<int>(rng.below(4)));
    check_simplify(space, e, seed);
    check_simplify(space, e, seed, analysis::simplify_address);
  }
}

TEST_CASE("simplify_address keeps the value of digits of fused and split loops", "[fuzz]") {
  for (int64_t n = 0; n < cases_wanted(3000); ++n) {
    Rng rng(static_cast<uint64_t>(n));
    Space space = Space::random(rng, 3, 9);
    // One index over all loops, and its digits by random extents, over random strides.
    ir::Expr index = space.b.integer(0);
    for (size_t i = 0; i < space.extents.size(); ++i)
      index = space.b.add(space.b.scale(index, space.extents[i]), space.var(i));
    ir::Expr address = space.b.integer(rng.below(5));
    int64_t divisor = 1, stride = 1;
    for (int digit = 0; digit < 3; ++digit) {
      const int64_t extent = 1 + rng.below(6);
      ir::Expr value = space.b.floor_div(index, space.b.integer(divisor));
      if (digit < 2) value = space.b.floor_mod(value, space.b.integer(extent));
      address = space.b.add(address, space.b.scale(value, stride));
      divisor *= extent;
      stride *= extent + (rng.below(3) == 0 ? 1 : 0);
    }
    check_simplify(space, address, static_cast<uint64_t>(n), analysis::simplify_address);
  }
}

TEST_CASE("simplify keeps the truth of random conditions", "[fuzz]") {
  for (int64_t n = 0; n < cases_wanted(4000); ++n) {
    auto seed = static_cast<uint64_t>(n) + 1000000;
    Rng rng(seed);
    Space space = Space::random(rng, 1 + static_cast<int>(rng.below(3)), 9);
    check_simplify(space, random_condition(space, rng, 1 + static_cast<int>(rng.below(3))), seed);
  }
}

TEST_CASE("simplify knows what ranges tell") {
  Space space({4, 8, 5});
  ir::Builder& b = space.b;
  ir::Expr i = space.var(0), j = space.var(1), k = space.var(2);
  auto simplified = [&](ir::Expr e) { return ir::print(space.kernel, analysis::simplify(b, e, space.ranges)); };
  ir::Expr eight = b.integer(8);
  CHECK(simplified(b.floor_div(j, eight)) == "0");
  CHECK(simplified(b.floor_mod(j, eight)) == "v1");
  // A fused index taken apart again.
  ir::Expr fused = b.add(b.scale(i, 8), j);
  CHECK(simplified(b.floor_div(fused, eight)) == "v0");
  CHECK(simplified(b.floor_mod(fused, eight)) == "v1");
  CHECK(simplified(b.add(b.scale(b.floor_div(k, b.integer(3)), 3), b.floor_mod(k, b.integer(3)))) == "v2");
  // The positions of a 3 x 3 window, whose index is split by tiles of 32.
  ir::Expr tiled = b.add(b.scale(i, 32), j), three = b.integer(3), nine = b.integer(9);
  ir::Expr position =
      b.add(b.scale(b.floor_div(tiled, nine), 9),
            b.add(b.scale(b.floor_mod(b.floor_div(tiled, three), three), 3), b.floor_mod(tiled, three)));
  CHECK(simplified(position) == simplified(tiled));
  // A fused index with more terms than its quotient and remainder are.
  ir::Expr wide_index = b.offset(b.add(b.add(b.scale(i, 1024), b.scale(k, 64)), b.scale(j, 8)), 3);
  ir::Expr row = b.integer(8191);
  CHECK(simplified(b.add(b.scale(b.floor_div(wide_index, row), 8191), b.floor_mod(wide_index, row))) ==
        simplified(wide_index));
  // A remainder that a quotient or a modulo by a divisor does not need.
  ir::Expr index = b.add(b.add(b.scale(i, 40), b.scale(j, 5)), k), fourteen = b.integer(14), rows = b.integer(56);
  ir::Expr inner = b.add(b.scale(b.floor_mod(index, fourteen), 16), j), outer = b.add(b.scale(index, 16), j);
  CHECK(simplified(b.floor_mod(inner, rows)) == simplified(b.floor_mod(outer, rows)));
  CHECK(simplified(b.add(b.scale(b.floor_div(index, fourteen), 4), b.floor_div(inner, rows))) ==
        simplified(b.floor_div(outer, rows)));
  CHECK(simplified(b.floor_mod(b.floor_div(inner, rows), b.integer(2))) ==
        simplified(b.floor_mod(b.floor_div(outer, rows), b.integer(2))));
  CHECK(simplified(b.lt(fused, b.integer(32))) == "true");
  CHECK(simplified(b.lt(b.integer(31), fused)) == "false");
  CHECK(simplified(b.eq(i, b.integer(4))) == "false");
  CHECK(simplified(b.ne(i, b.integer(-1))) == "true");
  CHECK(simplified(b.min(i, b.integer(3))) == "v0");
  CHECK(simplified(b.max(b.sub(i, b.integer(3)), b.integer(0))) == "0");
  // A bound makes others certain, whichever comes first.
  ir::Expr part = b.add(b.scale(k, 2), j), narrow = b.lt(part, b.integer(3)), wide = b.lt(b.add(i, part), b.integer(6));
  CHECK(simplified(b.logical_and(narrow, wide)) == ir::print(space.kernel, narrow));
  CHECK(simplified(b.logical_and(wide, narrow)) == ir::print(space.kernel, narrow));
  ir::Expr needed = b.logical_and(b.lt(b.add(i, part), b.integer(5)), narrow);
  CHECK(simplified(needed) == ir::print(space.kernel, needed));
  // What the ranges do not decide stays as it is, at the same place.
  ir::Expr open = b.min(i, j);
  CHECK(analysis::simplify(b, open, space.ranges) == open);
}
