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

#include "driver/cpu_build.h"
#include "driver/gpu_build.h"
#include "tcc/graph/reference.h"
#include "tcc/search/search.h"
#include "tcc/target/core_model.h"

namespace tcc::driver {
namespace {

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
  const target::CoreModel& core = target::core_model(target);
  model.plain_efficiency = core.plain_convolution_share;
  model.depthwise = {core.depthwise_share, core.depthwise_long_rows, core.depthwise_half_row, core.depthwise_cap,
                     core.depthwise_strided};
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
  program.groups = graph::fuse(program.graph, {.attention = true});
  TCC_TRY(program.tasks, task::extract_tasks(program.graph, program.groups));
  for (const graph::FusionGroup& group : program.groups) program.flops += graph::group_flops(program.graph, group);
  return program;
}

Result<BuildReport> build_model(const Model& model, const BuildOptions& given) {
  BuildOptions options = given;
  if (options.target.is_cuda() && options.gpus.empty()) options.gpus = {options.target};
  TCC_TRY(Program program, make_program(model, options.target));
  const graph::MemoryPlan memory = graph::plan_memory(program.graph, program.groups);
  BuildReport report;
  package::PackagePlan plan;
  plan.graph = &program.graph;
  plan.groups = &program.groups;
  plan.memory = &memory;
  plan.tasks = &program.tasks;
  plan.target = options.target;
  if (options.target.is_cpu()) {
    TCC_TRY(std::vector<search::ChosenArtifact> chosen, choose_for_cpu(program, options, report.kernels));
    if (options.require_tuned) TCC_TRY_VOID(refuse_untuned(report.kernels));
    TCC_TRY(plan.codes, finish_for_cpu(program, options, std::move(chosen), report.kernels));
  } else {
    TCC_TRY(plan.architectures, compile_for_gpus(program, options, report.kernels));
    plan.cuda_toolkit = toolkit_of(plan.architectures);
    if (options.require_tuned) TCC_TRY_VOID(refuse_untuned(report.kernels));
  }
  report.id = options.id.empty() ? package::make_id(model_stem(model.source.model)) : options.id;
  const package::PackageOptions package_options{
      options.folder, report.id, tool_version(), source_to_json(model, program.flops), options.linker, options.emit};
  TCC_TRY(report.package, package::build_library(plan, package_options));
  return report;
}

}  // namespace tcc::driver
