#include "driver/gpu_build.h"

#include <algorithm>
#include <sstream>

#include "driver/gpu_choice.h"
#include "tcc/codegen/cuda.h"
#include "tcc/driver/gpu_target.h"
#include "tcc/ir/text.h"
#include "tcc/search/search.h"
#include "tcc/support/parallel.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

using package::ArchitectureCode;
using package::Origin;
using package::TaskCode;

// The same program as PTX; code that only one architecture has is not left in it.
Result<codegen::Artifact> compile_ptx(const search::Chosen& program, const target::Target& target,
                                      const std::string& prefix) {
  codegen::CudaOptions options;
  options.prefix = prefix;
  options.want_ptx = true;
  return codegen::compile_cuda(program.lowered, target, options);
}

std::string prefix_of(size_t task) {
  return fmt::format("k{}", task);
}

// All tasks for all targets, in the order target by target.
Result<std::vector<GpuKernel>> choose_all(const Program& program, const BuildOptions& options) {
  const std::vector<task::Task>& tasks = program.tasks.tasks;
  std::vector<Result<GpuKernel>> results(tasks.size() * options.gpus.size());
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  pool.parallel_for(static_cast<int64_t>(results.size()), [&](int64_t i, int) {
    const auto n = static_cast<size_t>(i), task = n % tasks.size();
    results[n] = choose_gpu_kernel(tasks[task], options.gpus[n / tasks.size()], options.store, prefix_of(task));
  });
  std::vector<GpuKernel> kernels;
  for (size_t n = 0; n < results.size(); ++n) {
    if (!results[n])
      return tl::make_unexpected(std::move(results[n])
                                     .error()
                                     .with_context(fmt::format("{}, for {}", tasks[n % tasks.size()].workload,
                                                               options.gpus[n / tasks.size()].name)));
    kernels.push_back(std::move(*results[n]));
  }
  return kernels;
}

// PTX of the oldest architecture. What only that very one has (sm_90a) may not be in it: newer devices compile it.
Result<ArchitectureCode> add_ptx(const Program& program, const BuildOptions& options,
                                 const std::vector<GpuKernel>& kernels) {
  const auto oldest = std::min_element(options.gpus.begin(), options.gpus.end(),
                                       [](const auto& x, const auto& y) { return x.cuda.sm_arch < y.cuda.sm_arch; });
  const size_t tasks = program.tasks.tasks.size();
  const size_t first = static_cast<size_t>(oldest - options.gpus.begin()) * tasks;
  ArchitectureCode code{*oldest, true, {}};
  const bool specific = !code.target.cuda.sm_suffix.empty();
  code.target.cuda.sm_suffix.clear();
  for (size_t t = 0; t < tasks; ++t) {
    const GpuKernel& kernel = kernels[first + t];
    auto artifact = compile_ptx(kernel.program, code.target, prefix_of(t));
    // NVRTC looks into asm statements only when it makes a cubin.
    if (artifact && specific)
      if (auto cubin = codegen::compile_cuda(kernel.program.lowered, code.target); !cubin)
        artifact = tl::make_unexpected(std::move(cubin).error());
    if (!artifact) {
      Error error = std::move(artifact).error();
      error.message = fmt::format("{}: no PTX for --allow-jit: {}", program.tasks.tasks[t].workload, error.message);
      error.hint = "add an older target for the PTX, such as a100, or build without --allow-jit";
      return tl::make_unexpected(std::move(error));
    }
    code.codes.push_back({std::move(*artifact), 0, "", "", "", kernel.origin});
  }
  return code;
}

Result<TaskCode> task_code(GpuKernel kernel, const target::Target& target, const BuildOptions& options, size_t task) {
  TaskCode code;
  if (options.emit.ptx) {
    TCC_TRY(codegen::Artifact ptx, compile_ptx(kernel.program, target, prefix_of(task)));
    code.ptx_text = std::move(ptx.code);
  }
  if (options.emit.ir) code.ir = ir::print(kernel.program.lowered);
  code.trace = kernel.program.tuned ? kernel.program.trace : "";
  code.seconds = kernel.program.seconds;
  code.origin = kernel.origin;
  code.artifact = std::move(kernel.artifact);
  return code;
}

}  // namespace

Result<std::vector<ArchitectureCode>> compile_for_gpus(const Program& program, const BuildOptions& options,
                                                       std::vector<KernelChoice>& kernels) {
  TCC_TRY_VOID(codegen::nvrtc_version());
  TCC_TRY(std::vector<GpuKernel> chosen, choose_all(program, options));
  const std::vector<task::Task>& tasks = program.tasks.tasks;
  for (size_t n = 0; n < chosen.size(); ++n) {
    const task::Task& task = tasks[n % tasks.size()];
    const search::Chosen& c = chosen[n].program;
    kernels.push_back({task.key, task.workload, task.weight, c.tuned, c.seconds, c.note, 0,
                       options.gpus[n / tasks.size()].name, chosen[n].origin});
  }
  std::optional<ArchitectureCode> ptx;
  if (options.allow_jit) {
    TCC_TRY(ptx, add_ptx(program, options, chosen));
  }
  std::vector<ArchitectureCode> all;
  for (size_t g = 0; g < options.gpus.size(); ++g) {
    ArchitectureCode architecture{options.gpus[g], false, {}};
    for (size_t t = 0; t < tasks.size(); ++t) {
      TCC_TRY(TaskCode code, task_code(std::move(chosen[g * tasks.size() + t]), options.gpus[g], options, t));
      architecture.codes.push_back(std::move(code));
    }
    all.push_back(std::move(architecture));
  }
  if (ptx) all.push_back(std::move(*ptx));
  return all;
}

Result<std::vector<target::Target>> find_targets(const std::string& names, const std::string& cuda_driver) {
  std::vector<target::Target> targets;
  std::istringstream words(names);
  for (std::string word; std::getline(words, word, ',');) {
    TCC_TRY(target::Target target, find_target(word, cuda_driver));
    for (const target::Target& other : targets) {
      if (!target.is_cuda() || !other.is_cuda())
        return make_error(ErrorClass::kUsage, fmt::format("--target {}: a CPU is a target by itself", sanitize(names)),
                          "name one target, or several GPUs as a100,h100");
      if (target.cuda.sm_arch == other.cuda.sm_arch)
        return make_error(ErrorClass::kUsage,
                          fmt::format("--target: {} and {} are both {}; a library holds one code for each architecture",
                                      other.name, target.name, target::sm_name(target)),
                          fmt::format("name one of them, or build a library for each"));
    }
    targets.push_back(std::move(target));
  }
  if (targets.empty()) return make_error(ErrorClass::kUsage, "--target names nothing", "`tcc targets` lists them");
  return targets;
}

int64_t toolkit_of(const std::vector<ArchitectureCode>& architectures) {
  for (const ArchitectureCode& a : architectures)
    for (const TaskCode& code : a.codes)
      if (auto found = code.artifact.facts.find("nvrtc_version"); found != code.artifact.facts.end()) {
        const auto major = static_cast<int64_t>(std::floor(found->second + 1e-9));
        return major * 1000 + std::llround((found->second - static_cast<double>(major)) * 10) * 10;
      }
  return 0;
}

}  // namespace tcc::driver
