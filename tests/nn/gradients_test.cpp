// The backward pass of every layer and network against central differences, in double.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "nn/executor.h"
#include "nn/random_batch.h"

using namespace tcc;
using namespace tcc::nn;

namespace {

struct Judge {
  double worst = 0;  // |analytic - numeric| / max(1, |numeric|)
  std::string where;
};

// The loss is a fixed random combination of the scores. `checks` parameters of each tensor are compared, or all.
Judge compare(const Graph& graph, const Config& config, Level level, int64_t samples, int64_t checks, uint64_t seed) {
  const Kernels<double>& kernels = kernels_f64(level);
  Weights<double> weights(graph);
  weights.initialize(graph, seed);
  Rng rng(seed + 1);
  for (double& p : weights.params) p += 0.2 * (rng.uniform() - 0.5);  // biases and gains away from 0 and 1
  for (double& b : weights.buffers) b += 0.2 * rng.uniform();
  weights.prepare(graph, kernels);
  const RandomBatch data(config, samples, seed + 2);
  const Batch batch = data.view();
  const int64_t heads = graph.slots[static_cast<size_t>(graph.output)].width;
  std::vector<double> factor, scores(static_cast<size_t>(samples * heads)), grads(weights.params.size());
  for (size_t i = 0; i < scores.size(); ++i) factor.push_back(rng.uniform() - 0.5);
  Engine<double> engine(graph, kernels, nullptr);
  auto loss = [&] {
    engine.forward(batch, weights, true, 5, scores);
    double sum = 0;
    for (size_t i = 0; i < scores.size(); ++i) sum += factor[i] * scores[i];
    return sum;
  };
  loss();
  engine.backward(batch, weights, factor, grads);
  Judge judge;
  for (const Tensor& t : graph.tensors)
    for (int64_t i = t.offset; i < t.offset + t.size(); i += std::max<int64_t>(1, t.size() / checks)) {
      double& p = weights.params[static_cast<size_t>(i)];
      const double old = p, step = 2e-7;
      auto at = [&](double value) {
        p = value;
        weights.prepare(graph, kernels);
        return loss();
      };
      const double numeric = (at(old + step) - at(old - step)) / (2 * step);
      p = old;
      const double analytic = grads[static_cast<size_t>(i)];
      const double expected = t.trainable ? numeric : 0;
      const double error = std::fabs(analytic - expected) / std::max(1.0, std::fabs(expected));
      if (!(error <= judge.worst)) judge = {error, t.name + " " + std::to_string(i - t.offset)};
    }
  return judge;
}

struct Case {
  const char* name;
  std::function<View(Builder&, View)> layer;  // of a sequence of 13 columns
};

const Config kSmall{.statement_width = 7, .sequence_width = 13, .dataflow_width = 5, .hardware_width = 3};

const std::vector<Case>& layers() {
  static const std::vector<Case> cases{
      {"linear", [](Builder& b, View x) { return b.linear(x, 40, Act::kNone, "layer"); }},
      {"relu", [](Builder& b, View x) { return b.linear(x, 9, Act::kRelu, "layer", false); }},
      {"silu", [](Builder& b, View x) { return b.activation(x, Act::kSilu); }},
      {"sigmoid", [](Builder& b, View x) { return b.activation(x, Act::kSigmoid); }},
      {"softplus", [](Builder& b, View x) { return b.activation(x, Act::kSoftplus); }},
      {"residual", [](Builder& b, View x) { return b.add(x, b.linear(x, x.width, Act::kRelu, "layer")); }},
      {"multiply",
       [](Builder& b, View x) { return b.multiply(x.columns(0, 12), b.linear(x, 12, Act::kNone, "layer")); }},
      {"lateral", [](Builder& b, View x) { return b.lateral(x, b.linear(x, x.width, Act::kNone, "layer"), "alpha"); }},
      {"layer norm", [](Builder& b, View x) { return b.layer_norm(x, "layer"); }},
      {"batch norm", [](Builder& b, View x) { return b.batch_norm(b.segment_sum(x), "layer"); }},
      {"two batch norms",
       [](Builder& b, View x) {
         return b.batch_norm(b.linear(b.batch_norm(b.segment_sum(x), "first"), 5, Act::kRelu, "middle"), "second");
       }},
      {"attention", [](Builder& b, View x) { return b.attention(b.linear(x, 36, Act::kNone, "qkv"), 2); }},
      {"attention, wide heads", [](Builder& b, View x) { return b.attention(b.linear(x, 96, Act::kNone, "qkv"), 1); }},
      {"convolution", [](Builder& b, View x) { return b.conv(x, 4, "layer"); }},
      {"scan",
       [](Builder& b, View x) {
         const View u = b.linear(x, 19, Act::kNone, "x"), dt = b.linear(x, 19, Act::kNone, "dt");
         return b.scan(u, dt, b.linear(x, 16, Act::kNone, "bc"), 8, "layer");
       }},
      {"scan, 5 states",
       [](Builder& b, View x) {
         return b.scan(x, b.linear(x, 13, Act::kNone, "dt"), b.linear(x, 10, Act::kNone, "bc"), 5, "layer");
       }},
      {"dropout", [](Builder& b, View x) { return b.dropout(x, 0.4); }},
  };
  return cases;
}

}  // namespace

TEST_CASE("gradients of the layers are those of central differences") {
  for (Level level : host_levels())
    for (const Case& c : layers()) {
      Builder b(kernels_f64(level).panel);
      // A layer before and behind: the gradients that pass through are checked with the layer's own.
      View x = b.linear(b.input(Grid::kSequence, 13, 3), 13, Act::kNone, "before");
      x = c.layer(b, x);
      x = b.linear(x, 2, Act::kNone, "behind");
      const Graph graph = b.finish(b.grid_of(x) == Grid::kSample ? x : b.segment_sum(x));
      const Judge judge = compare(graph, kSmall, level, 21, 100000, 11);
      INFO(level_name(level) << ", " << c.name << ": " << judge.worst << " at " << judge.where);
      CHECK(judge.worst < 1e-6);
    }
}

TEST_CASE("gradients of the networks are those of central differences") {
  const auto network =
      GENERATE(Config{.architecture = Architecture::kMlp}, Config{.architecture = Architecture::kTlp, .heads = 3},
               Config{.architecture = Architecture::kPacm}, Config{.architecture = Architecture::kMamba},
               Config{.architecture = Architecture::kMamba,
                      .hardware_width = 3,
                      .layers = 2,
                      .states = 16,
                      .expand = 2,
                      .taps = 3,
                      .residual = true,
                      .dropout = 0.2},
               Config{.architecture = Architecture::kMambaAdapter});
  Config config = network;
  config.statement_width = 7;
  config.sequence_width = 13;
  config.dataflow_width = 5;
  const Level level = *host_level();
  const Graph graph = build_graph(config, kernels_f64(level).panel);
  const Judge judge = compare(graph, config, level, 19, config.architecture == Architecture::kTlp ? 4 : 6, 3);
  INFO(config.to_json() << ": " << judge.worst << " at " << judge.where);
  CHECK(judge.worst < 1e-6);
}
