#include "tcc/nn/model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "nn/graph.h"
#include "nn/random_batch.h"

using namespace tcc;
using namespace tcc::nn;

namespace {

std::vector<Config> configs() {
  return {{.architecture = Architecture::kMlp},
          {.architecture = Architecture::kTlp},
          {.architecture = Architecture::kTlp, .hardware_width = 11, .heads = 3},
          {.architecture = Architecture::kPacm},
          {.architecture = Architecture::kMamba, .hardware_width = 11},
          {.architecture = Architecture::kMambaAdapter}};
}

Model model_of(const Config& c, Level level) {
  auto model = Model::create(c, 7, level);
  REQUIRE(model.has_value());
  return std::move(*model);
}

bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

TEST_CASE("the networks have the papers' numbers of parameters") {
  auto count = [](Config c) { return build_graph(c, 32).num_parameters; };
  CHECK(count({.architecture = Architecture::kMlp}) == 242433);   // TenSet-MLP: 242k
  CHECK(count({.architecture = Architecture::kTlp}) == 610369);   // with attention, without TLP's unused layer
  CHECK(count({.architecture = Architecture::kPacm}) == 417409);  // Pruner: 1.68 MB
  CHECK(count({.architecture = Architecture::kMamba}) == 92353);  // TCL: 0.35 MB
  // A head of MTL-TLP: 256 -> 256 -> 128 -> 64 -> 1.
  CHECK(count({.architecture = Architecture::kTlp, .heads = 3}) == 610369 + 2 * 107009);
  // Table 2 of TCL: Mamba's own parameters for d_state 16, expand 2 and d_conv 3.
  CHECK(count({.architecture = Architecture::kMamba, .states = 16}) - 92353 == 128 * 16 + 128 * 8);
  CHECK(count({.architecture = Architecture::kMamba, .taps = 3}) == 92353 - 128);
  // AC: KB, as much again, and V, c, U and alpha of each of the seven layers.
  int64_t lateral = 0;
  const int64_t widths[][2] = {{22, 64}, {64, 128}, {128, 128}, {128, 128}, {128, 64}, {64, 32}, {32, 1}};
  for (const auto& [in, out] : widths) lateral += in * out + out + out * out + out;
  CHECK(count({.architecture = Architecture::kMambaAdapter}) == 2 * 92353 + lateral);
}

TEST_CASE("a prediction depends neither on its batch nor on the threads") {
  ThreadPool two(2), three(3);
  for (Level level : host_levels())
    for (const Config& c : configs()) {
      const Model model = model_of(c, level);
      const RandomBatch data(c, 83, 5);
      std::vector<float> all(83), other(83);
      Workspace ws;
      model.predict(data.view(), all, ws);
      INFO(level_name(level) << " " << c.to_json());
      for (ThreadPool* pool : {&two, &three}) {
        Workspace threads;
        model.predict(data.view(), other, threads, pool);
        CHECK(std::memcmp(all.data(), other.data(), all.size() * sizeof(float)) == 0);
      }
      bool equal = true, finite = true, varied = false;
      for (int64_t first = 0, count = 1; first < 83; first += count, count = 1 + (count * 5) % 23) {
        count = std::min<int64_t>(count, 83 - first);
        model.predict(data.view(first, count), std::span(other).first(static_cast<size_t>(count)), ws);
        for (int64_t i = 0; i < count; ++i) {
          equal &= same_bits(other[static_cast<size_t>(i)], all[static_cast<size_t>(first + i)]);
          finite &= std::isfinite(other[static_cast<size_t>(i)]);
          varied |= other[static_cast<size_t>(i)] != all[0];
        }
      }
      CHECK(equal);
      CHECK(finite);
      CHECK(varied);
    }
}

TEST_CASE("levels agree up to rounding") {
  for (const Config& c : configs()) {
    const RandomBatch data(c, 20, 6);
    std::vector<std::vector<float>> scores;
    for (Level level : host_levels()) {
      const Model model = model_of(c, level);
      Workspace ws;
      scores.emplace_back(20);
      model.predict(data.view(), scores.back(), ws);
    }
    INFO(c.to_json());
    for (const auto& s : scores)
      for (size_t i = 0; i < s.size(); ++i) CHECK(s[i] == Approx(scores[0][i]).epsilon(1e-3).margin(1e-4));
  }
}

TEST_CASE("configurations of networks are text and back") {
  for (const Config& c : configs()) {
    const auto back = Config::from_json(c.to_json());
    REQUIRE(back.has_value());
    CHECK(*back == c);
  }
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "must be a JSON object"},
           {"{}", "lacks its architecture"},
           {R"({"architecture": "lstm"})", "unknown network architecture 'lstm'"},
           {R"({"architecture": "tlp", "heads": 99})", "heads must be from 1 to 16, but is 99"},
           {R"({"architecture": "tlp", "sequence_width": 1e3})", "'sequence_width'"},
           {R"({"architecture": "tlp", "width": 3})", "'width'"},
           {R"({"architecture": "tlp", "dropout": 1})", "dropout must be"},
           {R"({"architecture": "tlp", "hardware_width": 40})", "the hardware row has 40 columns"}}) {
    const auto config = Config::from_json(text);
    INFO(text);
    REQUIRE(!config.has_value());
    CHECK(config.error().message.find(message) != std::string::npos);
  }
}

TEST_CASE("a network says which input a batch lacks") {
  const Model model = model_of({.architecture = Architecture::kMamba, .hardware_width = 11}, *host_level());
  CHECK(model.check(RandomBatch(model.config(), 3, 1).view()).has_value());
  Config narrow = model.config();
  narrow.sequence_width = 20;
  CHECK(model.check(RandomBatch(narrow, 3, 1).view()).error().message ==
        "the network 'mamba' reads sequences of 22 columns, but the data has 20");
  Config bare = model.config();
  bare.hardware_width = 0;
  CHECK(model.check(RandomBatch(bare, 3, 1).view()).error().message ==
        "the network 'mamba' reads a hardware row of 11 columns, but the data has 0");
}
