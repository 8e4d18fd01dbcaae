// The networks' scores against formulas written out loop by loop, in double.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "nn/executor.h"
#include "nn/random_batch.h"

using namespace tcc;
using namespace tcc::nn;

namespace {

using Matrix = std::vector<std::vector<double>>;

// The network's tensors by name, with random values.
struct Naive {
  Config config;
  Graph graph;
  Weights<double> weights;
  std::map<std::string, const Tensor*> tensors;

  explicit Naive(const Config& c) : config(c), graph(build_graph(c, kernels_f64(*host_level()).panel)), weights(graph) {
    weights.initialize(graph, 1);
    Rng rng(2);
    for (double& p : weights.params) p += 0.1 * (rng.uniform() - 0.5);
    for (double& b : weights.buffers) b = 0.5 + rng.uniform();  // scales, running means and variances
    weights.prepare(graph, kernels_f64(*host_level()));
    for (const Tensor& t : graph.tensors) tensors[t.name] = &t;
  }
  double at(const std::string& name, int64_t row, int64_t column) const {
    const Tensor& t = *tensors.at(name);
    return weights.params[static_cast<size_t>(t.offset + row * t.columns + column)];
  }
  Matrix linear(const Matrix& x, const std::string& name, bool relu) const {
    const Tensor& t = *tensors.at(name + ".weight");
    Matrix y(x.size(), std::vector<double>(static_cast<size_t>(t.columns)));
    for (size_t r = 0; r < x.size(); ++r)
      for (int64_t o = 0; o < t.columns; ++o) {
        double sum = tensors.count(name + ".bias") ? at(name + ".bias", 0, o) : 0;
        for (int64_t i = 0; i < t.rows; ++i) sum += x[r][static_cast<size_t>(i)] * at(name + ".weight", i, o);
        y[r][static_cast<size_t>(o)] = relu ? std::max(sum, 0.0) : sum;
      }
    return y;
  }
  Matrix norm(Matrix x, const std::string& name) const {
    for (auto& row : x) {
      double mean = 0, variance = 0;
      for (double v : row) mean += v / static_cast<double>(row.size());
      for (double v : row) variance += (v - mean) * (v - mean) / static_cast<double>(row.size());
      for (size_t i = 0; i < row.size(); ++i)
        row[i] = (row[i] - mean) / std::sqrt(variance + 1e-5) * at(name + ".weight", 0, static_cast<int64_t>(i)) +
                 at(name + ".bias", 0, static_cast<int64_t>(i));
    }
    return x;
  }
  Matrix residual(Matrix x, const std::string& name) const {
    const Matrix y = linear(x, name, true);
    for (size_t r = 0; r < x.size(); ++r)
      for (size_t i = 0; i < x[r].size(); ++i) x[r][i] += y[r][i];
    return x;
  }
  Matrix attention(Matrix x, size_t heads) const {
    const Matrix qkv = linear(x, "qkv", false);
    const size_t t = x.size(), width = t ? x[0].size() : 0, head = width / heads;
    Matrix mixed(t, std::vector<double>(width));
    for (size_t h = 0; h < heads; ++h)
      for (size_t i = 0; i < t; ++i) {
        std::vector<double> p(t);
        double sum = 0;
        for (size_t j = 0; j < t; ++j) {
          double dot = 0;
          for (size_t d = 0; d < head; ++d) dot += qkv[i][h * head + d] * qkv[j][width + h * head + d];
          sum += p[j] = std::exp(dot / std::sqrt(static_cast<double>(head)));
        }
        for (size_t j = 0; j < t; ++j)
          for (size_t d = 0; d < head; ++d) mixed[i][h * head + d] += p[j] / sum * qkv[j][2 * width + h * head + d];
      }
    const Matrix y = linear(mixed, "attention", false);
    for (size_t r = 0; r < t; ++r)
      for (size_t i = 0; i < width; ++i) x[r][i] += y[r][i];
    return x;
  }
  static std::vector<double> sum(const Matrix& x, size_t width) {
    std::vector<double> out(width);
    for (const auto& row : x)
      for (size_t i = 0; i < width; ++i) out[i] += row[i];
    return out;
  }
  // Rows of a sample, scaled, with the hardware row behind a sequence.
  Matrix input(Grid grid, const RowInput& in, int64_t sample, const Batch& batch) const {
    Matrix x;
    for (int64_t r = in.offsets[sample]; r < in.offsets[sample + 1]; ++r) {
      x.emplace_back();
      for (int64_t c = 0; c < in.width; ++c)
        x.back().push_back(static_cast<double>(in.rows[r * in.width + c]) *
                           weights.buffers[static_cast<size_t>(graph.input_scale[static_cast<int>(grid)] + c)]);
    }
    if (grid == Grid::kSequence && config.hardware_width > 0) {
      x.emplace_back(static_cast<size_t>(in.width));
      for (int64_t c = 0; c < config.hardware_width; ++c)
        x.back()[static_cast<size_t>(c)] = static_cast<double>(batch.hardware[sample * config.hardware_width + c]);
    }
    return x;
  }
  std::vector<double> score(const Batch& batch, int64_t sample) const;
  std::vector<double> tlp(Matrix x) const;
  std::vector<double> mamba(Matrix x) const;
  Matrix mamba_block(const Matrix& h, const std::string& name) const;
  std::vector<double> joined(const Batch& batch, int64_t sample) const;
};

double silu(double x) {
  return x / (1 + std::exp(-x));
}

std::vector<double> Naive::tlp(Matrix x) const {
  for (const char* name : {"encoder0", "encoder1", "encoder2", "encoder3"}) x = linear(x, name, true);
  x = residual(residual(attention(std::move(x), 8), "residual0"), "residual1");
  std::vector<double> out;
  for (int64_t h = 0; h < config.heads; ++h) {
    Matrix y = x;
    for (int n = 0; n < 4; ++n) y = linear(y, "head" + std::to_string(h) + "." + std::to_string(n), n < 3);
    out.push_back(sum(y, 1)[0]);
  }
  return out;
}

// The formulas of the selective scan, one step after another.
Matrix Naive::mamba_block(const Matrix& h, const std::string& name) const {
  const Matrix xz = linear(h, name + ".in", false);
  const size_t steps = h.size(), width = xz.empty() ? 0 : xz[0].size() / 2;
  const auto states = static_cast<size_t>(config.states), taps = static_cast<size_t>(config.taps);
  Matrix u(steps, std::vector<double>(width));
  for (size_t t = 0; t < steps; ++t)
    for (size_t d = 0; d < width; ++d) {
      double c = at(name + ".conv.bias", 0, static_cast<int64_t>(d));
      for (size_t k = 0; k < taps; ++k)
        if (t + k + 1 >= taps)
          c += at(name + ".conv.weight", static_cast<int64_t>(k), static_cast<int64_t>(d)) * xz[t + k + 1 - taps][d];
      u[t][d] = silu(c);
    }
  const Matrix parts = linear(u, name + ".x", false);
  const size_t rank = parts.empty() ? 0 : parts[0].size() - 2 * states;
  Matrix low;
  for (const auto& row : parts) low.emplace_back(row.begin(), row.begin() + static_cast<int64_t>(rank));
  const Matrix dt = linear(low, name + ".dt", false);
  Matrix y = u, s(width, std::vector<double>(states));
  for (size_t t = 0; t < steps; ++t)
    for (size_t d = 0; d < width; ++d) {
      const double delta = std::log1p(std::exp(dt[t][d]));
      y[t][d] = at(name + ".scan.D", 0, static_cast<int64_t>(d)) * u[t][d];
      for (size_t n = 0; n < states; ++n) {
        const double a = -std::exp(at(name + ".scan.A_log", static_cast<int64_t>(n), static_cast<int64_t>(d)));
        s[d][n] = std::exp(delta * a) * s[d][n] + delta * parts[t][rank + n] * u[t][d];
        y[t][d] += parts[t][rank + states + n] * s[d][n];
      }
      y[t][d] *= silu(xz[t][width + d]);
    }
  return linear(y, name + ".out", false);
}

std::vector<double> Naive::mamba(Matrix x) const {
  for (const char* name : {"encoder0", "encoder1", "encoder2"}) x = linear(x, name, true);
  x = norm(std::move(x), "norm0");
  for (int64_t i = 0; i < config.layers; ++i) x = mamba_block(x, "mamba" + std::to_string(i));
  x = norm(std::move(x), "norm1");
  return sum(linear(linear(linear(x, "decoder0", true), "decoder1", true), "decoder2", false), 1);
}

// TenSet-MLP, and PaCM, whose normalization uses running statistics in prediction.
std::vector<double> Naive::joined(const Batch& batch, int64_t sample) const {
  Matrix x = input(Grid::kStatement, batch.statements, sample, batch);
  Matrix pooled{sum(linear(linear(x, "statement0", true), "statement1", true), 256)};
  if (config.architecture == Architecture::kPacm) {
    x = input(Grid::kDataflow, batch.dataflow, sample, batch);
    const auto flow = sum(attention(linear(linear(x, "dataflow0", true), "dataflow1", true), 4), 128);
    pooled[0].insert(pooled[0].end(), flow.begin(), flow.end());
    pooled = linear(pooled, "join", true);
    const Node& norm = graph.nodes[static_cast<size_t>(graph.batch_norms[0])];
    for (int64_t i = 0; i < 256; ++i) {
      double& v = pooled[0][static_cast<size_t>(i)];
      const double mean = weights.buffers[static_cast<size_t>(norm.buffer + i)];
      const double variance = weights.buffers[static_cast<size_t>(norm.buffer + 256 + i)];
      v = (v - mean) / std::sqrt(variance + 1e-5) * at("norm.weight", 0, i) + at("norm.bias", 0, i);
    }
  }
  return linear(residual(residual(pooled, "residual0"), "residual1"), "head", false)[0];
}

std::vector<double> Naive::score(const Batch& batch, int64_t sample) const {
  switch (config.architecture) {
    case Architecture::kTlp:
      return tlp(input(Grid::kSequence, batch.sequences, sample, batch));
    case Architecture::kMamba:
      return mamba(input(Grid::kSequence, batch.sequences, sample, batch));
    default:
      return joined(batch, sample);
  }
}

}  // namespace

TEST_CASE("scores are those of the papers' formulas") {
  for (const Config& config :
       {Config{.architecture = Architecture::kMlp}, Config{.architecture = Architecture::kTlp, .heads = 2},
        Config{.architecture = Architecture::kPacm}, Config{.architecture = Architecture::kMamba, .hardware_width = 11},
        Config{.architecture = Architecture::kMamba, .layers = 2, .states = 16, .expand = 2, .taps = 3}}) {
    const Naive naive(config);
    const RandomBatch data(config, 6, 8, 0, 7);
    const Batch batch = data.view();
    std::vector<double> scores(static_cast<size_t>(6 * config.heads));
    Engine<double> engine(naive.graph, kernels_f64(*host_level()), nullptr);
    engine.predict(batch, naive.weights, scores);
    INFO(config.to_json());
    for (int64_t i = 0; i < 6; ++i) {
      const std::vector<double> expected = naive.score(batch, i);
      for (int64_t h = 0; h < config.heads; ++h)
        CHECK(scores[static_cast<size_t>(i * config.heads + h)] ==
              Approx(expected[static_cast<size_t>(h)]).epsilon(1e-9).margin(1e-9));
    }
  }
}

TEST_CASE("batch normalization learns the statistics of its batches") {
  // One batch again and again: running statistics become those of the batch, so both modes give the same scores.
  const Config config{.architecture = Architecture::kPacm, .statement_width = 9, .dataflow_width = 5};
  Naive naive(config);
  const RandomBatch data(config, 40, 3);
  std::vector<double> trained(40), predicted(40);
  Engine<double> engine(naive.graph, kernels_f64(*host_level()), nullptr);
  engine.forward(data.view(), naive.weights, true, 0, trained);
  naive.weights.prepare(naive.graph, kernels_f64(*host_level()));
  engine.predict(data.view(), naive.weights, predicted);
  CHECK(std::fabs(predicted[0] - trained[0]) > 1e-3);
  for (int i = 0; i < 300; ++i) engine.forward(data.view(), naive.weights, true, 0, trained);
  naive.weights.prepare(naive.graph, kernels_f64(*host_level()));
  engine.predict(data.view(), naive.weights, predicted);
  // The running variance is the unbiased one: 40 / 39 of the batch's.
  for (size_t i = 0; i < 40; ++i) CHECK(predicted[i] == Approx(trained[i]).epsilon(0.05).margin(0.02));
}
