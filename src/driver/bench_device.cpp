#include "driver/bench.h"

#include <algorithm>

#include "tcc/driver/gpu_target.h"
#include "tcc/runtime/cuda_counters.h"
#include "tcc/runtime/cuda_device.h"
#include "tcc/runtime/cuda_trace.h"
#include "tcc/support/files.h"

namespace tcc::driver {
namespace {

constexpr int64_t kFlushBytes = int64_t{32} << 20;  // at least, to overwrite the second-level cache
constexpr int kModes = 4;

// Device memory for all tensors of a model, inputs filled.
struct DeviceTensors {
  std::vector<runtime::CudaBuffer> buffers;
  std::vector<uint64_t> inputs, outputs;
};

Result<DeviceTensors> make_tensors(runtime::CudaDevice& device, const package::LoadedModel& model,
                                   const std::vector<graph::Constant>& inputs) {
  DeviceTensors tensors;
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

// Runs of the whole model: back to back, on cold caches, and with waiting for each.
class DeviceRuns {
 public:
  DeviceRuns(runtime::CudaDevice& device, package::ModelContext& context, DeviceTensors& tensors,
             const BenchOptions& options)
      : device_(device), context_(context), tensors_(tensors), options_(options) {}

  Result<void> time(BenchReport& report) {
    GpuBench& gpu = *report.gpu;
    TCC_TRY_VOID(once());
    TCC_TRY_VOID(device_.synchronise());
    TCC_TRY(graph_, device_.record([this] { return once(); }));
    gpu.graph = graph_ != nullptr;
    const int64_t flush = std::max(2 * device_.facts().l2_bytes, kFlushBytes);
    TCC_TRY(flush_, device_.allocate(std::min(flush, std::max<int64_t>(device_.facts().free_bytes / 4, 1))));
    TCC_TRY(std::vector<double> warm, samples([this] { return device_.time(1, [this] { return all(); }); }));
    TCC_TRY(std::vector<double> cold, samples([this]() -> Result<double> {
              TCC_TRY_VOID(device_.fill(flush_, ++round_));
              return device_.time(1, [this] { return all(); });
            }));
    auto wall = [&](bool with_graph) {
      return samples([&, with_graph]() -> Result<double> {
        const Stopwatch watch;
        TCC_TRY_VOID(with_graph ? all() : once());
        TCC_TRY_VOID(device_.synchronise());
        return watch.seconds();
      });
    };
    TCC_TRY(report.samples, wall(false));
    report.time = summarise(report.samples);
    gpu.warm = summarise(std::move(warm));
    gpu.cold = summarise(std::move(cold));
    if (!graph_) return {};
    TCC_TRY(std::vector<double> wall_graph, wall(true));
    gpu.wall_graph = summarise(std::move(wall_graph));
    return {};
  }
  Result<void> once() { return context_.enqueue(tensors_.inputs, tensors_.outputs, device_.stream()); }

 private:
  Result<void> all() { return graph_ ? graph_->launch() : once(); }
  Result<std::vector<double>> samples(const std::function<Result<double>()>& call) const {
    return collect(options_.seconds / kModes, options_.min_runs, call);
  }

  runtime::CudaDevice& device_;
  package::ModelContext& context_;
  DeviceTensors& tensors_;
  const BenchOptions& options_;
  std::unique_ptr<runtime::CudaGraph> graph_;
  runtime::CudaBuffer flush_;
  uint8_t round_ = 0;
};

// What CUPTI says of runs, launched one by one and as they are.
Result<void> profile_runs(runtime::CudaDevice& device, const std::function<Result<void>()>& once,
                          const BenchOptions& options, const LibraryFacts& facts, BenchReport& report) {
  GpuBench& gpu = *report.gpu;
  std::vector<KernelTime>& tasks = report.kernels;
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
      if (auto task = facts.symbols.find(k.symbol); task != facts.symbols.end()) here[task->second] += k.seconds;
    }
    sums.push_back(sum);
    for (size_t t = 0; t < tasks.size(); ++t) of_task[t].push_back(here[t]);
  }
  gpu.kernels = summarise(std::move(sums));
  for (size_t t = 0; t < tasks.size(); ++t)
    tasks[t].alone = summarise(of_task[t]).median / static_cast<double>(tasks[t].weight);
  auto counters = runtime::CudaCounters::open(device, 0, options.cupti);
  if (!counters) return note("counters", counters.error()), Result<void>();
  auto counts = (*counters)->count(once);
  if (!counts && device.lost()) return tl::make_unexpected(counts.error());
  if (!counts) return note("counters", counts.error()), Result<void>();
  gpu.counts = {counts->dram_bytes, counts->tensor_share, counts->occupancy};
  return {};
}

}  // namespace

double roofline_seconds(const KernelTime& task, const target::Target& target) {
  if (!task.type) return 0;
  double rate = target.peak.fp32;  // where matrix instructions have no rate of the type
  if (task.type == ir::Type::kF16 && target.peak.fp16 > 0) rate = target.peak.fp16;
  if (task.type == ir::Type::kBF16 && target.peak.bf16 > 0) rate = target.peak.bf16;
  const double arithmetic = rate > 0 ? task.flops / rate : 0;
  const double memory = target.memory_bandwidth > 0 ? task.bytes / target.memory_bandwidth : 0;
  return std::max(arithmetic, memory);
}

Result<void> bench_on_device(package::LoadedModel& model, const LibraryFacts& facts,
                             const std::vector<graph::Constant>& inputs, const BenchOptions& options,
                             BenchReport& report) {
  TCC_TRY(auto device, runtime::CudaDevice::open(0, options.cuda_driver));
  TCC_TRY(auto context, model.create_context({.host_tensors = false, .cuda_driver = options.cuda_driver}));
  GpuBench& gpu = report.gpu.emplace();
  gpu.device = device->facts().name;
  const tcc_context_info info = context->info();
  const std::string architecture = fmt::format("sm_{}", info.code_architecture);
  gpu.code = architecture + (info.jit != 0 ? " (PTX)" : "");
  TCC_TRY(DeviceTensors tensors, make_tensors(*device, model, inputs));
  DeviceRuns runs(*device, *context, tensors, options);
  TCC_TRY_VOID(runs.time(report));
  for (KernelTime& k : report.kernels) k.alone = 0;  // a tuner's time is of another device, perhaps
  if (options.profile) TCC_TRY_VOID(profile_runs(*device, [&] { return runs.once(); }, options, facts, report));
  // "sm_90a" is the architecture sm_90 with what only it has.
  for (const auto& [name, target] : facts.targets)
    if (name.starts_with(architecture)) gpu.target = target;
  if (auto target = find_target(gpu.target, {options.cuda_driver, options.calibrations})) {
    gpu.calibrated = target->cuda.calibrated;
    for (KernelTime& k : report.kernels) {
      k.roofline = roofline_seconds(k, *target);
      gpu.roofline += k.roofline * static_cast<double>(k.weight);
    }
  }
  return {};
}

}  // namespace tcc::driver
