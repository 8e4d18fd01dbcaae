#include "tcc/cost/cost_model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "tcc/features/features.h"
#include "tcc/support/rng.h"

using namespace tcc;
using features::Feature;

namespace {

struct Data {
  std::vector<float> rows, throughputs;
  std::vector<uint64_t> tasks;
  cost::Samples samples() { return {{rows.data(), throughputs.size(), features::kCount}, throughputs, tasks}; }
};

// Speeds that depend on three features in a way the rule does not know.
Data make(size_t n, uint64_t seed) {
  Data d;
  Rng rng(seed);
  for (size_t i = 0; i < n; ++i) {
    features::Row row;
    for (float& v : row) v = static_cast<float>(rng.uniform());
    double slow = 1 + 4 * row[size_t(Feature::touched_middle)] + (row[size_t(Feature::copy_bytes)] > 0.5f ? 3 : 0) +
                  2 * std::fabs(row[size_t(Feature::level_l2)] - 0.5);
    d.rows.insert(d.rows.end(), row.begin(), row.end());
    d.throughputs.push_back(static_cast<float>(1 / slow));
    d.tasks.push_back(i % 3);
  }
  return d;
}

std::vector<float> scores_of(const cost::CostModel& model, Data& d) {
  std::vector<float> scores(d.throughputs.size());
  model.predict(d.samples().features, scores);
  return scores;
}

}  // namespace

TEST_CASE("the tree model learns what it has not been told, and beats random") {
  Data train = make(400, 1), test = make(300, 2);
  auto model = cost::make_tree_model();
  CHECK(!model->trained());
  model->update(train.samples());
  CHECK(model->trained());
  double learned = cost::pair_accuracy(scores_of(*model, test), test.throughputs, test.tasks);
  double random = cost::pair_accuracy(scores_of(*cost::make_random_model(3), test), test.throughputs, test.tasks);
  CHECK(learned > 0.85);
  CHECK(random < 0.6);
}

TEST_CASE("the same samples give the same model, and few samples give the rule") {
  Data train = make(200, 4), test = make(50, 5);
  auto x = cost::make_tree_model(), y = cost::make_tree_model();
  x->update(train.samples());
  y->update(make(120, 9).samples());
  y->update(train.samples());
  CHECK(scores_of(*x, test) == scores_of(*y, test));
  Data few = make(15, 6);
  x->update(few.samples());
  CHECK(!x->trained());
  CHECK(scores_of(*x, test) == scores_of(*cost::make_rule_model(), test));
}

TEST_CASE("the model is less sure of what it has not seen, and heavier samples count more") {
  Data train = make(200, 4), test = make(60, 5);
  auto model = cost::make_tree_model();
  model->update(train.samples());
  std::vector<float> scores(60), spreads(60), seen(200), seen_spreads(200);
  model->predict_spread(test.samples().features, scores, spreads);
  model->predict_spread(train.samples().features, seen, seen_spreads);
  CHECK(scores == scores_of(*model, test));
  auto mean = [](const std::vector<float>& v) {
    return std::accumulate(v.begin(), v.end(), 0.f) / static_cast<float>(v.size());
  };
  CHECK(mean(spreads) > 0);
  cost::make_rule_model()->predict_spread(test.samples().features, scores, spreads);
  CHECK(mean(spreads) == 0);

  // Two halves that contradict each other: the heavier one is believed.
  Data twice = train;
  twice.rows.insert(twice.rows.end(), train.rows.begin(), train.rows.end());
  twice.tasks.insert(twice.tasks.end(), train.tasks.begin(), train.tasks.end());
  for (float t : train.throughputs) twice.throughputs.push_back(0.04f / t);
  std::vector<float> weights(400, 1.f);
  std::fill(weights.begin() + 200, weights.end(), 0.01f);
  cost::Samples samples = twice.samples();
  samples.weights = weights;
  model->update(samples);
  CHECK(cost::pair_accuracy(scores_of(*model, test), test.throughputs, test.tasks) > 0.7);
}

TEST_CASE("few samples of the task at hand correct what many of other tasks say") {
  // The others' speeds in reverse.
  auto reversed = [](Data d) {
    for (float& t : d.throughputs) t = 0.04f / t;
    std::fill(d.tasks.begin(), d.tasks.end(), 7);
    return d;
  };
  const Data others = make(400, 4), own = reversed(make(32, 5));
  Data test = reversed(make(300, 6)), all = others;
  all.rows.insert(all.rows.end(), own.rows.begin(), own.rows.end());
  all.throughputs.insert(all.throughputs.end(), own.throughputs.begin(), own.throughputs.end());
  all.tasks.insert(all.tasks.end(), own.tasks.begin(), own.tasks.end());
  auto accuracy = [&](const cost::CostModel& model) {
    return cost::pair_accuracy(scores_of(model, test), test.throughputs, test.tasks);
  };
  auto together = cost::make_tree_model(), apart = cost::make_tree_model();
  together->update(all.samples());
  cost::Samples samples = all.samples();
  samples.task = 7;
  apart->update(samples);
  CHECK(accuracy(*together) < 0.35);
  CHECK(accuracy(*apart) > accuracy(*together) + 0.15);

  // What it was asked before makes no difference.
  const std::vector<float> scores = scores_of(*apart, test);
  Data before = others;
  cost::Samples first = before.samples();
  first.task = 7;
  auto again = cost::make_tree_model();
  again->update(first);
  CHECK(scores_of(*again, test) != scores);
  again->update(samples);
  CHECK(scores_of(*again, test) == scores);
  again->update(make(100, 8).samples());
  again->update(samples);
  CHECK(scores_of(*again, test) == scores);
}

TEST_CASE("failed programs and identical rows do no harm") {
  Data d = make(40, 7);
  for (size_t i = 0; i < 40; ++i) d.throughputs[i] = i % 2 ? 0.f : 1.f;
  for (float& v : d.rows) v = 1;
  auto model = cost::make_tree_model();
  model->update(d.samples());
  for (float s : scores_of(*model, d)) CHECK(std::isfinite(s));
}

TEST_CASE("pair accuracy") {
  std::vector<float> scores = {3, 2, 1, 9}, speeds = {1, 0.5f, 0.2f, 0.1f};
  std::vector<uint64_t> tasks = {0, 0, 0, 1};
  CHECK(cost::pair_accuracy(scores, speeds, tasks) == 1);
  std::vector<float> reversed = {1, 2, 3, 9};
  CHECK(cost::pair_accuracy(reversed, speeds, tasks) == 0);
}
