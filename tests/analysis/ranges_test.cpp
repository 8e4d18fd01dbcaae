// Bounds, injectivity and regions against brute force.
#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "random_expr.h"
#include "tcc/analysis/address.h"
#include "tcc/analysis/injective.h"
#include "tcc/analysis/region.h"

using namespace tcc;
using namespace tcc::testing;

TEST_CASE("constant bounds hold at every point", "[fuzz]") {
  int64_t exact = 0, total = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed);
    Space space = Space::random(rng, 1 + static_cast<int>(rng.below(3)), 9);
    ir::Expr e = random_index(space, rng, 1 + static_cast<int>(rng.below(4)));
    if (rng.below(4) == 0) e = space.b.mul(e, random_index(space, rng, 1));
    INFO("seed " << seed << ": " << ir::print(space.kernel, e));
    const ir::Interval bounds = space.ranges.bounds(e);
    REQUIRE(bounds.known());
    int64_t low = INT64_MAX, high = INT64_MIN;
    space.each_point([&](const Point& at) {
      int64_t x = evaluate(e, at);
      low = std::min(low, x);
      high = std::max(high, x);
      return true;
    });
    CHECK(bounds.low <= low);
    CHECK(bounds.high >= high);
    ++total;
    exact += bounds.low == low && bounds.high == high ? 1 : 0;
  }
  CHECK(exact * 2 > total);  // bounds that are always far off would be sound too
}

TEST_CASE("known divisors divide at every point, also those of remainders beside their numbers", "[fuzz]") {
  int64_t beside = 0, known = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    Space space = Space::random(rng, 1 + static_cast<int>(rng.below(3)), 9);
    ir::Expr e = random_index(space, rng, 1 + static_cast<int>(rng.below(3)));
    const int64_t n = 1 + rng.below(8);
    // A remainder, with what it is a remainder of, or with something else.
    ir::Expr row = space.b.scale(e, 1 + rng.below(20));
    ir::Expr other = rng.below(2) == 0 ? row : random_index(space, rng, 1);
    const ir::Expr start = space.b.sub(other, space.b.floor_mod(row, space.b.integer(n)));
    const ir::Expr address = space.b.add(start, space.b.scale(random_index(space, rng, 1), n));
    INFO("seed " << seed << ": " << ir::print(space.kernel, address));
    const int64_t divisor = analysis::known_divisor(space.kernel, address);
    if (other == row) ++beside, known += divisor % n == 0 ? 1 : 0;
    space.each_point([&](const Point& at) {
      const int64_t x = evaluate(address, at);
      CHECK((divisor == 0 ? x == 0 : x % divisor == 0));
      return true;
    });
  }
  CHECK(known * 10 >= beside * 9);  // the builder folds some remainders into others
}

TEST_CASE("symbolic bounds hold when inner variables are eliminated", "[fuzz]") {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    Space space = Space::random(rng, 3, 7);
    ir::Expr e = random_index(space, rng, 1 + static_cast<int>(rng.below(3)));
    int64_t inner_mask = 1 + rng.below(7);
    auto inner = [&](ir::Id v) { return (inner_mask >> v & 1) != 0; };
    ir::Expr low = space.ranges.lower(space.b, e, inner), high = space.ranges.upper(space.b, e, inner);
    auto text = [&](ir::Expr x) { return x == nullptr ? std::string("none") : ir::print(space.kernel, x); };
    INFO("seed " << seed << ": " << text(low) << " <= " << text(e) << " <= " << text(high) << " over " << inner_mask);
    space.each_point([&](const Point& at) {
      int64_t x = evaluate(e, at);
      bool ok = (low == nullptr || evaluate(low, at) <= x) && (high == nullptr || x <= evaluate(high, at));
      if (!ok) FAIL_CHECK("at " << at[0] << ", " << at[1] << ", " << at[2]);
      return ok;
    });
    for (ir::Expr bound : {low, high})
      if (bound != nullptr)
        for (ir::Id v = 0; v < 3; ++v)
          if (inner(v)) CHECK_FALSE(ir::may_mention(bound, v));
  }
}

TEST_CASE("what is proved holds at every point", "[fuzz]") {
  int64_t proved = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed);
    Space space = Space::random(rng, 2, 9);
    ir::Expr x = random_index(space, rng, 2), y = random_index(space, rng, 2);
    bool less = space.ranges.prove_less(space.b, x, y), same = space.ranges.prove_equal(space.b, x, y);
    bool positive = space.ranges.prove_non_negative(space.b, x);
    proved += less || same || positive ? 1 : 0;
    INFO("seed " << seed << ": " << ir::print(space.kernel, x) << " and " << ir::print(space.kernel, y));
    space.each_point([&](const Point& at) {
      int64_t u = evaluate(x, at), v = evaluate(y, at);
      bool ok = (!less || u < v) && (!same || u == v) && (!positive || u >= 0);
      if (!ok) FAIL_CHECK("at " << at[0] << ", " << at[1] << ": " << u << " and " << v);
      return ok;
    });
  }
  CHECK(proved > 400);
}

namespace {

// A block with the given bindings over loops 0 .. extents.size() - 1.
struct Bindings {
  Space& space;
  std::vector<const ir::Loop*> loops;
  const ir::Block* block = nullptr;

  Bindings(Space& s, const std::vector<ir::Expr>& bindings) : space(s) {
    auto next = static_cast<ir::Id>(s.extents.size());
    std::vector<ir::Iter> iters;
    for (ir::Expr e : bindings) iters.push_back({next++, ir::IterKind::kSpatial, s.b.integer(1 << 20), e});
    ir::Stmt body = s.b.store(next + 1, {}, s.b.real(1));
    block = ir::as<ir::Block>(s.b.block(next, iters, body));
    for (size_t v = 0; v < s.extents.size(); ++v)
      loops.push_back(ir::as<ir::Loop>(s.b.loop(static_cast<ir::Id>(v), s.b.integer(s.extents[v]), body)));
  }
  bool claimed() const { return analysis::is_injective(space.b, *block, loops, space.ranges); }
  bool truth() const {
    std::set<std::vector<int64_t>> seen;
    bool distinct = true;
    space.each_point([&](const Point& at) {
      std::vector<int64_t> values;
      for (const ir::Iter& it : block->iters) values.push_back(evaluate(it.binding, at));
      return distinct = seen.insert(values).second;
    });
    return distinct;
  }
};

}  // namespace

TEST_CASE("injective bindings are injective", "[fuzz]") {
  int64_t claimed = 0, denied = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed);
    Space space = Space::random(rng, 1 + static_cast<int>(rng.below(4)), 6);
    // Sums of digits of right, nearly right and wrong weights; sometimes anything at all.
    std::vector<ir::Expr> bindings(1 + static_cast<size_t>(rng.below(3)), space.b.integer(0));
    std::vector<int64_t> reach(bindings.size(), 1);
    for (size_t v = 0; v < space.extents.size(); ++v) {
      auto at = static_cast<size_t>(rng.below(static_cast<int64_t>(bindings.size())));
      int64_t weight = reach[at] + (rng.below(4) == 0 ? rng.below(3) - 1 : 0);
      bindings[at] = space.b.add(bindings[at], space.b.scale(space.var(v), rng.below(8) == 0 ? -weight : weight));
      reach[at] *= space.extents[v];
    }
    if (rng.below(8) == 0) bindings[0] = random_index(space, rng, 2);
    Bindings b(space, bindings);
    INFO("seed " << seed << ": " << ir::print(space.kernel, b.block->iters[0].binding));
    bool yes = b.claimed();
    (yes ? claimed : denied)++;
    if (yes) CHECK(b.truth());
  }
  CHECK(claimed > 1000);
  CHECK(denied > 200);
}

TEST_CASE("the mixed radix of a split is recognized, a recomputing halo is not") {
  Space space({4, 3, 5, 3});
  ir::Builder& b = space.b;
  auto v = [&](size_t i) { return space.var(i); };
  ir::Expr split = b.add(b.scale(v(0), 15), b.add(b.scale(v(1), 5), v(2)));
  CHECK(Bindings(space, {split, v(3)}).claimed());
  CHECK(Bindings(space, {split, b.offset(v(3), 7)}).claimed());
  // Loop 3 reaches no iterator; then tiles of three at a distance of two.
  CHECK_FALSE(Bindings(space, {split}).claimed());
  CHECK_FALSE(Bindings(space, {b.add(b.scale(v(0), 2), v(1)), v(2), v(3)}).claimed());
}

TEST_CASE("dim_range is the box of the inner variables", "[fuzz]") {
  int64_t found = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed);
    Space space = Space::random(rng, 3, 6);
    bool affine = rng.below(2) == 0;
    ir::Expr e = space.b.integer(rng.below(7) - 3);
    if (affine)
      for (size_t v = 0; v < 3; ++v) e = space.b.add(e, space.b.scale(space.var(v), rng.below(7) - 2));
    else
      e = random_index(space, rng, 2);
    int64_t inner_mask = 1 + rng.below(6);
    auto inner = [&](ir::Id v) { return (inner_mask >> v & 1) != 0; };
    auto range = analysis::dim_range(space.b, e, space.ranges, inner);
    INFO("seed " << seed << ": " << ir::print(space.kernel, e) << " over " << inner_mask);
    if (affine) REQUIRE(range.has_value());
    if (!range) continue;
    ++found;
    // Lowest and highest value for each choice of the outer variables.
    std::map<Point, std::pair<int64_t, int64_t>> boxes;
    space.each_point([&](const Point& at) {
      Point outer = at;
      for (ir::Id v = 0; v < 3; ++v)
        if (inner(v)) outer[static_cast<size_t>(v)] = 0;
      int64_t x = evaluate(e, at);
      auto [it, is_new] = boxes.try_emplace(outer, x, x);
      it->second = {std::min(it->second.first, x), std::max(it->second.second, x)};
      return true;
    });
    for (const auto& [outer, box] : boxes) {
      int64_t base = evaluate(range->base, outer), extent = evaluate(range->extent, outer);
      CHECK(base <= box.first);
      CHECK(base + extent - 1 >= box.second);
      if (!affine) continue;
      CHECK(base == box.first);
      CHECK(base + extent - 1 == box.second);
    }
  }
  CHECK(found > 2500);
}

TEST_CASE("unite covers both ranges and nothing beyond their ends") {
  Space space({4});
  ir::Builder& b = space.b;
  for (int64_t shift = -4; shift <= 4; ++shift)
    for (int64_t first = 1; first <= 5; ++first)
      for (int64_t second = 1; second <= 5; ++second) {
        analysis::DimRange x{space.var(0), b.integer(first)}, y{b.offset(space.var(0), shift), b.integer(second)};
        auto both = analysis::unite(b, x, y);
        REQUIRE(both.has_value());
        int64_t base = evaluate(both->base, {0}), extent = evaluate(both->extent, {0});
        CHECK(base == std::min<int64_t>(0, shift));
        CHECK(base + extent == std::max(first, shift + second));
      }
  CHECK_FALSE(analysis::unite(b, {space.var(0), b.integer(1)}, {b.integer(0), b.integer(1)}).has_value());
}

TEST_CASE("accesses are given over loops, with the blocks' bindings put in") {
  auto k = ir::parse(R"(kernel scheduled {
  input A: f32[8, 4]
  output C: f32[8]
  for i in 8 {
    for k in 4 {
      block c(vi: spatial 8 = i, vk: reduce 4 = k) reduce(sum) {
        init {
          C[vi] = 0.0
        }
        C[vi] = C[vi] + A[vi, 3 - vk]
      }
    }
  }
}
)");
  REQUIRE(k.has_value());
  ir::Builder b(*k->arena);
  std::vector<std::string> seen;
  analysis::visit_accesses(
      b, k->root, [&](const analysis::AccessInfo& access, const analysis::LoopStack& loops, const ir::Block* block) {
        std::string text = (access.write ? "store " : "load ") + ir::name_hint(*k, access.buffer);
        for (ir::Expr e : access.indices) text += " " + ir::print(*k, e);
        CHECK(loops.size() == 2);
        CHECK(block != nullptr);
        seen.push_back(text);
      });
  CHECK(seen == std::vector<std::string>{"store C i", "load C i", "load A i 3 - k", "store C i"});
}
