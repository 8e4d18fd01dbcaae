#include "tcc/nn/loss.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "nn/random_batch.h"

using namespace tcc;
using namespace tcc::nn;

namespace {

// The definition, pair by pair.
double naive_rank(const std::vector<double>& s, const std::vector<float>& y, double sigma) {
  const size_t n = s.size();
  auto gain = [](double label) { return std::exp2(label) - 1; };
  std::vector<double> sorted(y.begin(), y.end());
  std::sort(sorted.rbegin(), sorted.rend());
  double most = 0, loss = 0;
  for (size_t p = 0; p < n; ++p) most += gain(sorted[p]) / std::log2(p + 2.0);
  auto position = [&](size_t i) {
    size_t p = 1;
    for (size_t j = 0; j < n; ++j) p += s[j] > s[i] || (s[j] == s[i] && j < i);
    return p;
  };
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      if (!(y[i] > y[j])) continue;
      const double w = std::fabs(gain(y[i]) - gain(y[j])) / most *
                       std::fabs(1 / std::log2(1.0 + position(i)) - 1 / std::log2(1.0 + position(j)));
      loss += w * std::log2(1 + std::exp(-sigma * (s[i] - s[j])));
    }
  return loss;
}

struct Drawn {
  std::vector<double> scores;
  std::vector<float> labels;
  std::vector<uint64_t> tasks;
};
Drawn draw(size_t n, uint64_t seed) {
  Rng rng(seed);
  Drawn d;
  for (size_t i = 0; i < n; ++i) {
    d.scores.push_back(4 * rng.uniform() - 2);
    // Some labels are equal, and some are 0.
    d.labels.push_back(rng.below(4) == 0 ? 0.f : static_cast<float>(1 + rng.below(50)) / 50);
    d.tasks.push_back(static_cast<uint64_t>(rng.below(3)));
  }
  return d;
}

}  // namespace

TEST_CASE("LambdaRank is the sum over pairs of its definition") {
  for (Level level : host_levels())
    for (size_t n : {1, 2, 5, 33, 100}) {
      const Drawn d = draw(n, n);
      std::vector<double> grads(n);
      const LossOptions options{.sigma = 1.5};
      const double expected = naive_rank(d.scores, d.labels, 1.5);
      CHECK(Loss<double>(options, level)(d.scores, d.labels, d.tasks, 1, grads) == Approx(expected).epsilon(1e-12));
      const std::vector<float> scores(d.scores.begin(), d.scores.end());
      std::vector<float> single(n);
      CHECK(Loss<float>(options, level)(scores, d.labels, d.tasks, 1, single) ==
            Approx(expected).epsilon(1e-5).margin(1e-6));
      for (size_t i = 0; i < n; ++i) CHECK(single[i] == Approx(grads[i]).epsilon(1e-3).margin(1e-5));

      // By task: the sum of the groups.
      double sum = 0;
      for (uint64_t task = 0; task < 3; ++task) {
        std::vector<double> s;
        std::vector<float> y;
        for (size_t i = 0; i < n; ++i)
          if (d.tasks[i] == task) s.push_back(d.scores[i]), y.push_back(d.labels[i]);
        if (!s.empty()) sum += naive_rank(s, y, 1);
      }
      Loss<double> grouped({.per_task = true}, level);
      CHECK(grouped(d.scores, d.labels, d.tasks, 1, grads) == Approx(sum).epsilon(1e-12).margin(1e-15));
    }
}

TEST_CASE("gradients of the losses are those of central differences") {
  // The weights of LambdaRank count as constants: they are constant while no score passes another one.
  for (Level level : host_levels())
    for (LossKind kind : {LossKind::kRank, LossKind::kMse}) {
      Drawn d = draw(60, 4);
      Loss<double> loss({.kind = kind, .sigma = 0.7}, level);
      std::vector<double> grads(60), ignored(60);
      loss(d.scores, d.labels, d.tasks, 1, grads);
      for (size_t i = 0; i < 60; ++i) {
        const double old = d.scores[i], step = 1e-6;
        d.scores[i] = old + step;
        const double up = loss(d.scores, d.labels, d.tasks, 1, ignored);
        d.scores[i] = old - step;
        const double down = loss(d.scores, d.labels, d.tasks, 1, ignored);
        d.scores[i] = old;
        CHECK(std::fabs(grads[i] - (up - down) / (2 * step)) < 1e-6);
      }
    }
}

TEST_CASE("losses of several heads skip labels that are absent") {
  const Drawn d = draw(40, 9);
  const float absent = std::numeric_limits<float>::quiet_NaN();
  for (LossKind kind : {LossKind::kRank, LossKind::kMse}) {
    Loss<double> loss({.kind = kind}, *host_level());
    std::vector<double> two, grads(80), first(40), second(20);
    std::vector<float> labels;
    std::vector<double> some;
    std::vector<float> some_labels;
    for (size_t i = 0; i < 40; ++i) {
      two.insert(two.end(), {d.scores[i], -d.scores[i]});
      labels.insert(labels.end(), {d.labels[i], i % 2 ? absent : d.labels[39 - i]});
      if (i % 2 == 0) some.push_back(-d.scores[i]), some_labels.push_back(d.labels[39 - i]);
    }
    const double both = loss(two, labels, d.tasks, 2, grads);
    const double a = loss(d.scores, d.labels, d.tasks, 1, first);
    const double b = loss(some, some_labels, std::span(d.tasks).first(20), 1, second);
    CHECK(both == Approx(a + b));
    for (size_t i = 0; i < 40; ++i) {
      CHECK(grads[2 * i] == first[i]);
      CHECK(grads[2 * i + 1] == (i % 2 ? 0 : second[i / 2]));
    }
  }
}
