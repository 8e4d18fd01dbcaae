// Intervals of index expressions whose variables are known in part.
#include <catch2/catch.hpp>

#include "tcc/ir/interval.h"

using namespace tcc;
using ir::Interval;

namespace {

// i in [2, 9], j in [0, unknown), k unknown.
struct Variables {
  Arena arena;
  ir::Builder b{arena};
  ir::Expr i = b.var(0), j = b.var(1), k = b.var(2);

  Interval of(ir::Expr e) const {
    return ir::interval_of(e, [](ir::Id id) -> Interval {
      if (id == 0) return {2, 9};
      return id == 1 ? Interval{0, Interval::kUnbounded} : Interval{};
    });
  }
  void check(ir::Expr e, int64_t low, int64_t high) const {
    const Interval found = of(e);
    CHECK(found.low == low);
    CHECK(found.high == high);
  }
};

constexpr int64_t kLowest = -Interval::kUnbounded, kHighest = Interval::kUnbounded;

}  // namespace

TEST_CASE("intervals follow index arithmetic") {
  Variables v;
  ir::Builder& b = v.b;
  v.check(b.integer(7), 7, 7);
  v.check(b.sub(b.integer(10), b.scale(v.i, 3)), -17, 4);
  v.check(b.mul(v.i, b.offset(v.i, -5)), -41, 71);  // i * i - 5 * i, each term by itself
  v.check(b.floor_div(b.offset(v.i, -5), b.integer(2)), -2, 2);
  v.check(b.floor_mod(v.i, b.integer(8)), 0, 7);
  v.check(b.floor_mod(v.i, b.integer(64)), 0, 9);
  v.check(b.min(v.i, b.integer(4)), 2, 4);
  CHECK(v.of(v.i).known());
}

TEST_CASE("an end that is not known stays so, and others do not suffer") {
  Variables v;
  ir::Builder& b = v.b;
  v.check(v.j, 0, kHighest);
  v.check(b.offset(v.j, -3), -3, kHighest);
  v.check(b.scale(v.j, -2), kLowest, 0);
  v.check(b.add(b.sub(v.j, v.k), v.i), kLowest, kHighest);
  v.check(b.floor_div(v.j, b.integer(4)), 0, kHighest);
  v.check(b.floor_mod(v.k, b.integer(4)), 0, 3);
  v.check(b.min(v.k, b.integer(4)), kLowest, 4);
  v.check(b.max(b.integer(0), b.min(v.k, b.integer(4))), 0, 4);  // an index that is moved inside
  v.check(b.floor_div(v.i, v.k), kLowest, kHighest);             // the divisor may be zero
  CHECK_FALSE(v.of(b.offset(v.j, -3)).known());
}

TEST_CASE("an end beyond 2^62 is not known") {
  Variables v;
  ir::Builder& b = v.b;
  const int64_t large = int64_t{1} << 60;
  v.check(b.scale(v.i, large), 2 * large, kHighest);
  v.check(b.offset(b.scale(v.i, large), -4 * large), -2 * large, kHighest);
}
