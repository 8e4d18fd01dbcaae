#include "tcc/cost/cost_model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "cost/pair_accuracy.h"
#include "tcc/features/features.h"
#include "tcc/support/rng.h"

using namespace tcc;
using features::Feature;

namespace {

using Data = cost::Samples;

std::unique_ptr<cost::CostModel> model_named(std::string_view name) {
  auto model = cost::make_model({.name = std::string(name)}, cost::make_rule_model());
  REQUIRE(model.has_value());
  return std::move(*model);
}

Data joined(Data a, const Data& b) {
  for (size_t i = 0; i < b.rows.size(); ++i) a.rows.add(b.rows[i]);
  a.throughputs.insert(a.throughputs.end(), b.throughputs.begin(), b.throughputs.end());
  a.tasks.insert(a.tasks.end(), b.tasks.begin(), b.tasks.end());
  return a;
}

// Speeds that depend on three features in a way the rule does not know.
Data make(size_t n, uint64_t seed) {
  Data d{.rows = features::Rows(features::kHotStatement)};
  Rng rng(seed);
  for (size_t i = 0; i < n; ++i) {
    std::vector<float> row(d.rows.width());
    for (float& v : row) v = static_cast<float>(rng.uniform());
    double slow = 1 + 4 * row[size_t(Feature::touched_middle)] + (row[size_t(Feature::copy_bytes)] > 0.5f ? 3 : 0) +
                  2 * std::fabs(row[size_t(Feature::level_l2)] - 0.5);
    d.rows.add(row);
    d.throughputs.push_back(static_cast<float>(1 / slow));
    d.tasks.push_back(i % 3);
  }
  return d;
}

std::vector<float> scores_of(const cost::CostModel& model, const Data& d) {
  std::vector<float> scores(d.throughputs.size());
  model.predict(d.rows, scores);
  return scores;
}

}  // namespace

TEST_CASE("the tree model learns what it has not been told, and beats random") {
  Data train = make(400, 1), test = make(300, 2);
  auto model = model_named("trees");
  CHECK(!model->trained());
  model->update(train);
  CHECK(model->trained());
  double learned = test::pair_accuracy(scores_of(*model, test), test.throughputs, test.tasks);
  double random = test::pair_accuracy(scores_of(*model_named("random"), test), test.throughputs, test.tasks);
  CHECK(learned > 0.85);
  CHECK(random < 0.6);
}

TEST_CASE("the same samples give the same model, and few samples give the rule") {
  Data train = make(200, 4), test = make(50, 5);
  auto x = model_named("trees"), y = model_named("trees");
  x->update(train);
  y->update(make(120, 9));
  y->update(train);
  CHECK(scores_of(*x, test) == scores_of(*y, test));
  Data few = make(15, 6);
  x->update(few);
  CHECK(!x->trained());
  CHECK(scores_of(*x, test) == scores_of(*cost::make_rule_model(), test));
}

TEST_CASE("the model is less sure of what it has not seen, and heavier samples count more") {
  Data train = make(200, 4), test = make(60, 5);
  auto model = model_named("trees");
  model->update(train);
  std::vector<float> scores(60), spreads(60), seen(200), seen_spreads(200);
  model->predict_spread(test.rows, scores, spreads);
  model->predict_spread(train.rows, seen, seen_spreads);
  CHECK(scores == scores_of(*model, test));
  auto mean = [](const std::vector<float>& v) {
    return std::accumulate(v.begin(), v.end(), 0.f) / static_cast<float>(v.size());
  };
  CHECK(mean(spreads) > 0);
  cost::make_rule_model()->predict_spread(test.rows, scores, spreads);
  CHECK(mean(spreads) == 0);

  // Two halves that contradict each other: the heavier one is believed.
  Data twice = joined(train, train);
  for (size_t i = 200; i < 400; ++i) twice.throughputs[i] = 0.04f / twice.throughputs[i];
  std::vector<float> weights(400, 1.f);
  std::fill(weights.begin() + 200, weights.end(), 0.01f);
  twice.weights = weights;
  model->update(twice);
  CHECK(test::pair_accuracy(scores_of(*model, test), test.throughputs, test.tasks) > 0.7);
}

TEST_CASE("few samples of the task at hand correct what many of other tasks say") {
  // The others' speeds in reverse.
  auto reversed = [](Data d) {
    for (float& t : d.throughputs) t = 0.04f / t;
    std::fill(d.tasks.begin(), d.tasks.end(), 7);
    return d;
  };
  const Data others = make(400, 4), own = reversed(make(32, 5));
  Data test = reversed(make(300, 6)), all = joined(others, own);
  auto accuracy = [&](const cost::CostModel& model) {
    return test::pair_accuracy(scores_of(model, test), test.throughputs, test.tasks);
  };
  auto together = model_named("trees"), apart = model_named("trees");
  together->update(all);
  Data samples = all;
  samples.task = 7;
  apart->update(samples);
  CHECK(accuracy(*together) < 0.35);
  CHECK(accuracy(*apart) > accuracy(*together) + 0.15);

  // What it was asked before makes no difference.
  const std::vector<float> scores = scores_of(*apart, test);
  Data first = others;
  first.task = 7;
  auto again = model_named("trees");
  again->update(first);
  CHECK(scores_of(*again, test) != scores);
  again->update(samples);
  CHECK(scores_of(*again, test) == scores);
  again->update(make(100, 8));
  again->update(samples);
  CHECK(scores_of(*again, test) == scores);
}

TEST_CASE("failed programs and identical rows do no harm") {
  Data d = make(40, 7);
  for (size_t i = 0; i < 40; ++i) d.throughputs[i] = i % 2 ? 0.f : 1.f;
  d.rows = features::Rows(features::kHotStatement);
  for (size_t i = 0; i < 40; ++i) d.rows.add(std::vector<float>(d.rows.width(), 1.f));
  auto model = model_named("trees");
  model->update(d);
  for (float s : scores_of(*model, d)) CHECK(std::isfinite(s));
}

TEST_CASE("pair accuracy") {
  std::vector<float> scores = {3, 2, 1, 9}, speeds = {1, 0.5f, 0.2f, 0.1f};
  std::vector<uint64_t> tasks = {0, 0, 0, 1};
  CHECK(test::pair_accuracy(scores, speeds, tasks) == 1);
  std::vector<float> reversed = {1, 2, 3, 9};
  CHECK(test::pair_accuracy(reversed, speeds, tasks) == 0);
}

TEST_CASE("cost models are selected by name") {
  CHECK(scores_of(*model_named("prior"), make(20, 1)) == scores_of(*cost::make_rule_model(), make(20, 1)));
  CHECK(&model_named("random")->schema() == &features::kHotStatement);
  auto unknown = cost::make_model({.name = "forest"}, cost::make_rule_model());
  REQUIRE_FALSE(unknown.has_value());
  CHECK_THAT(unknown.error().message, Catch::Contains("unknown cost model 'forest'"));
  CHECK_THAT(unknown.error().hint, Catch::Contains("trees, linear, prior, random"));
}

TEST_CASE("the linear model learns sums of columns, and few samples give the prior") {
  // Twice as slow for each unit of two columns; tasks differ in scale.
  auto linear = [](size_t n, uint64_t seed) {
    Data d = make(n, seed);
    for (size_t i = 0; i < n; ++i) {
      const std::span<const float> row = d.rows[i];
      const float slow = 2 * row[size_t(Feature::touched_middle)] + 3 * row[size_t(Feature::level_l2)];
      d.throughputs[i] = std::exp2(-slow - static_cast<float>(d.tasks[i]) / 4);
    }
    return d;
  };
  const Data train = linear(800, 1), test = linear(200, 2), few = linear(15, 3);
  auto model = model_named("linear");
  model->update(few);
  CHECK(!model->trained());
  CHECK(scores_of(*model, test) == scores_of(*cost::make_rule_model(), test));
  model->update(train);
  CHECK(model->trained());
  CHECK(test::pair_accuracy(scores_of(*model, test), test.throughputs, test.tasks) > 0.85);
  auto again = model_named("linear");
  again->update(train);
  CHECK(scores_of(*again, test) == scores_of(*model, test));
}
