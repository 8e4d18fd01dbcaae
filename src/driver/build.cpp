#include "driver/build.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "driver/launch_models.h"
#include "driver/lazy_gate.h"
#include "driver/slowdown.h"
#include "tcc/analysis/overwrites.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/gpu_target.h"
#include "tcc/ir/text.h"
#include "tcc/support/parallel.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

using package::ArchitectureCode;
using package::Origin;
using package::TaskCode;

// Of symbols: of the kernels for a CPU's first target, and for GPUs, "k3"; of those for further CPUs "k3_1".
std::string prefix_of(size_t task, size_t target = 0) {
  return target == 0 ? fmt::format("k{}", task) : fmt::format("k{}_{}", task, target);
}
// Code for GPUs is in files of its own, where names need not differ.
size_t target_in_symbols(const BuildOptions& options, size_t target) {
  return backend::backend_of(options.targets[0]).by_threads ? target : 0;
}

Origin origin_of(const search::Chosen& program) {
  return program.predicted ? Origin::kPredicted : program.tuned ? Origin::kMeasured : Origin::kDefault;
}

// Code of the most portable target's kernels that newer devices compile for themselves.
Result<ArchitectureCode> portable_code(const Program& program, const BuildOptions& options,
                                       const std::vector<search::ChosenArtifact>& kernels) {
  const backend::Payload& payload = *backend::backend_of(options.targets[0]).payload;
  const size_t at = payload.most_portable(options.targets), tasks = program.tasks.tasks.size();
  ArchitectureCode code{payload.portable_target(options.targets[at]), true, {}};
  for (size_t t = 0; t < tasks; ++t) {
    const search::Chosen& chosen = kernels[at * tasks + t].program;
    auto artifact = payload.compile_portable(chosen.lowered, options.targets[at], {.prefix = prefix_of(t)});
    if (!artifact) {
      Error error = std::move(artifact).error();
      error.message = fmt::format("{}: no PTX for --allow-jit: {}", program.tasks.tasks[t].workload, error.message);
      error.hint = "add an older target for the PTX, such as a100, or build without --allow-jit";
      return tl::make_unexpected(std::move(error));
    }
    code.codes.push_back({std::move(*artifact), 0, "", "", "", "", origin_of(chosen)});
  }
  return code;
}

Result<TaskCode> task_code(const Program& program, search::ChosenArtifact kernel, size_t number,
                           const BuildOptions& options, size_t task) {
  const target::Target& target = options.targets[number];
  TaskCode code;
  const auto models = launch_models_of(kernel.program, kernel.artifact, program.tasks.tasks[task], target);
  if (!models.empty()) code.launch_models = cost::launch_models_to_json<nlohmann::json>(models).dump();
  if (options.emit.ir) code.ir = ir::print(kernel.program.lowered);
  code.trace = kernel.program.tuned ? kernel.program.trace : "";
  code.seconds = kernel.program.seconds;
  code.origin = origin_of(kernel.program);
  code.artifact = std::move(kernel.artifact);
  if (auto add_texts = backend::backend_of(target).payload->add_texts)
    TCC_TRY_VOID(add_texts(kernel.program.lowered, target,
                           {.prefix = prefix_of(task, target_in_symbols(options, number))}, options.emit, code));
  return code;
}

}  // namespace

Result<std::vector<search::ChosenArtifact>> choose_kernels(const Program& program, const BuildOptions& options) {
  const std::vector<task::Task>& tasks = program.tasks.tasks;
  std::vector<Result<search::ChosenArtifact>> results(tasks.size() * options.targets.size());
  LazyGate lazy(options.targets[0], options.threads);
  const search::Gate gate = options.store != nullptr ? lazy.gate() : search::Gate();
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  parallel_for(&pool, std::ssize(results), [&](int64_t i) {
    const auto n = static_cast<size_t>(i), task = n % tasks.size();
    results[n] =
        search::best_artifact(tasks[task], options.targets[n / tasks.size()], options.store, options.threads,
                              prefix_of(task, target_in_symbols(options, n / tasks.size())), gate, options.defaults);
  });
  std::vector<search::ChosenArtifact> kernels;
  for (size_t n = 0; n < results.size(); ++n) {
    if (!results[n])
      return tl::make_unexpected(std::move(results[n])
                                     .error()
                                     .with_context(fmt::format("{}, for {}", tasks[n % tasks.size()].workload,
                                                               options.targets[n / tasks.size()].name)));
    kernels.push_back(std::move(*results[n]));
  }
  return kernels;
}

Result<std::vector<KernelChoice>> describe_kernels(const Program& program, const BuildOptions& options,
                                                   const std::vector<search::ChosenArtifact>& kernels) {
  const std::vector<task::Task>& tasks = program.tasks.tasks;
  std::vector<KernelChoice> choices;
  for (size_t n = 0; n < kernels.size(); ++n) {
    const task::Task& task = tasks[n % tasks.size()];
    const search::Chosen& c = kernels[n].program;
    const target::Target& target = options.targets[n / tasks.size()];
    choices.push_back({task.key, task.workload, task.nodes, task.weight, c.tuned, c.seconds, c.note, 0, target.name,
                       origin_of(c), c.source, c.reason, c.passed_over, target.cuda.calibrated});
  }
  if (!options.estimate_slowdowns) return choices;
  TCC_TRY(std::vector<double> slowdowns, estimate_slowdowns(tasks, kernels, options.targets[0], options.threads));
  for (size_t i = 0; i < slowdowns.size(); ++i) choices[i].slowdown = slowdowns[i];
  return choices;
}

std::vector<graph::GroupMemory> memory_of_groups(const Program& program, const BuildOptions& options,
                                                 const std::vector<search::ChosenArtifact>& kernels) {
  const size_t tasks = program.tasks.tasks.size();
  const bool may_overwrite = backend::backend_of(options.targets[0]).payload->overwrites_inputs;
  struct TaskMemory {
    int64_t scratch_bytes = 0;
    std::vector<int> overwritable;
  };
  std::vector<TaskMemory> by_task(tasks);
  for (size_t n = 0; n < kernels.size(); ++n) {
    TaskMemory& memory = by_task[n % tasks];
    memory.scratch_bytes = std::max(memory.scratch_bytes, package::scratch_bytes(kernels[n].artifact));
    if (!may_overwrite) continue;
    const std::vector<int> allowed = analysis::overwritable_inputs(kernels[n].program.lowered);
    if (n < tasks)
      memory.overwritable = allowed;
    else
      std::erase_if(memory.overwritable, [&](int i) { return std::count(allowed.begin(), allowed.end(), i) == 0; });
  }
  std::vector<graph::GroupMemory> groups;
  for (const task::GroupBinding& binding : program.tasks.bindings) {
    const TaskMemory& memory = by_task[static_cast<size_t>(binding.task)];
    graph::GroupMemory& group = groups.emplace_back();
    group.scratch_bytes = memory.scratch_bytes;
    // A value may be several parameters.
    const auto allowed = [&](graph::ValueId value) {
      for (size_t p = 0; p < binding.params.size(); ++p)
        if (binding.params[p].value == value &&
            std::count(memory.overwritable.begin(), memory.overwritable.end(), static_cast<int>(p)) == 0)
          return false;
      return true;
    };
    for (const int i : memory.overwritable)
      if (const graph::ValueId value = binding.params[static_cast<size_t>(i)].value; allowed(value))
        group.overwritable.push_back(value);
  }
  return groups;
}

Result<std::vector<ArchitectureCode>> package_kernels(const Program& program, const BuildOptions& options,
                                                      std::vector<search::ChosenArtifact> kernels) {
  const size_t tasks = program.tasks.tasks.size();
  std::vector<ArchitectureCode> all;
  std::optional<ArchitectureCode> portable;
  if (options.allow_jit) {
    TCC_TRY(portable, portable_code(program, options, kernels));
  }
  for (size_t g = 0; g < options.targets.size(); ++g) {
    ArchitectureCode architecture{options.targets[g], false, {}};
    for (size_t t = 0; t < tasks; ++t) {
      TCC_TRY(TaskCode code, task_code(program, std::move(kernels[g * tasks + t]), g, options, t));
      architecture.codes.push_back(std::move(code));
    }
    all.push_back(std::move(architecture));
  }
  if (portable) all.push_back(std::move(*portable));
  return all;
}

Result<std::vector<target::Target>> find_targets(const std::string& names, const GpuSources& sources) {
  std::vector<target::Target> targets;
  std::istringstream words(names);
  for (std::string word; std::getline(words, word, ',');) {
    TCC_TRY(target::Target target, find_target(word, sources));
    const backend::Backend& backend = backend::backend_of(target);
    for (const target::Target& other : targets) {
      if (other.kind != target.kind || !backend.payload->several_targets)
        return make_error(ErrorClass::kUsage,
                          fmt::format("--target {}: a library is for CPUs or for GPUs", sanitize(names)),
                          "name several GPUs as a100,h100, or several CPUs as x86-64-v4,x86-64-v3");
      if (backend.isa(target) == backend.isa(other))
        return make_error(ErrorClass::kUsage,
                          fmt::format("--target: {} and {} are both {}; a library holds one code for each architecture",
                                      other.name, target.name, backend.isa(target)),
                          fmt::format("name one of them, or build a library for each"));
    }
    targets.push_back(std::move(target));
  }
  if (targets.empty()) return make_error(ErrorClass::kUsage, "--target names nothing", "`tcc targets` lists them");
  // A CPU takes the first code that it has the features for.
  std::stable_sort(targets.begin(), targets.end(), [](const target::Target& a, const target::Target& b) {
    return target::isa_level(a) > target::isa_level(b);
  });
  return targets;
}

}  // namespace tcc::driver
