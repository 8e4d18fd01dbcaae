#include "driver/cpu_build.h"

#include "driver/lazy_gate.h"
#include "driver/listing.h"
#include "driver/loss.h"
#include "tcc/ir/text.h"
#include "tcc/support/parallel.h"

namespace tcc::driver {
namespace {

using package::Origin;

Origin origin_of(const search::Chosen& program) {
  return program.tuned ? Origin::kMeasured : Origin::kDefault;
}

// Tasks are independent of each other.
Result<std::vector<search::ChosenArtifact>> choose_kernels(const Program& program, const BuildOptions& options) {
  const std::vector<task::Task>& tasks = program.tasks.tasks;
  std::vector<Result<search::ChosenArtifact>> results(tasks.size());
  LazyGate lazy(options.target, options.threads);
  const search::Gate gate = options.store != nullptr ? lazy.gate() : search::Gate();
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  pool.parallel_for(static_cast<int64_t>(tasks.size()), [&](int64_t i, int) {
    auto n = static_cast<size_t>(i);
    results[n] =
        search::best_artifact(tasks[n], options.target, options.store, options.threads, fmt::format("k{}", i), gate);
  });
  std::vector<search::ChosenArtifact> chosen;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (!results[i]) return tl::make_unexpected(std::move(results[i]).error().with_context(tasks[i].workload));
    chosen.push_back(std::move(*results[i]));
  }
  return chosen;
}

}  // namespace

Result<std::vector<search::ChosenArtifact>> choose_for_cpu(const Program& program, const BuildOptions& options,
                                                           std::vector<KernelChoice>& kernels) {
  TCC_TRY(std::vector<search::ChosenArtifact> chosen, choose_kernels(program, options));
  for (size_t i = 0; i < chosen.size(); ++i) {
    const task::Task& task = program.tasks.tasks[i];
    const search::Chosen& choice = chosen[i].program;
    kernels.push_back(
        {task.key, task.workload, task.weight, choice.tuned, choice.seconds, choice.note, 0, "", origin_of(choice)});
  }
  return chosen;
}

Result<std::vector<package::TaskCode>> finish_for_cpu(const Program& program, const BuildOptions& options,
                                                      std::vector<search::ChosenArtifact> chosen,
                                                      std::vector<KernelChoice>& kernels) {
  if (options.estimate_losses) {
    TCC_TRY(std::vector<double> losses,
            estimate_slowdowns(program.tasks.tasks, chosen, options.target, options.threads));
    for (size_t i = 0; i < losses.size(); ++i) kernels[i].loss = losses[i];
  }
  std::vector<package::TaskCode> codes;
  for (search::ChosenArtifact& kernel : chosen) {
    if (options.emit.llvm) TCC_TRY_VOID(add_llvm_listing(kernel, options.target, fmt::format("k{}", codes.size())));
    package::TaskCode code;
    code.ir = options.emit.ir ? ir::print(kernel.program.lowered) : "";
    code.trace = kernel.program.tuned ? kernel.program.trace : "";
    code.seconds = kernel.program.seconds;
    code.origin = origin_of(kernel.program);
    code.artifact = std::move(kernel.artifact);
    codes.push_back(std::move(code));
  }
  return codes;
}

}  // namespace tcc::driver
