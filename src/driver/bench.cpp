#include <algorithm>
#include <cmath>

#include "tcc/driver/library.h"
#include "tcc/graph/reference.h"
#include "tcc/package/loaded_model.h"
#include "tcc/runtime/host_kernel.h"
#include "tcc/search/search.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

namespace tcc::driver {
namespace {

constexpr size_t kMaxSamples = 1'000'000;

// Time of each call until `options` has enough, after a warm-up.
template <class F>
Result<Statistics> time_calls(const BenchOptions& options, F&& call) {
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
  return summarise(std::move(samples));
}

// Data of a kernel's parameter: small f32 numbers; other types stay 0, which every type reads as a sane value.
void fill_parameter(const codegen::BufferInfo& info, runtime::GuardedBuffer& buffer, Rng& rng) {
  buffer.fill(0);
  if (info.type != ir::Type::kF32) return;
  auto* data = reinterpret_cast<float*>(buffer.data());
  for (int64_t i = 0; i < info.bytes / 4; ++i) data[i] = static_cast<float>(rng.uniform() - 0.5);
}

Result<Statistics> time_kernel(const codegen::Artifact& artifact, const std::shared_ptr<runtime::HostPool>& pool,
                               const BenchOptions& options) {
  TCC_TRY(auto kernel, runtime::HostKernel::load(artifact, pool));
  Rng rng(options.seed);
  std::vector<runtime::GuardedBuffer> buffers;
  std::vector<void*> pointers;
  for (const codegen::BufferInfo& info : kernel->buffers()) {
    if (info.role == ir::BufferRole::kTemp) continue;
    TCC_TRY(auto buffer, runtime::GuardedBuffer::allocate(info.bytes, std::max<int64_t>(info.alignment, 64)));
    fill_parameter(info, buffer, rng);
    pointers.push_back(buffer.data());
    buffers.push_back(std::move(buffer));
  }
  return time_calls(options, [&] { return kernel->run(pointers); });
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

  TCC_TRY(auto context, loaded->create_context({options.threads}));
  report.threads = context->threads();
  TCC_TRY(report.time, time_calls(options, [&] { return context->run(input_pointers, output_pointers); }));
  return report;
}

Result<std::vector<KernelTime>> bench_kernels(const Model& model, const BuildOptions& build,
                                              const BenchOptions& options) {
  TCC_TRY(Program program, make_program(model));
  TCC_TRY(auto pool, runtime::HostPool::create(options.threads));
  BenchOptions each = options;
  each.seconds = options.seconds / static_cast<double>(std::max<size_t>(program.tasks.tasks.size(), 1));
  std::vector<KernelTime> times;
  for (const task::Task& task : program.tasks.tasks) {
    TCC_TRY(auto chosen, search::best_artifact(task, build.target, build.store, build.threads, "bench"));
    KernelTime time;
    time.kernel = {task.key,           task.workload, task.weight, chosen.program.tuned, chosen.program.seconds,
                   chosen.program.note};
    time.flops = task.flops;
    TCC_TRY(time.time, time_kernel(chosen.artifact, pool, each));
    times.push_back(std::move(time));
  }
  return times;
}

}  // namespace tcc::driver
