#include "driver/bench_gpu.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tcc/driver/gpu_target.h"
#include "tcc/runtime/cuda_counters.h"
#include "tcc/runtime/cuda_device.h"
#include "tcc/runtime/cuda_trace.h"
#include "tcc/support/files.h"

namespace tcc::driver {
namespace {

constexpr int64_t kFlushBytes = int64_t{32} << 20;  // at least, to overwrite the second-level cache
constexpr int kModes = 4;
constexpr size_t kMaxSamples = 100'000;

// Device memory for all tensors of a model, inputs filled.
struct Tensors {
  std::vector<runtime::CudaBuffer> buffers;
  std::vector<uint64_t> inputs, outputs;
};

Result<Tensors> make_tensors(runtime::CudaDevice& device, const package::LoadedModel& model,
                             const std::vector<graph::Constant>& inputs) {
  Tensors tensors;
  for (const graph::Constant& input : inputs) {
    TCC_TRY(runtime::CudaBuffer buffer, device.allocate(static_cast<int64_t>(input.bytes.size())));
    TCC_TRY_VOID(device.upload(buffer, input.bytes));
    tensors.inputs.push_back(buffer.address());
    tensors.buffers.push_back(std::move(buffer));
  }
  for (const package::TensorSpec& spec : model.outputs()) {
    TCC_TRY(runtime::CudaBuffer buffer, device.allocate(spec.bytes));
    tensors.outputs.push_back(buffer.address());
    tensors.buffers.push_back(std::move(buffer));
  }
  return tensors;
}

class Bench {
 public:
  Bench(runtime::CudaDevice& device, package::ModelContext& context, Tensors& tensors, const BenchOptions& options)
      : device_(device), context_(context), tensors_(tensors), options_(options) {}

  Result<void> run(GpuBenchRun& out) {
    TCC_TRY_VOID(once());
    TCC_TRY_VOID(device_.synchronise());
    TCC_TRY(graph_, device_.record([this] { return once(); }));
    out.gpu.graph = graph_ != nullptr;
    const int64_t flush = std::max(2 * device_.facts().l2_bytes, kFlushBytes);
    TCC_TRY(flush_, device_.allocate(std::min(flush, std::max<int64_t>(device_.facts().free_bytes / 4, 1))));
    Clock& clock = Clock::system();
    TCC_TRY(std::vector<double> warm, samples([this] { return device_.time(1, [this] { return all(); }); }));
    TCC_TRY(std::vector<double> cold, samples([this]() -> Result<double> {
              TCC_TRY_VOID(device_.fill(flush_, ++round_));
              return device_.time(1, [this] { return all(); });
            }));
    auto wall = [&](bool with_graph) {
      return samples([&, with_graph]() -> Result<double> {
        const double start = clock.seconds();
        TCC_TRY_VOID(with_graph ? all() : once());
        TCC_TRY_VOID(device_.synchronise());
        return clock.seconds() - start;
      });
    };
    TCC_TRY(out.wall_samples, wall(false));
    out.gpu.warm = summarise(std::move(warm));
    out.gpu.cold = summarise(std::move(cold));
    out.gpu.wall = summarise(out.wall_samples);
    if (!graph_) return {};
    TCC_TRY(std::vector<double> wall_graph, wall(true));
    out.gpu.wall_graph = summarise(std::move(wall_graph));
    return {};
  }

 private:
  Result<void> once() { return context_.enqueue(tensors_.inputs, tensors_.outputs, device_.stream()); }
  Result<void> all() { return graph_ ? graph_->launch() : once(); }

  // A share of the time that there is, after a warm-up of a tenth of it.
  Result<std::vector<double>> samples(const std::function<Result<double>()>& call) const {
    Clock& clock = Clock::system();
    const double seconds = options_.seconds / kModes;
    std::vector<double> list;
    const double start = clock.seconds();
    bool warm = false;
    while (list.size() < kMaxSamples &&
           (clock.seconds() - start < 1.1 * seconds || list.size() < static_cast<size_t>(options_.min_runs))) {
      TCC_TRY(const double sample, call());
      if (warm) list.push_back(sample);
      warm = warm || clock.seconds() - start >= 0.1 * seconds;
    }
    return list;
  }

  runtime::CudaDevice& device_;
  package::ModelContext& context_;
  Tensors& tensors_;
  const BenchOptions& options_;
  std::unique_ptr<runtime::CudaGraph> graph_;
  runtime::CudaBuffer flush_;
  uint8_t round_ = 0;
};

// Each task's steps inside the model, by events between the steps.
Result<void> time_steps(package::LoadedModel& model, const nlohmann::json& metadata,
                        const std::vector<graph::Constant>& inputs, const BenchOptions& options,
                        std::vector<KernelTime>& tasks) {
  TCC_TRY(auto context, model.create_context({.cuda_driver = options.cuda_driver}));
  const auto steps = metadata.value("steps", std::vector<size_t>{});
  std::vector<const void*> input_pointers;
  std::vector<std::vector<std::byte>> outputs;
  std::vector<void*> output_pointers;
  for (const graph::Constant& input : inputs) input_pointers.push_back(input.bytes.data());
  for (const package::TensorSpec& spec : model.outputs()) outputs.emplace_back(static_cast<size_t>(spec.bytes));
  for (auto& bytes : outputs) output_pointers.push_back(bytes.data());
  for (size_t task : steps)
    if (task >= tasks.size()) return input_error("{}: its metadata is damaged", model.id());
  std::vector<uint64_t> ns(steps.size());
  std::vector<std::vector<double>> samples(tasks.size());
  const Stopwatch watch;
  for (int64_t run = -1; run < options.min_runs || watch.seconds() < options.seconds; ++run) {
    TCC_TRY_VOID(context->run_timed(input_pointers, output_pointers, ns));
    if (run < 0) continue;  // the first one warms up
    for (std::vector<double>& s : samples) s.push_back(0);
    for (size_t i = 0; i < steps.size(); ++i) samples[steps[i]].back() += static_cast<double>(ns[i]) * 1e-9;
  }
  for (size_t t = 0; t < tasks.size(); ++t) tasks[t].time = summarise(samples[t]);
  return {};
}

// The task whose code a kernel of a library is: kernels are called tcc_k<number>_<launch>. -1: no such name.
int64_t task_of(const std::string& symbol) {
  constexpr std::string_view kBefore = "tcc_k";
  if (!symbol.starts_with(kBefore) || symbol.size() == kBefore.size()) return -1;
  char* end = nullptr;
  const int64_t number = std::strtoll(symbol.c_str() + kBefore.size(), &end, 10);
  return *end == '_' ? number : -1;
}

// What CUPTI says of runs, launched one by one and as they are.
Result<void> profile_runs(runtime::CudaDevice& device, const std::function<Result<void>()>& once,
                          const BenchOptions& options, std::vector<KernelTime>& tasks, GpuBench& gpu) {
  // It speaks to the system's driver only, unless somebody says which one speaks to this.
  if (options.cupti.empty() && (!options.cuda_driver.empty() || device.facts().takes_ptx_only)) return {};
  const auto note = [&](const char* what, const Error& error) {
    gpu.notes.push_back(
        fmt::format("no {} by CUPTI: {}{}{}", what, error.message, error.hint.empty() ? "" : "; ", error.hint));
  };
  auto trace = runtime::CudaTrace::open(options.cupti);
  if (!trace) return note("times and counters", trace.error()), Result<void>();
  std::vector<double> sums;
  std::vector<std::vector<double>> of_task(tasks.size());
  for (int64_t run = 0; run < options.min_runs; ++run) {
    auto kernels = (*trace)->kernels(device, once);
    if (!kernels && device.lost()) return tl::make_unexpected(kernels.error());
    if (!kernels) return note("times", kernels.error()), Result<void>();
    double sum = 0;
    std::vector<double> here(tasks.size(), 0);
    for (const runtime::CudaTrace::Kernel& k : *kernels) {
      sum += k.seconds;
      const int64_t task = task_of(k.symbol);
      if (task >= 0 && task < std::ssize(tasks)) here[static_cast<size_t>(task)] += k.seconds;
    }
    sums.push_back(sum);
    for (size_t t = 0; t < tasks.size(); ++t) of_task[t].push_back(here[t]);
  }
  gpu.kernels = summarise(std::move(sums));
  for (size_t t = 0; t < tasks.size(); ++t)
    gpu.kernel_seconds.push_back(summarise(of_task[t]).median / static_cast<double>(tasks[t].weight));
  auto counters = runtime::CudaCounters::open(device, 0, options.cupti);
  if (!counters) return note("counters", counters.error()), Result<void>();
  auto counts = (*counters)->count(once);
  if (!counts && device.lost()) return tl::make_unexpected(counts.error());
  if (!counts) return note("counters", counts.error()), Result<void>();
  gpu.counts = {counts->dram_bytes, counts->tensor_share, counts->occupancy};
  return {};
}

// The descriptor that the code in use was built for.
std::string target_of(const nlohmann::json& metadata, uint32_t architecture) {
  if (!metadata.is_object() || !metadata.contains("architectures")) return "";
  for (const auto& a : metadata["architectures"])
    if (a.is_object() && a.value("architecture", "").starts_with(fmt::format("sm_{}", architecture)))
      return a.value("target", "");
  return "";
}

}  // namespace

double roofline_seconds(const KernelTime& task, const target::Target& target) {
  // Of the type that the workload names; fp32 where matrix instructions have no rate of it.
  double rate = target.peak.fp32;
  if (task.workload.ends_with(" f16") && target.peak.fp16 > 0) rate = target.peak.fp16;
  if (task.workload.ends_with(" bf16") && target.peak.bf16 > 0) rate = target.peak.bf16;
  const double arithmetic = rate > 0 ? task.flops / rate : 0;
  const double memory = target.memory_bandwidth > 0 ? task.bytes / target.memory_bandwidth : 0;
  return std::max(arithmetic, memory);
}

Result<GpuBenchRun> bench_on_gpu(package::LoadedModel& model, const std::string& library,
                                 const std::vector<graph::Constant>& inputs, const BenchOptions& options) {
  TCC_TRY(auto device, runtime::CudaDevice::open(0, options.cuda_driver));
  TCC_TRY(auto context, model.create_context({.host_tensors = false, .cuda_driver = options.cuda_driver}));
  GpuBenchRun out;
  out.gpu.device = device->facts().name;
  const tcc_context_info info = context->info();
  out.gpu.code = fmt::format("sm_{}{}", info.code_architecture, info.jit != 0 ? " (PTX)" : "");
  TCC_TRY(Tensors tensors, make_tensors(*device, model, inputs));
  {
    Bench bench(*device, *context, tensors, options);
    TCC_TRY_VOID(bench.run(out));
  }
  const nlohmann::json metadata = nlohmann::json::parse(model.metadata_json(), nullptr, false);
  TCC_TRY(std::vector<KernelTime> tasks, read_tasks(metadata, library));
  TCC_TRY_VOID(profile_runs(
      *device, [&] { return context->enqueue(tensors.inputs, tensors.outputs, device->stream()); }, options, tasks,
      out.gpu));
  out.gpu.target = target_of(metadata, info.code_architecture);
  if (auto target = find_target(out.gpu.target, options.cuda_driver)) {
    for (const KernelTime& task : tasks) {
      out.gpu.kernel_roofline.push_back(roofline_seconds(task, *target));
      out.gpu.roofline += out.gpu.kernel_roofline.back() * static_cast<double>(task.weight);
    }
  }
  if (options.per_kernel) {
    TCC_TRY_VOID(time_steps(model, metadata, inputs, options, tasks));
    out.kernels = std::move(tasks);
  }
  return out;
}

}  // namespace tcc::driver
