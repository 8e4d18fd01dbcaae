// NVIDIA's GPUs: cubins by NVRTC, run by a worker process.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "tcc/backend/backend.h"
#include "tcc/codegen/cuda.h"
#include "tcc/cost/gpu_model.h"
#include "tcc/measure/gpu.h"

namespace tcc::backend {
namespace {

bool multiplies(const target::Target& target, target::Precision precision) {
  const target::CudaFeatures& features = target.cuda.features;
  switch (precision) {
    case target::Precision::kF32:
      return true;
    case target::Precision::kTf32:
      return features.tf32;
    case target::Precision::kF16:
      return features.mma_sync;
    case target::Precision::kBF16:
      return features.bf16;
  }
  return false;
}

Result<void> check_tunable(const target::Target&) {
  TCC_TRY_VOID(codegen::nvrtc_version());
  return {};
}

Result<void> check_loadable(const target::Target& target) {
  return codegen::check_cuda_architecture(target);
}

Result<codegen::Artifact> print(const ir::Kernel& lowered, const target::Target& target,
                                const CompileOptions& options) {
  TCC_TRY(codegen::CudaSource source, codegen::emit_cuda_source(lowered, target, {.prefix = options.prefix}));
  return codegen::as_artifact(std::move(source));
}

bool is_this_machine(const target::Target& target) {
  return installed_gpu_number(target.name).has_value();
}

Result<codegen::Artifact> compile(const ir::Kernel& lowered, const target::Target& target,
                                  const CompileOptions& options) {
  return codegen::compile_cuda(lowered, target, {.prefix = options.prefix});
}

std::vector<cost::CompiledLaunch> compiled_launches(const codegen::Artifact& artifact) {
  std::vector<cost::CompiledLaunch> compiled;
  for (const codegen::Launch& l : artifact.launches)
    compiled.push_back({static_cast<double>(l.registers), static_cast<double>(l.shared_bytes + l.static_shared_bytes)});
  return compiled;
}

double compiled_seconds(const ir::Kernel& nest, const target::Target& target, const codegen::Artifact& artifact) {
  return cost::predict_gpu_seconds(cost::gpu_facts(nest, target, compiled_launches(artifact)),
                                   target.cuda.launch_seconds);
}

std::vector<cost::LaunchModel> launch_models(const ir::Kernel& nest, const ir::Kernel& lowered,
                                             const target::Target& target, const codegen::Artifact& artifact) {
  return cost::launch_models(nest, lowered, target, compiled_launches(artifact));
}

Result<std::unique_ptr<Machine>> open(const target::Target& target, const OpenOptions& options) {
  measure::HostMeasureOptions reference_options;
  reference_options.threads = 0;
  TCC_TRY(auto references, measure::IsolatedHostMeasurer::create(reference_options));
  measure::GpuMeasureOptions gpu;
  gpu.driver_library = options.cuda_driver;
  gpu.cupti_library = options.cupti;
  gpu.device = installed_gpu_number(target.name).value_or(0);
  gpu.budget_seconds = options.budget_seconds;
  gpu.sandbox = options.sandbox;
  gpu.compile_pool = options.compile_pool;
  TCC_TRY(auto measurer, measure::GpuMeasurer::create(*references, gpu));
  const measure::GpuDevice device = measurer->device();
  if (target::sm_name(device.target) != target::sm_name(target))
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("the GPU here, {}, is {} and '{}' is {}", device.name, target::sm_name(device.target),
                                  target.name, target::sm_name(target)),
                      "name the GPU that is here: --target cuda");
  auto machine = std::make_unique<Machine>();
  machine->name = device.name;
  machine->references = std::move(references);
  machine->measurer = std::move(measurer);
  return machine;
}

Result<codegen::Artifact> compile_ptx(const ir::Kernel& lowered, const target::Target& target,
                                      const CompileOptions& options) {
  return codegen::compile_cuda(lowered, target, {.prefix = options.prefix, .want_ptx = true});
}

size_t oldest(std::span<const target::Target> targets) {
  auto found = std::min_element(targets.begin(), targets.end(),
                                [](const auto& x, const auto& y) { return x.cuda.sm_arch < y.cuda.sm_arch; });
  return static_cast<size_t>(found - targets.begin());
}

target::Target without_suffix(const target::Target& target) {
  target::Target portable = target;
  portable.cuda.sm_suffix.clear();
  return portable;
}

// What only one architecture has (sm_90a) may not be in it: newer devices compile it.
Result<codegen::Artifact> compile_portable(const ir::Kernel& lowered, const target::Target& target,
                                           const CompileOptions& options) {
  TCC_TRY(codegen::Artifact artifact, compile_ptx(lowered, without_suffix(target), options));
  // NVRTC looks into asm statements only when it makes a cubin.
  if (!target.cuda.sm_suffix.empty()) TCC_TRY_VOID(compile(lowered, without_suffix(target), options));
  return artifact;
}

Result<void> add_texts(const ir::Kernel& lowered, const target::Target& target, const CompileOptions& options,
                       const package::Emit& emit, package::TaskCode& code) {
  if (!emit.ptx) return {};
  TCC_TRY(codegen::Artifact ptx, compile_ptx(lowered, target, options));
  code.ptx_text = std::move(ptx.code);
  return {};
}

// The oldest CUDA version that surely loads the code is that of the compiler: 13000 for 13.0.
int64_t toolkit_of(const std::vector<package::ArchitectureCode>& architectures) {
  for (const package::ArchitectureCode& a : architectures)
    for (const package::TaskCode& code : a.codes)
      if (auto found = code.artifact.facts.find("nvrtc_version"); found != code.artifact.facts.end()) {
        const auto major = static_cast<int64_t>(std::floor(found->second + 1e-9));
        return major * 1000 + std::llround((found->second - static_cast<double>(major)) * 10) * 10;
      }
  return 0;
}

Result<package::PackageReport> write(package::PackagePlan plan, std::vector<package::ArchitectureCode> code,
                                     const package::PackageOptions& options) {
  plan.architectures = std::move(code);
  plan.cuda_toolkit = toolkit_of(plan.architectures);
  return package::build_library(plan, options);
}

constexpr std::string_view kTexts[] = {"cu", "ptx", "cubin", "ir", "trace"};
constexpr Payload kCubins = {.texts = kTexts,
                             .several_targets = true,
                             .add_texts = add_texts,
                             .write = write,
                             .most_portable = oldest,
                             .portable_target = without_suffix,
                             .compile_portable = compile_portable};

}  // namespace

const Backend kCuda = {
    .kind = target::TargetKind::kCuda,
    .modules = &space::kCudaModules,
    .pipeline = lower::cuda_pipeline,
    .multiplies = multiplies,
    .mutators = schedule::mutator_weights(true),
    // On simulated GPUs pruner with trees was 1.04 times as fast after 250 trials as without (five operators, two
    // seeds).
    .verify_generations = 1,
    .prior = [](const target::Target&) { return cost::make_gpu_model(); },
    .trace_table = &features::kTraceGpu,
    .compiled_seconds = compiled_seconds,
    .launch_models = launch_models,
    .predicts = true,
    // 75 small kernels took 4 s on an H100 of 16 cores, and 44 of 4 GFLOP 8 s.
    .trials_per_second = 8,
    .measuring_cores = 1,
    .default_draws = 32,
    .default_generations = 4,
    .compile = compile,
    .payload = &kCubins,
    .isa = target::sm_name,
    .check_tunable = check_tunable,
    .check_loadable = check_loadable,
    .print = print,
    .is_this_machine = is_this_machine,
    .open = open,
};

std::optional<int> installed_gpu_number(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  name.remove_prefix(5);
  int number = -1;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size() && number >= 0;
  return whole ? std::optional(number) : std::nullopt;
}

}  // namespace tcc::backend
