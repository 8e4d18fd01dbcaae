#include <catch2/catch.hpp>
#include <limits>

#include "tcc/cost/ranking_metrics.h"

using namespace tcc;

TEST_CASE("top-k is a ratio of weighted sums over tasks") {
  const double a[] = {4, 1, 2}, b[] = {10, 5, 20};
  const float by_a[] = {3, 1, 2}, by_b[] = {1, 2, 3};
  const cost::RankedTask tasks[] = {{a, by_a, 2}, {b, by_b, 1}};
  // The first choices take 4 and 20 seconds, the best ones 1 and 5.
  CHECK(cost::top_k(tasks, 1) == Approx((2 * 1 + 5) / (2 * 4 + 20.0)));
  CHECK(cost::top_k(tasks, 2) == Approx((2 * 1 + 5) / (2 * 2 + 5.0)));
  CHECK(cost::top_k(tasks, 3) == Approx(1));
  CHECK(cost::top_k({}, 1) == 0);
}

TEST_CASE("failures are never the best, and a choice of failures counts as the slowest program") {
  const double none = std::numeric_limits<double>::infinity();
  const double seconds[] = {0, none, 2, 6};
  const float scores[] = {9, 8, 1, 2};
  const cost::RankedTask tasks[] = {{seconds, scores}};
  CHECK(cost::top_k(tasks, 1) == Approx(2.0 / 6));
  CHECK(cost::top_k(tasks, 3) == Approx(2.0 / 6));
  CHECK(cost::top_k(tasks, 4) == Approx(1));
  const double failed[] = {none, 0};
  const float any[] = {1, 2};
  const cost::RankedTask empty[] = {{failed, any}};
  CHECK(cost::top_k(empty, 1) == 0);
}

TEST_CASE("equal scores keep the order of the programs") {
  const double seconds[] = {3, 1};
  const float scores[] = {5, 5};
  const cost::RankedTask tasks[] = {{seconds, scores}};
  CHECK(cost::top_k(tasks, 1) == Approx(1.0 / 3));
  CHECK(cost::pair_accuracy(tasks) == Approx(0.5));
}

TEST_CASE("best-k looks at the k-th best program of a chosen set") {
  const double seconds[] = {8, 1, 2, 4};
  const float scores[] = {0, 0, 0, 0};
  const cost::RankedTask tasks[] = {{seconds, scores}};
  const std::vector<int64_t> chosen[] = {{0, 2, 3}};
  CHECK(cost::best_k(tasks, chosen, 1) == Approx(1.0 / 2));
  CHECK(cost::best_k(tasks, chosen, 2) == Approx(1.0 / 4));
  CHECK(cost::best_k(tasks, chosen, 3) == Approx(1.0 / 8));
  CHECK(cost::best_k(tasks, chosen, 4) == 0);
}

TEST_CASE("the share of pairs in order") {
  const double seconds[] = {1, 2, 3};
  const float right[] = {3, 2, 1}, wrong[] = {1, 2, 3}, half[] = {3, 1, 2};
  const auto share = [&](std::span<const float> scores) {
    const cost::RankedTask task[] = {{seconds, scores}};
    return cost::pair_accuracy(task);
  };
  CHECK(share(right) == 1);
  CHECK(share(wrong) == 0);
  CHECK(share(half) == Approx(2.0 / 3));
}
