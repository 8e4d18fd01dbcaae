#include "driver/bench.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "driver/host_tensors.h"
#include "tcc/support/files.h"

namespace tcc::driver {
namespace {

constexpr size_t kMaxSamples = 1'000'000;

std::optional<ir::Type> type_of(const std::string& name) {
  for (int t = 0; t <= static_cast<int>(ir::Type::kF64); ++t)
    if (ir::type_name(static_cast<ir::Type>(t)) == name) return static_cast<ir::Type>(t);
  return std::nullopt;
}

KernelTime read_task(const nlohmann::json& t) {
  KernelTime k;
  k.key = t.value("key", "");
  k.workload = t.value("workload", "");
  if (t.contains("nodes")) k.nodes = task::nodes_from_json(t["nodes"]);
  k.type = type_of(t.value("type", ""));
  k.weight = std::max<int64_t>(t.value("count", int64_t{1}), 1);
  k.tuned = t.value("tuned", false);
  k.flops = t.value("flops", 0.0);
  k.bytes = t.value("bytes", 0.0);
  k.alone = t.value("seconds", 0.0);
  return k;
}

// The steps inside runs of the model, summed by task.
Result<void> time_kernels(package::ModelContext& context, const LibraryFacts& facts, const HostTensors& tensors,
                          const BenchOptions& options, std::vector<KernelTime>& kernels) {
  std::vector<std::vector<double>> samples(kernels.size());
  auto once = [&]() -> Result<double> {
    TCC_TRY(const std::vector<double> seconds, time_tasks(context, facts, tensors));
    for (size_t t = 0; t < samples.size(); ++t) samples[t].push_back(seconds[t]);
    return 0.0;
  };
  TCC_TRY(const std::vector<double> runs, collect(options.seconds, options.min_runs, once));
  for (size_t t = 0; t < kernels.size(); ++t)  // without the warm-up
    kernels[t].time = summarise({samples[t].end() - std::ssize(runs), samples[t].end()});
  return {};
}

}  // namespace

Result<LibraryFacts> library_facts(const package::LoadedModel& model) {
  using Json = nlohmann::json;
  const Json metadata = Json::parse(model.metadata_json(), nullptr, false);
  auto list = [&](const char* name) {
    return metadata.is_object() && metadata.contains(name) && metadata[name].is_array() ? metadata[name]
                                                                                        : Json::array();
  };
  LibraryFacts facts;
  for (const Json& t : list("tasks")) {
    if (!t.is_object()) continue;
    for (const Json& code : t.value("code", Json::array()))
      for (const Json& launch : code.value("launches", Json::array()))
        if (launch.contains("symbol")) facts.symbols[launch["symbol"].get<std::string>()] = facts.tasks.size();
    facts.tasks.push_back(read_task(t));
  }
  if (facts.tasks.empty())
    return make_error(ErrorClass::kInput, fmt::format("{}: the metadata lists no kernels", model.id()),
                      "build the library again with this tcc");
  for (const Json& step : list("steps")) facts.steps.push_back(step.is_number_unsigned() ? step.get<size_t>() : ~0ull);
  for (size_t task : facts.steps)
    if (task >= facts.tasks.size())
      return input_error("{}: the metadata is damaged: a step names kernel {} of {}", model.id(), task,
                         facts.tasks.size());
  for (const Json& a : list("architectures"))
    if (a.is_object()) facts.targets[a.value("architecture", "")] = a.value("target", "");
  return facts;
}

Result<std::vector<double>> time_tasks(package::ModelContext& context, const LibraryFacts& facts,
                                       const HostTensors& tensors) {
  std::vector<uint64_t> ns(facts.steps.size());
  TCC_TRY_VOID(context.run_timed(tensors.input_pointers, tensors.output_pointers, ns));
  std::vector<double> seconds(facts.tasks.size(), 0);
  for (size_t i = 0; i < ns.size(); ++i) seconds[facts.steps[i]] += static_cast<double>(ns[i]) * 1e-9;
  return seconds;
}

Result<std::vector<double>> collect(double seconds, int64_t min_runs, const std::function<Result<double>()>& call) {
  Stopwatch watch;
  do {
    TCC_TRY_VOID(call());
  } while (watch.seconds() < 0.1 * seconds);
  std::vector<double> samples;
  watch.restart();
  while (samples.size() < kMaxSamples && (watch.seconds() < seconds || std::ssize(samples) < min_runs)) {
    TCC_TRY(const double sample, call());
    samples.push_back(sample);
  }
  return samples;
}

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
  TCC_TRY(auto loaded, package::LoadedModel::open(library, options.sizes));
  TCC_TRY(const LibraryFacts facts, library_facts(*loaded));
  BenchReport report;
  report.id = loaded->id();
  report.kernels = facts.tasks;
  for (const KernelTime& k : report.kernels) report.bytes += k.bytes * static_cast<double>(k.weight);
  if (auto recorded = source_from_metadata(loaded->metadata_json(), library)) report.flops = recorded->flops;

  if (!options.sizes.empty()) report.flops = report.bytes = 0;  // those of the largest sizes are known only
  HostTensors tensors(*loaded, options.seed);
  if (loaded->on_gpu()) TCC_TRY_VOID(bench_on_device(*loaded, facts, tensors.inputs, options, report));
  if (report.gpu && !options.per_kernel) return report;
  TCC_TRY(auto context, loaded->create_context({.threads = options.threads, .cuda_driver = options.cuda_driver}));
  report.threads = context->threads();
  if (!report.gpu) {
    Stopwatch watch;
    auto run = [&]() -> Result<double> {
      watch.restart();
      TCC_TRY_VOID(context->run(tensors.input_pointers, tensors.output_pointers));
      return watch.seconds();
    };
    TCC_TRY(report.samples, collect(options.seconds, options.min_runs, run));
    report.time = summarise(report.samples);
  }
  if (options.per_kernel) TCC_TRY_VOID(time_kernels(*context, facts, tensors, options, report.kernels));
  return report;
}

}  // namespace tcc::driver
