// The sampling instructions as MetaSchedule states them (section 4 and appendix): distributions, repair on replay,
// mutation.
#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <map>
#include <set>

#include "sample_tasks.h"
#include "schedule/sampling.h"
#include "tcc/ir/text.h"
#include "tcc/schedule/schedule.h"
#include "tcc/task/task.h"

using namespace tcc;
using namespace tcc::schedule;

namespace {

using Factors = std::vector<int64_t>;

// Every ordered factorisation with its probability: the product over primes of 1 / (compositions of the exponent),
// given that the last factor keeps its limit.
std::map<Factors, double> factorisations(int64_t extent, size_t n, int64_t max_innermost) {
  std::map<Factors, double> out;
  Factors current;
  auto recurse = [&](auto& self, int64_t rest) -> void {
    if (current.size() + 1 == n) {
      current.push_back(rest);
      if (n == 1 || rest <= max_innermost) out[current] = 1;
      current.pop_back();
      return;
    }
    for (int64_t f = 1; f <= rest; ++f) {
      if (rest % f != 0) continue;
      current.push_back(f);
      self(self, rest / f);
      current.pop_back();
    }
  };
  recurse(recurse, extent);
  for (auto& [factors, p] : out) p = 1.0 / static_cast<double>(out.size());
  return out;
}

// Pearson's statistic against its mean and deviation: below about five deviations unless the distribution is wrong.
template <class Key>
void check_distribution(const std::map<Key, double>& expected, const std::map<Key, int64_t>& seen, int64_t draws) {
  double statistic = 0;
  for (const auto& [key, count] : seen) CHECK(expected.contains(key));
  for (const auto& [key, p] : expected) {
    auto it = seen.find(key);
    double got = it == seen.end() ? 0 : static_cast<double>(it->second), want = p * static_cast<double>(draws);
    statistic += (got - want) * (got - want) / want;
  }
  double freedom = static_cast<double>(expected.size()) - 1;
  INFO("chi-square " << statistic << " with " << freedom << " degrees of freedom");
  CHECK(statistic < freedom + 5 * std::sqrt(2 * freedom) + 5);
}

task::Task gemm() {
  return task::make_gemm({.m = 48, .n = 36, .k = 30});
}

struct Tiled {
  task::Task task = gemm();
  ArenaPtr arena = std::make_shared<Arena>();
  Rng rng{5};
  Schedule schedule{task.kernel, arena, &rng};
  BlockRv block = schedule.get_block(task.anchor_block);
  std::vector<LoopRv> loops = schedule.get_loops(block);
};

}  // namespace

TEST_CASE("sample_perfect_tile is uniform over ordered factorisations", "[fidelity]") {
  struct Row {
    int64_t extent;
    size_t n;
    int64_t max_innermost;
  };
  // Prime powers, mixed extents (each prime's composition is drawn by itself; the product of uniform draws is uniform),
  // a limit that forces redraws, one part.
  const Row rows[] = {{64, 3, 64}, {81, 2, 81}, {32, 4, 32}, {60, 3, 60},
                      {48, 2, 4},  {72, 3, 6},  {7, 2, 7},   {12, 1, 3}};
  for (const Row& row : rows) {
    INFO("extent " << row.extent << " into " << row.n << ", last at most " << row.max_innermost);
    auto expected = factorisations(row.extent, row.n, row.max_innermost);
    std::map<Factors, int64_t> seen;
    Rng rng(static_cast<uint64_t>(row.extent) * 31 + row.n);
    int64_t draws = static_cast<int64_t>(expected.size()) * 300;
    for (int64_t i = 0; i < draws; ++i) {
      Factors f(row.n);
      draw_perfect_tile(row.extent, row.max_innermost, rng, f);
      ++seen[f];
    }
    CHECK(seen.size() == expected.size());
    if (expected.size() > 1) check_distribution(expected, seen, draws);
  }
}

TEST_CASE("the distribution test notices a skewed sampler", "[fidelity]") {
  // Drawing the last factor first, uniformly over divisors, is not uniform over factorisations.
  auto expected = factorisations(64, 3, 64);
  std::map<Factors, int64_t> seen;
  Rng rng(1);
  int64_t draws = static_cast<int64_t>(expected.size()) * 300;
  for (int64_t i = 0; i < draws; ++i) {
    int64_t last = int64_t{1} << rng.below(7), rest = 64 / last, middle = 1;
    while (middle < rest && rng.below(2) == 0) middle *= 2;
    ++seen[{rest / middle, middle, last}];
  }
  double statistic = 0;
  for (const auto& [key, p] : expected) {
    double want = p * static_cast<double>(draws), got = static_cast<double>(seen[key]);
    statistic += (got - want) * (got - want) / want;
  }
  CHECK(statistic > 27 + 5 * std::sqrt(54.0) + 5);
}

TEST_CASE("replay repairs tiles from the innermost outward", "[fidelity]") {
  auto repaired = [](int64_t extent, Factors f) {
    repair_perfect_tile(extent, f);
    return f;
  };
  CHECK(repaired(24, {2, 3, 4}) == Factors{2, 3, 4});
  // The first is always the leftover.
  CHECK(repaired(24, {7, 3, 4}) == Factors{2, 3, 4});
  // 5 does not divide 24: all that remains goes there, the outer ones become 1.
  CHECK(repaired(24, {2, 3, 5}) == Factors{1, 1, 24});
  CHECK(repaired(24, {2, 5, 4}) == Factors{1, 6, 4});
  CHECK(repaired(1, {2, 3, 4}) == Factors{1, 1, 1});
  CHECK(repaired(6, {0, -3, 3}) == Factors{1, 2, 3});
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    int64_t extent = 1 + rng.below(200);
    Factors f;
    for (int64_t n = 1 + rng.below(4); n > 0; --n) f.push_back(rng.below(30) - 2);
    repair_perfect_tile(extent, f);
    int64_t product = 1;
    for (int64_t x : f) {
      CHECK(x >= 1);
      product *= x;
    }
    CHECK(product == extent);
    Factors again = f;
    repair_perfect_tile(extent, again);
    CHECK(again == f);
  }
}

TEST_CASE("replay records the repaired decisions", "[fidelity]") {
  Tiled t;
  auto tile = t.schedule.sample_perfect_tile(t.loops[0], 3, 16);  // 48
  t.schedule.split(t.loops[0], tile);
  REQUIRE(t.schedule.ok());
  Factors used;
  auto again = replay(t.schedule.trace(), Factors{9, 5, 8}, t.task.kernel, std::make_shared<Arena>(), &used);
  REQUIRE(again.has_value());
  CHECK(used == Factors{1, 6, 8});
  Factors stable;
  auto third = replay(t.schedule.trace(), used, t.task.kernel, std::make_shared<Arena>(), &stable);
  REQUIRE(third.has_value());
  CHECK(stable == used);
  CHECK(ir::hash_kernel(*third) == ir::hash_kernel(*again));
}

TEST_CASE("sample_categorical draws by weight and records the index", "[fidelity]") {
  Tiled t;
  const std::array<int64_t, 4> candidates = {0, 16, 64, 512};
  const std::array<double, 4> weights = {0.1, 0.2, 0.3, 0.4};
  ExprRv value = t.schedule.sample_categorical(candidates, weights);
  t.schedule.annotate(t.block, ir::AnnotationKey::kUnrollMax, value);
  REQUIRE(t.schedule.ok());
  std::map<int64_t, double> expected = {{0, 0.1}, {1, 0.2}, {2, 0.3}, {3, 0.4}};
  std::map<int64_t, int64_t> seen;
  constexpr int64_t kDraws = 4000;
  Rng rng(17);
  for (int64_t i = 0; i < kDraws; ++i) {
    std::vector<int64_t> decisions;
    auto k = sample(t.schedule.trace(), decisions, t.task.kernel, std::make_shared<Arena>(), rng);
    REQUIRE(k.has_value());
    REQUIRE(decisions.size() == 1);
    ++seen[decisions[0]];
    if (i > 20) continue;
    // The index is recorded, the candidate is what the kernel holds.
    std::string text = ir::print(*k);
    CHECK(text.find(fmt::format("@unroll_max({})", candidates[static_cast<size_t>(decisions[0])])) !=
          std::string::npos);
  }
  check_distribution(expected, seen, kDraws);
  // draw_decisions draws from the same distribution without running the trace.
  seen.clear();
  std::vector<int64_t> decisions = t.schedule.trace().decisions;
  for (int64_t i = 0; i < kDraws; ++i) {
    draw_decisions(t.schedule.trace(), decisions, rng);
    ++seen[decisions[0]];
  }
  check_distribution(expected, seen, kDraws);
  for (int64_t index : {-1, 4}) {
    auto bad = replay(t.schedule.trace(), std::vector<int64_t>{index}, t.task.kernel, std::make_shared<Arena>());
    REQUIRE_FALSE(bad.has_value());
    CHECK(bad.error().reason == ir::RejectReason::kBadDecision);
  }
}

TEST_CASE("draw_decisions redraws tiles as sampling does", "[fidelity]") {
  Tiled t;
  t.schedule.split(t.loops[0], t.schedule.sample_perfect_tile(t.loops[0], 2, 8));
  REQUIRE(t.schedule.ok());
  auto expected = factorisations(48, 2, 8);
  std::map<Factors, int64_t> drawn, sampled;
  std::vector<int64_t> decisions = t.schedule.trace().decisions, other;
  int64_t draws = static_cast<int64_t>(expected.size()) * 300;
  Rng rng(23);
  for (int64_t i = 0; i < draws; ++i) {
    draw_decisions(t.schedule.trace(), decisions, rng);
    ++drawn[decisions];
    REQUIRE(sample(t.schedule.trace(), other, t.task.kernel, std::make_shared<Arena>(), rng).has_value());
    ++sampled[other];
  }
  check_distribution(expected, drawn, draws);
  check_distribution(expected, sampled, draws);
}

TEST_CASE("sample_tile keeps its limits") {
  Rng rng(29);
  for (int i = 0; i < 5000; ++i) {
    int64_t extent = 1 + rng.below(300), limit = 1 + rng.below(64), multiple = 1 + rng.below(8);
    Factors f(2 + static_cast<size_t>(rng.below(3)));
    draw_tile(extent, limit, multiple, rng, f);
    INFO("extent " << extent << ", last at most " << limit << " and a multiple of " << multiple);
    int64_t product = 1;
    for (int64_t x : f) {
      CHECK(x >= 1);
      product *= x;
    }
    CHECK(product >= extent);
    CHECK(f.back() <= limit);
    if (std::min(extent, limit) >= multiple) CHECK(f.back() % multiple == 0);
    Factors repaired = f;
    repair_tile(extent, repaired);
    product = 1;
    for (size_t d = 1; d < repaired.size(); ++d) product *= repaired[d];
    CHECK(repaired[0] == (extent + product - 1) / product);
  }
}

TEST_CASE("mutation keeps decisions legal and prefers tiles nine times in ten", "[fidelity]") {
  Tiled t;
  t.schedule.split(t.loops[0], t.schedule.sample_perfect_tile(t.loops[0], 3, 8));   // decisions 0-2
  t.schedule.split(t.loops[2], t.schedule.sample_perfect_tile(t.loops[2], 2, 16));  // decisions 3-4
  const std::array<int64_t, 4> candidates = {0, 16, 64, 512};
  const std::array<double, 4> weights = {0.25, 0.25, 0.25, 0.25};
  t.schedule.annotate(t.block, ir::AnnotationKey::kUnrollMax, t.schedule.sample_categorical(candidates, weights));  // 5
  REQUIRE(t.schedule.ok());
  std::vector<int64_t> decisions = t.schedule.trace().decisions;
  REQUIRE(decisions.size() == 6);
  Rng rng(31);
  int64_t tiles = 0, total = 0;
  std::set<std::vector<int64_t>> reached;
  for (int i = 0; i < 6000; ++i) {
    std::vector<int64_t> before = decisions;
    if (!mutate(t.schedule.trace(), decisions, rng)) continue;
    ++total;
    reached.insert(decisions);
    CHECK(decisions[0] * decisions[1] * decisions[2] == 48);
    CHECK(decisions[3] * decisions[4] == 30);
    CHECK(decisions[2] <= 8);
    CHECK(decisions[4] <= 16);
    CHECK(decisions[5] >= 0);
    CHECK(decisions[5] < 4);
    // Exactly one instruction's decision changed; a tile moves one divisor from one factor to another.
    int changed = 0;
    for (size_t d = 0; d < 6; ++d) changed += decisions[d] != before[d] ? 1 : 0;
    bool unroll = decisions[5] != before[5];
    CHECK(changed == (unroll ? 1 : 2));
    tiles += unroll ? 0 : 1;
    if (i % 200 != 0) continue;
    std::vector<int64_t> used;
    REQUIRE(replay(t.schedule.trace(), decisions, t.task.kernel, std::make_shared<Arena>(), &used).has_value());
    CHECK(used == decisions);  // nothing to repair
  }
  double share = static_cast<double>(tiles) / static_cast<double>(total);
  CHECK(std::abs(share - 0.9) < 5 * std::sqrt(0.9 * 0.1 / static_cast<double>(total)));
  // Mutation alone comes around: 27 tilings of 48, 7 of 30 and 4 choices.
  size_t all = factorisations(48, 3, 8).size() * factorisations(30, 2, 16).size() * 4;
  CHECK(reached.size() > all * 8 / 10);
}

TEST_CASE("mutating sample_tile and traces without decisions") {
  Tiled t;
  t.schedule.split(t.loops[0], t.schedule.sample_tile(t.loops[0], 3, 16, 4));
  REQUIRE(t.schedule.ok());
  std::vector<int64_t> decisions = t.schedule.trace().decisions;
  Rng rng(37);
  for (int i = 0; i < 1000; ++i) {
    mutate(t.schedule.trace(), decisions, rng);
    CHECK(decisions[0] == (48 + decisions[1] * decisions[2] - 1) / (decisions[1] * decisions[2]));
    CHECK(decisions[2] <= 16);
    CHECK(decisions[2] % 4 == 0);
  }
  Trace none;
  CHECK_FALSE(mutate(none, {}, rng));
}

TEST_CASE("tail modes are drawn and mutated within what is allowed") {
  Tiled t;
  ExprRv tail;
  constexpr int64_t kPeelOrPad = 1 << static_cast<int>(ir::TailMode::kPeel) | 1 << static_cast<int>(ir::TailMode::kPad);
  auto factors = t.schedule.sample_tile(t.loops[0], 2, 16, 1, &tail, kPeelOrPad);
  auto tiles = t.schedule.split(t.loops[0], factors);
  t.schedule.annotate(tiles[0], ir::AnnotationKey::kTail, tail);
  REQUIRE(t.schedule.ok());
  std::vector<int64_t> decisions = t.schedule.trace().decisions, drawn = decisions;
  REQUIRE(decisions.size() == 3);
  std::map<int64_t, int64_t> by_drawing, by_mutating;
  Rng rng(43);
  for (int i = 0; i < 2000; ++i) {
    draw_decisions(t.schedule.trace(), drawn, rng);
    ++by_drawing[drawn[2]];
    mutate(t.schedule.trace(), decisions, rng);
    ++by_mutating[decisions[2]];
    if (i % 100 == 0)
      CHECK(replay(t.schedule.trace(), decisions, t.task.kernel, std::make_shared<Arena>()).has_value());
  }
  check_distribution({{1, 0.5}, {2, 0.5}}, by_drawing, 2000);
  CHECK(by_mutating.size() == 2);
  CHECK(by_mutating.contains(1));
  CHECK(by_mutating.contains(2));
  auto bad = replay(t.schedule.trace(), std::vector<int64_t>{3, 16, 7}, t.task.kernel, std::make_shared<Arena>());
  REQUIRE_FALSE(bad.has_value());
  CHECK(bad.error().reason == ir::RejectReason::kBadDecision);
}

TEST_CASE("sample_compute_location draws legal places only and repairs downwards", "[fidelity]") {
  const std::string text = R"(kernel built {
  input A: f32[8, 9]
  output C: f32[8, 9]
  temp B: f32[8, 9]
  for i in 8 {
    for j in 9 {
      block twice(vi: spatial 8 = i, vj: spatial 9 = j) {
        B[vi, vj] = A[vi, vj] * 2.0
      }
    }
  }
  for i_1 in 8 {
    for j_1 in 9 {
      block plus(vi_1: spatial 8 = i_1, vj_1: spatial 9 = j_1) {
        C[vi_1, vj_1] = B[vi_1, vj_1] + 1.0
      }
    }
  }
}
)";
  auto kernel = ir::parse(text);
  REQUIRE(kernel.has_value());
  auto trace = parse_trace("v0 = get_block(\"twice\")\nv1 = sample_compute_location(v0) <-1>\ncompute_at(v0, v1)\n");
  REQUIRE(trace.has_value());
  std::map<int64_t, int64_t> seen;
  Rng rng(41);
  constexpr int64_t kDraws = 2000;
  for (int64_t i = 0; i < kDraws; ++i) {
    std::vector<int64_t> decisions;
    REQUIRE(sample(*trace, decisions, *kernel, std::make_shared<Arena>(), rng).has_value());
    ++seen[decisions[0]];
  }
  check_distribution({{-2, 0.25}, {-1, 0.25}, {0, 0.25}, {1, 0.25}}, seen, kDraws);
  auto used_for = [&](int64_t decision) {
    std::vector<int64_t> used;
    REQUIRE(replay(*trace, std::vector<int64_t>{decision}, *kernel, std::make_shared<Arena>(), &used).has_value());
    return used[0];
  };
  CHECK(used_for(1) == 1);
  CHECK(used_for(7) == 1);  // the nearest smaller place
  CHECK(used_for(-9) == -1);
}

TEST_CASE("the same seed gives the same schedule") {
  auto text = [](uint64_t seed) {
    task::Task task = gemm();
    Rng rng(seed);
    Schedule s(task.kernel, std::make_shared<Arena>(), &rng);
    BlockRv block = s.get_block(task.anchor_block);
    for (LoopRv loop : s.get_loops(block)) s.split(loop, s.sample_perfect_tile(loop, 3, 16));
    return print_trace(s.trace()) + ir::print(s.kernel());
  };
  CHECK(text(1) == text(1));
  CHECK(text(1) != text(2));
}
