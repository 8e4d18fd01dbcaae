// The way from an ONNX model to a library, in order:
//
//   load       bytes -> graph, weights replaced where asked          (driver/model, onnx)
//   optimise   constants folded, BatchNorm folded, dead nodes gone   (graph)
//   fuse       nodes -> groups                                       (graph)
//   tasks      groups -> plain loop nests, equal ones once           (task)
//   [tune      loop nests -> records in the store                    (driver/tune, search)]
//   choose     best record of each task -> program -> object code    (search, lower, codegen)
//   plan       where each value between groups lives                 (graph)
//   package    objects + weights + plan + rt -> libID.so             (package)
#include "tcc/driver/compile.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "driver/lazy_gate.h"
#include "driver/listing.h"
#include "driver/loss.h"
#include "tcc/graph/reference.h"
#include "tcc/ir/text.h"
#include "tcc/search/search.h"
#include "tcc/support/parallel.h"

namespace tcc::driver {
namespace {

// The chosen program of every task, compiled; tasks are independent of each other.
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

Result<void> refuse_untuned(const std::vector<KernelChoice>& kernels) {
  std::vector<std::string> untuned;
  for (const KernelChoice& kernel : kernels)
    if (!kernel.tuned) untuned.push_back(fmt::format("{} {}", kernel.key, kernel.note));
  if (untuned.empty()) return {};
  std::string message = fmt::format("{} of {} kernels are not tuned", untuned.size(), kernels.size());
  return make_error(ErrorClass::kInput, message, "run `tcc tune` on this model first, or build without --require-tuned",
                    untuned);
}

std::optional<graph::LayoutModel> layout_model(Layouts layouts, const target::Target& target) {
  if (layouts == Layouts::kPlain || !target.is_cpu()) return std::nullopt;
  graph::LayoutModel model;
  model.block = std::max<int64_t>(target.cpu.vector_bits / 32, 4);
  model.plain_efficiency = 1.0;        // measured on ResNet-50's convolutions, AVX2: half of them favour either layout
  if (layouts == Layouts::kBlocked) {  // whatever it costs
    model.plain_efficiency = 1e-6;
    model.bytes_per_second = 1e15;
  }
  return model;
}

}  // namespace

std::string tool_version() {
  return TCC_VERSION;
}

uint64_t task_key_hash(const std::string& key) {
  uint64_t hash = 0;
  std::from_chars(key.data(), key.data() + key.size(), hash, 16);
  return hash;
}

Result<Program> make_program(const Model& model, const target::Target& target) {
  Program program;
  program.graph = model.graph;
  auto evaluator = graph::reference_evaluator();
  graph::OptimizeOptions options;
  options.layouts = layout_model(model.source.layouts, target);
  options.winograd = model.source.winograd;
  TCC_TRY_VOID(graph::optimize(program.graph, evaluator.get(), options));
  program.groups = graph::fuse(program.graph);
  TCC_TRY(program.tasks, task::extract_tasks(program.graph, program.groups));
  for (const graph::FusionGroup& group : program.groups) program.flops += graph::group_flops(program.graph, group);
  return program;
}

Result<BuildReport> build_model(const Model& model, const BuildOptions& options) {
  if (!options.target.is_cpu()) {
    return make_error(ErrorClass::kInput,
                      fmt::format("libraries cannot be built for '{}': only CPU targets can", options.target.name),
                      "`tcc targets` lists them");
  }
  TCC_TRY(Program program, make_program(model, options.target));
  TCC_TRY(std::vector<search::ChosenArtifact> chosen, choose_kernels(program, options));

  BuildReport report;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const task::Task& task = program.tasks.tasks[i];
    const search::Chosen& choice = chosen[i].program;
    report.kernels.push_back({task.key, task.workload, task.weight, choice.tuned, choice.seconds, choice.note});
  }
  if (options.require_tuned) TCC_TRY_VOID(refuse_untuned(report.kernels));
  if (options.estimate_losses) {
    TCC_TRY(std::vector<double> losses, expected_losses(program.tasks.tasks, chosen, options.target, options.threads));
    for (size_t i = 0; i < losses.size(); ++i) report.kernels[i].loss = losses[i];
  }

  const graph::MemoryPlan memory = graph::plan_memory(program.graph, program.groups);
  package::PackagePlan plan;
  plan.graph = &program.graph;
  plan.groups = &program.groups;
  plan.memory = &memory;
  plan.tasks = &program.tasks;
  plan.target = options.target;
  for (search::ChosenArtifact& kernel : chosen) {
    if (options.emit.llvm)
      TCC_TRY_VOID(add_llvm_listing(kernel, options.target, fmt::format("k{}", plan.codes.size())));
    std::string ir = options.emit.ir ? ir::print(kernel.program.lowered) : "";
    std::string trace = kernel.program.tuned ? kernel.program.trace : "";
    plan.codes.push_back({std::move(kernel.artifact), kernel.program.seconds, std::move(trace), std::move(ir)});
  }
  report.id = options.id.empty() ? package::make_id(model_stem(model.source.model)) : options.id;
  const package::PackageOptions package_options{
      options.folder, report.id, tool_version(), source_to_json(model, program.flops), options.linker, options.emit};
  TCC_TRY(report.package, package::build_library(plan, package_options));
  return report;
}

}  // namespace tcc::driver
