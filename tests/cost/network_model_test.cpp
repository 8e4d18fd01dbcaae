// Networks as cost models of a search: their state is a function of the records, their scores of the program alone.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <memory>

#include "tcc/cost/network_model.h"
#include "tcc/features/features.h"
#include "tcc/nn/checkpoint.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

using namespace tcc;

namespace {

std::unique_ptr<cost::CostModel> make(const std::string& name, const std::string& pretrained = "",
                                      cost::Adaptation adaptation = cost::Adaptation::kMoa) {
  auto model =
      cost::make_model({.name = name, .pretrained = pretrained, .adaptation = adaptation}, cost::make_rule_model());
  if (!model) FAIL(model.error().message);
  return std::move(*model);
}

// Programs with random tables; the seconds depend on one column.
struct Measured {
  std::vector<features::Sample> programs;
  cost::Samples samples{.rows = features::Rows(features::kHotStatement)};
};
Measured draw(const cost::CostModel& model, size_t n, uint64_t seed = 3) {
  Measured out;
  Rng rng(seed);
  for (size_t i = 0; i < n; ++i) {
    features::Sample& s = out.programs.emplace_back();
    s.row.schema = &model.schema();
    for (size_t c = 0; c < model.schema().columns.size(); ++c)
      s.row.values.push_back(static_cast<float>(rng.uniform()));
    for (const features::Table* t : model.tables()) {
      const int64_t rows = t->padded ? t->max_rows : 1 + rng.below(3);
      auto& values = s.tables.emplace_back();
      for (int64_t v = 0; v < rows * std::ssize(t->columns); ++v) values.push_back(static_cast<float>(rng.uniform()));
    }
  }
  for (size_t i = 0; i < n; ++i) {
    const features::Sample& s = out.programs[i];
    out.samples.rows.add(s.row.values);
    out.samples.tasks.push_back(i % 2);
    out.samples.records.push_back(static_cast<int64_t>(i) + 1);
    out.samples.seconds.push_back(i % 11 == 0 ? 0 : 1e-3 * (1 + static_cast<double>(s.tables[0][1])));
    out.samples.throughputs.push_back(0);
    out.samples.weights.push_back(1);
    out.samples.programs.push_back(&s);
  }
  return out;
}

// The first n of the samples.
cost::Samples first(const cost::Samples& all, size_t n) {
  cost::Samples out{.rows = features::Rows(features::kHotStatement)};
  for (size_t i = 0; i < n; ++i) out.rows.add(all.rows[i]);
  const auto cut = [n](auto& to, const auto& from) { to.assign(from.begin(), from.begin() + static_cast<int64_t>(n)); };
  cut(out.tasks, all.tasks), cut(out.records, all.records), cut(out.seconds, all.seconds);
  cut(out.throughputs, all.throughputs), cut(out.weights, all.weights), cut(out.programs, all.programs);
  return out;
}

std::vector<float> scores_of(const cost::CostModel& model, const Measured& data) {
  features::Batch batch;
  for (const features::Sample& s : data.programs) batch.add(s);
  std::vector<float> scores(batch.size());
  model.predict(batch, scores);
  return scores;
}

}  // namespace

TEST_CASE("networks learn the same from all records at once as from one round after the other") {
  for (const char* name : {"mlp", "pacm", "mamba"}) {
    INFO(name);
    const auto at_once = make(name), by_rounds = make(name);
    const Measured data = draw(*at_once, 40);
    CHECK(!at_once->trained());
    at_once->update(data.samples);
    for (size_t n : {5, 17, 18, 31, 40}) by_rounds->update(first(data.samples, n));
    CHECK(at_once->trained());
    CHECK(scores_of(*at_once, data) == scores_of(*by_rounds, data));
  }
}

TEST_CASE("a network's score of a program depends on no other program") {
  const auto model = make("pacm");
  const Measured data = draw(*model, 30);
  model->update(data.samples);
  const std::vector<float> together = scores_of(*model, data);
  for (size_t i : {0, 7, 29}) {
    features::Batch one;
    one.add(data.programs[i]);
    float score = 0;
    model->predict(one, {&score, 1});
    CHECK(score == together[i]);
  }
  // A program of which only the row is known ranks behind all others.
  features::Batch unknown;
  unknown.add(model->schema(), data.programs[0].row.values);
  float score = 0;
  model->predict(unknown, {&score, 1});
  CHECK(score < *std::min_element(together.begin(), together.end()));
}

TEST_CASE("a network learns which programs are fast") {
  const auto model = make("mlp");
  const Measured data = draw(*model, 160);
  model->update(data.samples);
  const std::vector<float> scores = scores_of(*model, data);
  int right = 0, all = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      if (data.samples.seconds[i] == 0 || data.samples.seconds[j] == 0 || i % 2 != j % 2) continue;
      ++all, right += (data.samples.seconds[i] < data.samples.seconds[j]) == (scores[i] > scores[j]) ? 1 : 0;
    }
  CHECK(right > all * 8 / 10);
}

TEST_CASE("in the paper's form networks have its shapes and numbers of parameters") {
  struct Case {
    const char* network;
    const features::Table& trace;
    int64_t rows, columns, parameters;
  };
  const Case cases[] = {
      {"mlp", features::kTraceCpu, 0, 174, 242433},       {"pacm", features::kTraceCpu, 0, 174, 417409},
      {"tlp", features::kTraceCpu, 25, 22, 610369},       {"mamba", features::kTraceCpu, 26, 22, 92353},
      {"mlp", features::kTraceGpu, 0, 174, 242433},       {"tlp", features::kTraceGpu, 40, 20, 610369 - 128},
      {"mamba", features::kTraceGpu, 41, 20, 92353 - 128}};
  auto folder = TemporaryDirectory::create("tcc-network-model-");
  REQUIRE(folder.has_value());
  for (const Case& c : cases) {
    INFO(c.network << " " << c.columns);
    const cost::NetworkKind& kind = *cost::find_network(c.network);
    const cost::NetworkInputs inputs = cost::network_inputs(kind, c.trace, cost::Form::kPaper);
    CHECK(inputs.tables[0]->max_rows == c.rows);
    CHECK(std::ssize(inputs.tables[0]->columns) == c.columns);
    const auto network = nn::Model::create(inputs.config, 5);
    REQUIRE(network.has_value());
    CHECK(network->num_parameters() == c.parameters);
    // A checkpoint knows its form, and a search reads it.
    const std::string path = fmt::format("{}/{}-{}.tccnet", folder->get()->path(), c.network, c.columns);
    REQUIRE(nn::save_checkpoint(path, *network, {inputs.features, "test", "drawn"}).has_value());
    const auto stored = nn::load_checkpoint(path);
    REQUIRE(stored.has_value());
    CHECK(cost::inputs_of_checkpoint(*stored, kind, c.trace, path)->features == inputs.features);
    CHECK(*cost::network_of_checkpoint(path) == &kind);
    const auto model =
        cost::make_model({.name = c.network, .pretrained = path, .trace = &c.trace}, cost::make_rule_model());
    REQUIRE(model.has_value());
    CHECK(std::ranges::equal((*model)->tables(), inputs.tables));
    const Measured data = draw(**model, 40);
    const std::vector<float> before = scores_of(**model, data);
    (*model)->update(data.samples);
    CHECK(scores_of(**model, data) != before);
  }
  CHECK(*cost::find_form("paper") == cost::Form::kPaper);
  const auto wrong = cost::find_form("papr");
  REQUIRE(!wrong);
  CHECK_THAT(wrong.error().message + wrong.error().hint, Catch::Contains("'papr'") && Catch::Contains("paper"));
}

TEST_CASE("a checkpoint begins a search, and its adaptation is part of the model's identity") {
  auto folder = TemporaryDirectory::create("tcc-network-model-");
  REQUIRE(folder.has_value());
  const std::string path = std::string(folder->get()->path()) + "/mlp.tccnet";
  const cost::NetworkInputs inputs = cost::network_inputs(*cost::find_network("mlp"), features::kTraceCpu);
  auto network = nn::Model::create(inputs.config, 5);
  REQUIRE(network.has_value());
  REQUIRE(nn::save_checkpoint(path, *network, {inputs.features, "test", "drawn"}).has_value());
  const auto moa = make("mlp", path), tuned = make("mlp", path, cost::Adaptation::kFineTune),
             fixed = make("mlp", path, cost::Adaptation::kNone);
  CHECK(moa->trained());
  CHECK(moa->checkpoint() != 0);
  CHECK(moa->checkpoint() != tuned->checkpoint());
  // Enough for two trainings: after the first one the two ways have the same network.
  const Measured data = draw(*moa, 72);
  const std::vector<float> before = scores_of(*fixed, data);
  CHECK(scores_of(*moa, data) == before);
  for (cost::CostModel* model : {moa.get(), tuned.get(), fixed.get()}) model->update(data.samples);
  CHECK(scores_of(*fixed, data) == before);
  CHECK(scores_of(*moa, data) != before);
  CHECK(scores_of(*tuned, data) != scores_of(*moa, data));

  const auto wrong = cost::make_model({.name = "pacm", .pretrained = path}, cost::make_rule_model());
  REQUIRE(!wrong);
  CHECK_THAT(wrong.error().message, Catch::Contains("features"));
  const auto trees = cost::make_model({.name = "trees", .pretrained = path}, cost::make_rule_model());
  REQUIRE(!trees);
  CHECK_THAT(trees.error().message, Catch::Contains("'trees' has no checkpoints"));
  const auto missing = cost::make_model({.name = "mlp", .pretrained = path + ".no"}, cost::make_rule_model());
  CHECK(!missing);
}

TEST_CASE("a checkpoint whose network reads other widths than its features is refused", "[errors]") {
  auto folder = TemporaryDirectory::create("tcc-network-model-");
  REQUIRE(folder.has_value());
  const std::string path = std::string(folder->get()->path()) + "/hostile.tccnet";
  for (const char* name : {"mlp", "pacm", "tlp", "mamba"}) {
    INFO(name);
    const cost::NetworkInputs inputs = cost::network_inputs(*cost::find_network(name), features::kTraceCpu);
    nn::Config hostile = inputs.config;
    (hostile.architecture == nn::Architecture::kMamba ? hostile.hardware_width
     : hostile.architecture == nn::Architecture::kTlp ? hostile.sequence_width
     : hostile.architecture == nn::Architecture::kMlp ? hostile.statement_width
                                                      : hostile.dataflow_width) += 8;
    auto network = nn::Model::create(hostile, 5);
    REQUIRE(network.has_value());
    REQUIRE(nn::save_checkpoint(path, *network, {inputs.features, "test", "drawn"}).has_value());
    const auto model = cost::make_model({.name = name, .pretrained = path}, cost::make_rule_model());
    REQUIRE(!model);
    CHECK(model.error().cls == ErrorClass::kInput);
    CHECK_THAT(model.error().message, Catch::Contains("columns"));
  }
}

TEST_CASE("a network whose training diverges says so and keeps its parameters", "[errors]") {
  const auto model = make("mlp");
  Measured data = draw(*model, 40);
  CHECK(model->trouble().empty());
  model->update(first(data.samples, 20));
  CHECK(model->trouble().empty());
  for (features::Sample& s : data.programs)
    for (float& value : s.tables[0]) value = std::numeric_limits<float>::quiet_NaN();
  model->update(data.samples);
  CHECK(!model->trouble().empty());
}
