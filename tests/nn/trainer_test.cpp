#include "tcc/nn/trainer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "nn/synthetic.h"

using namespace tcc;
using namespace tcc::nn;

namespace {

TrainOptions quick(int64_t epochs) {
  TrainOptions o;
  o.batch = 64;
  o.epochs = epochs;
  o.rate = 2e-3;
  return o;
}

Model new_model(const Config& c, uint64_t seed = 3) {
  return std::move(*Model::create(c, seed));
}

TrainReport fit(Model& model, const Dataset& data, const Dataset* validation, const TrainOptions& options,
                ThreadPool* pool = nullptr, const TrainHooks& hooks = {}) {
  auto trainer = Trainer::create(model, data, validation, options, pool);
  REQUIRE(trainer.has_value());
  return trainer->run(hooks);
}

bool same(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace

TEST_CASE("each network learns a small ranking") {
  const auto architecture = GENERATE(Architecture::kMlp, Architecture::kTlp, Architecture::kPacm, Architecture::kMamba);
  const Config config{.architecture = architecture,
                      .statement_width = 12,
                      .sequence_width = 8,
                      .dataflow_width = 6,
                      .hardware_width = 2};
  const Samples train = synthetic(config, 6, 40, 1), held_out = synthetic(config, 4, 40, 2),
                few = synthetic(config, 2, 25, 3);
  Model model = new_model(config), learned_by_heart = new_model(config);
  const double before = pairs_right(model, held_out);
  const TrainReport report = fit(model, train, nullptr, quick(architecture == Architecture::kTlp ? 25 : 40));
  INFO(architecture_name(architecture) << ": before " << before << ", " << report.message);
  CHECK(report.end == TrainEnd::kDone);
  CHECK(report.history.back().loss < report.history.front().loss);
  CHECK(before < 0.6);
  CHECK(pairs_right(model, train) > 0.86);
  CHECK(pairs_right(model, held_out) > 0.8);
  // A few programs are learned by heart.
  TrainOptions longer = quick(architecture == Architecture::kTlp ? 150 : 400);
  longer.rate = 1e-3;
  longer.batch = 25;
  longer.schedule = {.kind = ScheduleKind::kCosine, .period = longer.epochs};
  fit(learned_by_heart, few, nullptr, longer);
  CHECK(pairs_right(learned_by_heart, few) > 0.95);
}

TEST_CASE("training by MSE, by task, and by SGD learns as well") {
  TrainOptions options = quick(60);
  SECTION("mse") {
    options.loss.kind = LossKind::kMse;
  }
  SECTION("by task") {
    options.loss.per_task = true;
  }
  SECTION("sgd") {
    options.optimizer = OptimizerKind::kSgd;
    options.rate = 0.05;
    options.momentum = 0.9;
  }
  SECTION("cosine") {
    options.schedule = {.kind = ScheduleKind::kCosine, .period = 60};
  }
  const Samples train = synthetic(kTinyMlp, 6, 40, 1), held_out = synthetic(kTinyMlp, 4, 40, 2);
  Model model = new_model(kTinyMlp);
  fit(model, train, nullptr, options);
  CHECK(pairs_right(model, held_out) > 0.85);
}

TEST_CASE("schedules of the rate") {
  CHECK(Schedule{}.rate(2, 99) == 2);
  const Schedule step{.kind = ScheduleKind::kStep, .period = 5, .factor = 0.5};
  CHECK(step.rate(2, 4) == 2);
  CHECK(step.rate(2, 5) == 1);
  CHECK(step.rate(2, 14) == 0.5);
  const Schedule cosine{.kind = ScheduleKind::kCosine, .period = 10};
  CHECK(cosine.rate(2, 0) == 2);
  CHECK(cosine.rate(2, 5) == Approx(1));
  CHECK(cosine.rate(2, 10) == 2);
}

TEST_CASE("Adam makes the steps of its definition") {
  // One linear layer, one parameter followed by hand: loss = mean (w x - y)^2 with all x = 1 and y = 0.
  Config config = kTinyMlp;
  Samples data = synthetic(config, 1, 4, 1);
  Model model = new_model(config);
  TrainOptions options = quick(1);
  options.loss.kind = LossKind::kMse;
  options.batch = 4;
  options.rate = 0.01;
  options.weight_decay = 0;
  options.clip = 0;
  const std::vector<float> before(model.parameters().begin(), model.parameters().end());
  fit(model, data, nullptr, options);
  // The first step of Adam is rate * sign(gradient) for every parameter whose gradient is far from epsilon.
  int64_t moved = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double step = std::fabs(static_cast<double>(model.parameters()[i]) - static_cast<double>(before[i]));
    CHECK(step < 0.01 * 1.001);
    moved += step > 0.0099;
  }
  CHECK(moved > static_cast<int64_t>(before.size()) / 8);
}

TEST_CASE("training is the same with any number of threads") {
  ThreadPool two(2), three(3);
  for (Architecture a : {Architecture::kMlp, Architecture::kPacm, Architecture::kMamba}) {
    const Config config{
        .architecture = a, .statement_width = 12, .sequence_width = 8, .dataflow_width = 6, .dropout = 0.1};
    const Samples train = synthetic(config, 5, 41, 1);
    std::vector<float> reference;
    for (ThreadPool* pool : {static_cast<ThreadPool*>(nullptr), &two, &three}) {
      Model model = new_model(config);
      fit(model, train, nullptr, quick(3), pool);
      if (!pool) reference.assign(model.parameters().begin(), model.parameters().end());
      INFO(architecture_name(a));
      CHECK(same(reference, model.parameters()));
    }
  }
}

TEST_CASE("an interrupted training goes on to the same bits") {
  const Config config{.architecture = Architecture::kPacm, .statement_width = 12, .dataflow_width = 6, .dropout = 0.1};
  const Samples train = synthetic(config, 5, 40, 1), validation = synthetic(config, 2, 30, 5);
  Model whole = new_model(config);
  const TrainReport reference = fit(whole, train, &validation, quick(6));
  // The process ends in the middle of an epoch, again and again, and another one loads the state.
  std::string state;
  Model model = new_model(config);
  for (int run = 0;; ++run) {
    REQUIRE(run < 30);
    Model fresh = new_model(config);
    auto trainer = Trainer::create(fresh, train, &validation, quick(6), nullptr);
    REQUIRE(trainer.has_value());
    if (!state.empty()) REQUIRE(trainer->load_state(state).has_value());
    int batches = 0;
    const TrainReport report = trainer->run({.interrupted = [&] { return ++batches == 6; }});
    state = trainer->save_state();
    if (report.end == TrainEnd::kInterrupted) {
      CHECK(report.message.find("can be continued") != std::string::npos);
      continue;
    }
    CHECK(run >= 3);
    CHECK(same(fresh.parameters(), whole.parameters()));
    CHECK(same(fresh.buffers(), whole.buffers()));
    CHECK(report.best == reference.best);
    CHECK(report.best_epoch == reference.best_epoch);
    break;
  }
}

TEST_CASE("a damaged state or that of another training is an error") {
  const Samples train = synthetic(kTinyMlp, 2, 30, 1);
  Model model = new_model(kTinyMlp);
  auto trainer = Trainer::create(model, train, nullptr, quick(2), nullptr);
  trainer->run();
  const std::string state = trainer->save_state();
  CHECK(trainer->load_state(state).has_value());
  CHECK(trainer->load_state("").error().message.find("not the state") != std::string::npos);
  Rng rng(1);
  for (int i = 0; i < 200; ++i) {
    std::string bad = state;
    if (i % 2)
      bad.resize(static_cast<size_t>(rng.below(static_cast<int64_t>(bad.size()))));
    else
      bad[static_cast<size_t>(rng.below(static_cast<int64_t>(bad.size())))] ^= static_cast<char>(1 + rng.below(255));
    CHECK(!trainer->load_state(bad).has_value());
  }
  TrainOptions other = quick(2);
  other.rate = 1;
  auto second = Trainer::create(model, train, nullptr, other, nullptr);
  CHECK(second->load_state(state).error().message.find("other options") != std::string::npos);
}

TEST_CASE("training keeps the best epoch and tells its progress") {
  const Samples train = synthetic(kTinyMlp, 4, 40, 1);
  Model model = new_model(kTinyMlp);
  std::vector<std::vector<float>> seen;
  std::vector<Progress> told;
  TrainHooks hooks;
  // A judge that likes the third epoch.
  hooks.judge = [&](const Model& m) {
    seen.emplace_back(m.parameters().begin(), m.parameters().end());
    return seen.size() == 3 ? 0.0 : 1.0;
  };
  hooks.progress = [&](const Progress& p) { told.push_back(p); };
  TrainOptions options = quick(20);
  options.patience = 5;
  const TrainReport report = fit(model, train, nullptr, options, nullptr, hooks);
  CHECK(report.end == TrainEnd::kPatience);
  CHECK(report.best_epoch == 3);
  CHECK(report.history.size() == 8);
  CHECK(same(model.parameters(), seen[2]));
  REQUIRE(told.size() == 8);
  CHECK(told[7].last.epoch == 8);
  CHECK(told[7].epochs == 20);
  CHECK(told[7].best_epoch == 3);
  CHECK(told[7].seconds_left > 0);
}

TEST_CASE("a training that diverges stops and keeps the best parameters") {
  Samples train = synthetic(kTinyMlp, 4, 40, 1);
  Model model = new_model(kTinyMlp);
  TrainHooks hooks;
  std::vector<float> best;
  // Features become infinite after the second epoch.
  hooks.progress = [&](const Progress& p) {
    if (p.last.epoch != 2) return;
    best.assign(model.parameters().begin(), model.parameters().end());
    const_cast<float*>(train.batch().statements.rows)[5] = std::numeric_limits<float>::infinity();
  };
  hooks.judge = [n = 0](const Model&) mutable { return 1.0 / ++n; };
  const TrainReport report = fit(model, train, nullptr, quick(10), nullptr, hooks);
  CHECK(report.end == TrainEnd::kDiverged);
  CHECK(report.message.find("training stopped in epoch 3") != std::string::npos);
  CHECK(report.message.find("the parameters of epoch 2 are kept") != std::string::npos);
  CHECK(same(model.parameters(), best));

  Model fresh = new_model(kTinyMlp);
  const std::vector<float> first(fresh.parameters().begin(), fresh.parameters().end());
  const TrainReport none = fit(fresh, train, nullptr, quick(10));
  CHECK(none.message.find("from before the training are kept") != std::string::npos);
  CHECK(same(fresh.parameters(), first));
}

TEST_CASE("data that a network cannot train on is an error") {
  Model model = new_model(kTinyMlp);
  const Samples empty(kTinyMlp);
  CHECK(Trainer::create(model, empty, nullptr, quick(1), nullptr).error().message.find("with samples, found none") !=
        std::string::npos);
  Config wide = kTinyMlp;
  wide.statement_width = 13;
  const Samples other = synthetic(wide, 1, 4, 1);
  CHECK(Trainer::create(model, other, nullptr, quick(1), nullptr).error().message ==
        "the network 'mlp' reads statement rows of 12 columns, but the data has 13");
  Config heads = kTinyMlp;
  heads.heads = 2;
  const Samples two = synthetic(heads, 1, 4, 1);
  CHECK(Trainer::create(model, two, nullptr, quick(1), nullptr).error().message.find("1 heads") != std::string::npos);
}

TEST_CASE("failed programs alone make no pair and change nothing") {
  Samples data = synthetic(kTinyMlp, 2, 20, 1);
  for (float& label : data.labels()) label = 0;
  Model model = new_model(kTinyMlp);
  TrainOptions options = quick(2);
  options.weight_decay = 0;
  const std::vector<float> before(model.parameters().begin(), model.parameters().end());
  const TrainReport report = fit(model, data, nullptr, options);
  CHECK(report.end == TrainEnd::kDone);
  CHECK(report.history.back().loss == 0);
  CHECK(same(model.parameters(), before));
}

TEST_CASE("inputs are scaled by their largest magnitude") {
  Samples data(kTinyMlp);
  std::vector<float> row(12);
  row[0] = -4;
  row[1] = 0.5f;
  const float label = 1;
  data.add({row, {}, std::vector<float>(23), {}}, {&label, 1}, 0);
  const InputScale scale = input_scale(data);
  CHECK(scale.statements[0] == 0.25f);
  CHECK(scale.statements[1] == 2);
  CHECK(scale.statements[2] == 1);
  Model model = new_model(kTinyMlp);
  model.set_input_scale(scale.statements, scale.sequences, scale.dataflow);
  CHECK(model.buffers()[0] == 0.25f);
}

TEST_CASE("splits are disjoint, whole and repeatable") {
  const Split a = random_split(100, 0.1, 7), b = random_split(100, 0.1, 7);
  CHECK(a.chosen == b.chosen);
  CHECK(a.chosen.size() == 10);
  std::vector<int64_t> all = a.rest;
  all.insert(all.end(), a.chosen.begin(), a.chosen.end());
  std::sort(all.begin(), all.end());
  for (int64_t i = 0; i < 100; ++i) CHECK(all[static_cast<size_t>(i)] == i);
}
