// Networks as cost models: how fast they predict and learn, on random inputs of the papers' shapes. Features:
// bench_features.cpp.
//
// predict.MODEL: candidates a second and core, with every usable core busy. linear.SHAPE: a linear layer beside Eigen's
// product, both for this CPU's level, in turns. linear.share: the smallest of these ratios. train.MODEL: samples a
// second through a whole training step on all cores.
#include <algorithm>
#include <cstdio>
#include <limits>

#include "bench.h"
#include "bench_features.h"
#include "eigen_gemm.h"
#include "nn/kernels.h"
#include "recorded.h"
#include "tcc/nn/trainer.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

namespace tcc::benchmarks {
namespace {

struct NetworkShape {
  std::string name;
  nn::Config config;
  int64_t statements, sequence, dataflow;  // rows of a candidate
};

std::vector<NetworkShape> shapes() {
  using nn::Architecture;
  return {{"mlp", {.architecture = Architecture::kMlp}, 5, 0, 0},
          {"pacm", {.architecture = Architecture::kPacm}, 5, 0, 10},
          {"tlp", {.architecture = Architecture::kTlp}, 0, 25, 0},
          {"mtl-tlp", {.architecture = Architecture::kTlp, .heads = 2}, 0, 25, 0},
          {"mamba", {.architecture = Architecture::kMamba, .hardware_width = 11}, 0, 25, 0},
          {"mamba-adapter", {.architecture = Architecture::kMambaAdapter, .hardware_width = 11}, 0, 25, 0}};
}

nn::Samples random_samples(const NetworkShape& shape, int64_t count) {
  nn::Samples out(shape.config);
  Rng rng(1);
  auto rows = [&](int64_t n, int64_t width) {
    std::vector<float> values;
    for (int64_t i = 0; i < n * width; ++i) values.push_back(static_cast<float>(rng.uniform()));
    return values;
  };
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<float> labels(static_cast<size_t>(shape.config.heads), static_cast<float>(rng.uniform()));
    out.add({rows(shape.statements, shape.config.statement_width), rows(shape.sequence, shape.config.sequence_width),
             rows(shape.dataflow, shape.config.dataflow_width), rows(1, shape.config.hardware_width)},
            labels, static_cast<uint64_t>(i % 7));
  }
  return out;
}

// Both in turns for about `seconds`; the best round of each counts, because others can only slow a round down.
std::vector<Row> linear_rows(nn::Level level, double seconds) {
  const nn::Kernels<float>& kernels = nn::kernels_f32(level);
  auto* const eigen = level == nn::Level::kV4   ? v4::eigen_gemm
                      : level == nn::Level::kV3 ? v3::eigen_gemm
                                                : v2::eigen_gemm;
  std::vector<Row> out;
  double share = std::numeric_limits<double>::infinity();
  for (const auto& [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{400, 256, 256},
                                {400, 256, 128},
                                {400, 128, 256},
                                {416, 128, 128},
                                {416, 64, 128},
                                {80, 174, 256},
                                {80, 256, 256},
                                {16, 384, 256}}) {
    const std::string name = fmt::format("linear.{}x{}x{}", m, k, n);
    if (!wanted(name) && !wanted("linear.share")) continue;
    Rng rng(2);
    std::vector<float> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n)), c(static_cast<size_t>(m * n)),
        bias(static_cast<size_t>(n)),
        panels(static_cast<size_t>((n + kernels.panel - 1) / kernels.panel * kernels.panel * k));
    for (auto* v : {&a, &b, &bias})
      for (float& x : *v) x = static_cast<float>(rng.uniform() - 0.5);
    kernels.pack(k, n, b.data(), n, 1, panels.data());
    auto rate = [&](auto body) {
      const Stopwatch watch;
      int64_t calls = 0;
      do {
        for (int i = 0; i < 8; ++i) body();
        calls += 8;
      } while (watch.seconds() < 0.01);
      return 2e-9 * static_cast<double>(m * k * n * calls) / watch.seconds();
    };
    double own = 0, peer = 0;
    const Stopwatch watch;
    do {
      own = std::max(own, rate([&] {
                       kernels.gemm({.m = m,
                                     .n = n,
                                     .k = k,
                                     .a = a.data(),
                                     .a_row = k,
                                     .b = panels.data(),
                                     .c = c.data(),
                                     .ldc = n,
                                     .bias = bias.data(),
                                     .relu = true});
                     }));
      peer = std::max(peer, rate([&] { eigen(m, n, k, a.data(), b.data(), c.data()); }));
    } while (watch.seconds() < seconds / 4);
    out.push_back({name, own, "GFLOP/s", fmt::format("Eigen, {}", nn::level_name(level)), peer, own / peer});
    share = std::min(share, own / peer);
  }
  if (!out.empty()) out.push_back({"linear.share", share, "of Eigen", "", 0, 0});
  return out;
}

Row predict_row(const NetworkShape& shape, const nn::Model& model, double seconds) {
  const int threads = static_cast<int>(std::max<size_t>(usable_cpus().size(), 1));
  const nn::Samples samples = random_samples(shape, 512);
  std::vector<nn::Workspace> workspaces(static_cast<size_t>(threads));
  std::vector<std::vector<float>> scores(static_cast<size_t>(threads), std::vector<float>(512));
  const double rate = rate_per_thread(threads, seconds, [&](int worker) {
    model.predict(samples.batch(), scores[static_cast<size_t>(worker)], workspaces[static_cast<size_t>(worker)]);
    return 512.0;
  });
  return {"predict." + shape.name, rate, fmt::format("candidates/s a core, {} busy", threads), "", 0, 0};
}

// One epoch of two batches is repeated; the rate is that of the fastest.
Result<Row> train_row(const NetworkShape& shape, nn::Model& model, double seconds) {
  ThreadPool pool(static_cast<int>(std::max<size_t>(usable_cpus().size(), 1)));
  const nn::Samples samples = random_samples(shape, 1024);
  nn::TrainOptions options;
  options.epochs = 1000000;
  double best = 0;
  const Stopwatch watch;
  Stopwatch epoch;
  nn::TrainHooks hooks;
  hooks.judge = [&](const nn::Model&) {
    best = std::max(best, 1024 / epoch.seconds());
    epoch.restart();
    return 0.0;
  };
  hooks.interrupted = [&] { return watch.seconds() > seconds && best > 0; };
  TCC_TRY(nn::Trainer trainer, nn::Trainer::create(model, samples, nullptr, options, &pool));
  trainer.run(hooks);
  return Row{"train." + shape.name, best, fmt::format("samples/s, {} threads", pool.size()), "", 0, 0};
}

Result<std::vector<Row>> run_cost_models(double seconds) {
  TCC_TRY(const nn::Level level, nn::host_level());
  std::vector<Row> out = feature_rows(seconds);
  for (Row& row : linear_rows(level, seconds)) out.push_back(std::move(row));
  for (const NetworkShape& shape : shapes()) {
    TCC_TRY(nn::Model model, nn::Model::create(shape.config, 1));
    if (wanted("predict." + shape.name)) out.push_back(predict_row(shape, model, seconds));
    if (!wanted("train." + shape.name)) continue;
    TCC_TRY(Row row, train_row(shape, model, seconds));
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace

std::vector<Row> run_cost_models_suite(double seconds) {
  if (!options().recorded.empty()) return run_recorded_tables();
  auto rows = run_cost_models(seconds);
  if (rows) return *rows;
  std::fprintf(stderr, "cost-models: %s\n", rows.error().message.c_str());
  return {{"cost-models", 0, "", "did not run_cost_models: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
