#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "driver/bench_gpu.h"
#include "tcc/driver/library.h"
#include "tcc/graph/reference.h"
#include "tcc/package/loaded_model.h"
#include "tcc/support/files.h"

namespace tcc::driver {
namespace {

constexpr size_t kMaxSamples = 1'000'000;

// Time of each call until `options` has enough, after a warm-up.
Result<std::vector<double>> time_calls(const BenchOptions& options, const std::function<Result<void>()>& call) {
  Clock& clock = Clock::system();
  const double warm_until = clock.seconds() + options.seconds * 0.1;
  do {
    TCC_TRY_VOID(call());
  } while (clock.seconds() < warm_until);
  std::vector<double> samples;
  const double start = clock.seconds();
  double now = start;
  while (samples.size() < kMaxSamples &&
         (now - start < options.seconds || samples.size() < static_cast<size_t>(options.min_runs))) {
    TCC_TRY_VOID(call());
    const double end = clock.seconds();
    samples.push_back(end - now);
    now = end;
  }
  return samples;
}

// The samples of each task's steps within a run, in seconds.
using TaskSamples = std::vector<std::vector<double>>;

}  // namespace

Result<std::vector<KernelTime>> read_tasks(const nlohmann::json& metadata, const std::string& library) {
  std::vector<KernelTime> tasks;
  if (metadata.is_object() && metadata.contains("tasks") && metadata["tasks"].is_array()) {
    for (const auto& t : metadata["tasks"]) {
      if (!t.is_object()) continue;
      KernelTime k;
      k.key = t.value("key", "");
      k.workload = t.value("workload", "");
      k.weight = t.value("count", int64_t{1});
      k.tuned = t.value("tuned", false);
      k.flops = t.value("flops", 0.0);
      k.bytes = t.value("bytes", 0.0);
      k.alone = t.value("seconds", 0.0);
      tasks.push_back(std::move(k));
    }
  }
  if (!tasks.empty()) return tasks;
  return make_error(ErrorClass::kInput, fmt::format("'{}' does not say which kernels it has", library),
                    "build it again with this tcc");
}

namespace {

Result<std::vector<KernelTime>> time_kernels(package::ModelContext& context, const std::string& library,
                                             std::span<const void* const> inputs, std::span<void* const> outputs,
                                             const BenchOptions& options) {
  const nlohmann::json metadata = nlohmann::json::parse(context.model().metadata_json(), nullptr, false);
  TCC_TRY(std::vector<KernelTime> tasks, read_tasks(metadata, library));
  const auto steps = metadata.value("steps", std::vector<size_t>{});
  for (size_t task : steps)
    if (task >= tasks.size()) return input_error("'{}': its metadata is damaged", library);
  std::vector<uint64_t> ns(steps.size());
  TaskSamples samples(tasks.size());
  auto once = [&]() -> Result<void> {
    TCC_TRY_VOID(context.run_timed(inputs, outputs, ns));
    for (std::vector<double>& s : samples) s.push_back(0);
    for (size_t i = 0; i < steps.size(); ++i) samples[steps[i]].back() += static_cast<double>(ns[i]) * 1e-9;
    return {};
  };
  TCC_TRY(std::vector<double> runs, time_calls(options, once));
  for (size_t t = 0; t < tasks.size(); ++t) {  // without the warm-up
    std::vector<double>& s = samples[t];
    s.erase(s.begin(), s.end() - static_cast<std::ptrdiff_t>(runs.size()));
    tasks[t].time = summarise(s);
  }
  return tasks;
}

}  // namespace

Statistics summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  // Nearest rank.
  auto quantile = [&](double q) { return samples[static_cast<size_t>(std::clamp(std::ceil(q * n) - 1, 0.0, n - 1))]; };
  Statistics s;
  s.runs = static_cast<int64_t>(samples.size());
  s.min = samples.front();
  for (double t : samples) s.mean += t / n;
  double squares = 0;
  for (double t : samples) squares += (t - s.mean) * (t - s.mean);
  s.variation = samples.size() > 1 && s.mean > 0 ? std::sqrt(squares / (n - 1)) / s.mean : 0;
  s.median = samples.size() % 2 == 1 ? samples[samples.size() / 2]
                                     : (samples[samples.size() / 2 - 1] + samples[samples.size() / 2]) / 2;
  s.p90 = quantile(0.9);
  s.p95 = quantile(0.95);
  s.p99 = quantile(0.99);
  return s;
}

Result<BenchReport> bench_library(const std::string& library, const BenchOptions& options) {
  TCC_TRY(auto loaded, package::LoadedModel::open(library));
  BenchReport report;
  report.id = loaded->id();
  if (auto recorded = source_from_metadata(loaded->metadata_json(), library)) report.flops = recorded->flops;

  std::vector<graph::Constant> inputs;
  std::vector<std::vector<std::byte>> outputs;
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
  for (const package::TensorSpec& spec : loaded->inputs()) {
    graph::Value value;
    value.dtype = spec.dtype;
    value.shape = spec.shape;
    inputs.push_back(
        graph::make_constant_from_doubles(spec.dtype, graph::random_tensor(value, options.seed + inputs.size()).data));
  }
  for (const graph::Constant& bytes : inputs) input_pointers.push_back(bytes.bytes.data());
  for (const package::TensorSpec& spec : loaded->outputs()) outputs.emplace_back(static_cast<size_t>(spec.bytes));
  for (auto& bytes : outputs) output_pointers.push_back(bytes.data());

  if (loaded->on_gpu()) {
    TCC_TRY(GpuBenchRun run, bench_on_gpu(*loaded, library, inputs, options));
    report.gpu = std::move(run.gpu);
    report.samples = std::move(run.wall_samples);
    report.time = report.gpu->wall;
    report.kernels = std::move(run.kernels);
    return report;
  }
  TCC_TRY(auto context, loaded->create_context({.threads = options.threads, .cuda_driver = options.cuda_driver}));
  report.threads = context->threads();
  TCC_TRY(report.samples, time_calls(options, [&] { return context->run(input_pointers, output_pointers); }));
  report.time = summarise(report.samples);
  if (options.per_kernel) {
    TCC_TRY(report.kernels, time_kernels(*context, library, input_pointers, output_pointers, options));
  }
  return report;
}

}  // namespace tcc::driver
