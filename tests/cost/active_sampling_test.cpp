#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <set>

#include "tcc/cost/active_sampling.h"
#include "tcc/support/rng.h"

using namespace tcc;
using cost::Sampler;

namespace {

struct Programs {
  std::vector<float> scores, spreads, features;
  std::vector<int32_t> classes;
  cost::SamplingPool pool() const { return {scores, classes, spreads, features, 2}; }
};

Programs draw(size_t n, uint64_t seed, int32_t classes = 3) {
  Rng rng(seed);
  Programs p;
  for (size_t i = 0; i < n; ++i) {
    p.scores.push_back(static_cast<float>(rng.uniform()));
    p.spreads.push_back(static_cast<float>(rng.uniform()));
    p.classes.push_back(static_cast<int32_t>(rng.below(classes)));
    p.features.push_back(static_cast<float>(rng.uniform()));
    p.features.push_back(static_cast<float>(rng.uniform()));
  }
  return p;
}

// Algorithm 1 of TCL word for word, but that a class without budget leaves the pool.
std::vector<int64_t> literal(const Programs& p, std::vector<int64_t> chosen, int64_t budget) {
  std::vector<int64_t> sizes(3, 0), picks;
  for (size_t i = 0; i < p.scores.size(); ++i)
    if (std::count(chosen.begin(), chosen.end(), static_cast<int64_t>(i)) == 0)
      ++sizes[static_cast<size_t>(p.classes[i])];
  std::vector<int64_t> left = cost::split_budget(budget, sizes);
  while (std::ssize(picks) < budget) {
    int64_t best = -1;
    double most = -1e30;
    for (size_t i = 0; i < p.scores.size(); ++i) {
      if (std::count(chosen.begin(), chosen.end(), static_cast<int64_t>(i)) > 0) continue;
      if (left[static_cast<size_t>(p.classes[i])] == 0) continue;
      double d = 1e30, mean = 0, variance = 0;
      std::vector<double> all = {p.scores[i]};
      for (int64_t c : chosen) {
        d = std::min(d, static_cast<double>(std::abs(p.scores[i] - p.scores[static_cast<size_t>(c)])));
        all.push_back(p.scores[static_cast<size_t>(c)]);
      }
      for (double f : all) mean += f / static_cast<double>(all.size());
      for (double f : all) variance += (f - mean) * (f - mean) / static_cast<double>(all.size());
      const double t = p.scores[i] * d + variance;
      if (t > most + 1e-12) most = t, best = static_cast<int64_t>(i);
    }
    if (best < 0) break;
    --left[static_cast<size_t>(p.classes[static_cast<size_t>(best)])];
    chosen.push_back(best);
    picks.push_back(best);
  }
  return picks;
}

}  // namespace

TEST_CASE("the RDU sampler is Algorithm 1 of TCL") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Programs p = draw(60, seed);
    const std::vector<int64_t> chosen = {3, 17, 40};
    CHECK(cost::choose_programs(p.pool(), chosen, 15) == literal(p, chosen, 15));
  }
}

TEST_CASE("samplers choose each program once, and all of them where the budget is large enough") {
  const Programs p = draw(50, 9);
  const std::vector<int64_t> chosen = {0, 1};
  for (Sampler s : {Sampler::kRdu, Sampler::kRandom, Sampler::kAlt, Sampler::kBalto}) {
    for (int64_t budget : {0, 1, 7, 48, 100}) {
      const auto picks = cost::choose_programs(p.pool(), chosen, budget, {.sampler = s});
      const std::set<int64_t> distinct(picks.begin(), picks.end());
      CHECK(std::ssize(distinct) == std::ssize(picks));
      CHECK(std::ssize(picks) == std::min<int64_t>(budget, 48));
      CHECK(distinct.count(0) + distinct.count(1) == 0);
      CHECK(cost::choose_programs(p.pool(), chosen, budget, {.sampler = s}) == picks);
    }
  }
}

TEST_CASE("RDU gives each class of operators a share by its size") {
  Programs p = draw(300, 4, 1);
  for (size_t i = 0; i < p.classes.size(); ++i) p.classes[i] = i < 30 ? 0 : 1;
  // The small class has the highest scores: without shares it would take all.
  for (size_t i = 0; i < 30; ++i) p.scores[i] = 0.9F + static_cast<float>(i) * 0.003F;
  const auto picks = cost::choose_programs(p.pool(), {}, 30);
  CHECK(std::count_if(picks.begin(), picks.end(), [](int64_t i) { return i < 30; }) == 3);
}

TEST_CASE("the terms of RDU may be standardized") {
  const Programs p = draw(80, 6);
  const std::vector<int64_t> chosen = {2, 30, 55, 70};
  const auto plain = cost::choose_programs(p.pool(), chosen, 10);
  const auto standard = cost::choose_programs(p.pool(), chosen, 10, {.standardize = true});
  CHECK(plain.size() == standard.size());
  CHECK(plain != standard);
}

TEST_CASE("alt takes programs that the model is least sure of, balto those far from the chosen ones") {
  const Programs p = draw(100, 5);
  const auto unsure = cost::choose_programs(p.pool(), {}, 1, {.sampler = Sampler::kAlt});
  CHECK(p.spreads[static_cast<size_t>(unsure.at(0))] == *std::max_element(p.spreads.begin(), p.spreads.end()));
  // Mean distance to the nearest chosen program: balto spreads them more than chance does.
  const auto gap = [&](const std::vector<int64_t>& picks) {
    double sum = 0;
    for (int64_t i : picks) {
      double nearest = 1e30;
      for (int64_t j : picks)
        if (i != j)
          nearest = std::min<double>(nearest, std::hypot(p.features[2 * i] - p.features[2 * j],
                                                         p.features[2 * i + 1] - p.features[2 * j + 1]));
      sum += nearest;
    }
    return sum;
  };
  CHECK(gap(cost::choose_programs(p.pool(), {}, 12, {.sampler = Sampler::kBalto})) >
        gap(cost::choose_programs(p.pool(), {}, 12, {.sampler = Sampler::kRandom})));
}

TEST_CASE("a budget is split by largest remainders") {
  CHECK(cost::split_budget(10, std::vector<int64_t>{50, 30, 20}) == std::vector<int64_t>{5, 3, 2});
  CHECK(cost::split_budget(3, std::vector<int64_t>{10, 10, 10, 1}) == std::vector<int64_t>{1, 1, 1, 0});
  CHECK(cost::split_budget(100, std::vector<int64_t>{4, 0, 2}) == std::vector<int64_t>{4, 0, 2});
  CHECK(cost::split_budget(5, std::vector<int64_t>{0, 0}) == std::vector<int64_t>{0, 0});
  const auto parts = cost::split_budget(17, std::vector<int64_t>{3, 40, 2, 7});
  CHECK(std::accumulate(parts.begin(), parts.end(), int64_t{0}) == 17);
}

TEST_CASE("an unknown sampler is named with the nearest one") {
  CHECK(cost::find_sampler("balto").value() == Sampler::kBalto);
  const auto unknown = cost::find_sampler("rdus");
  REQUIRE(!unknown);
  CHECK_THAT(unknown.error().hint, Catch::Contains("rdu"));
}
