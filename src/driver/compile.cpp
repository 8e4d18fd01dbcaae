// The way from an ONNX model to a library, in order:
//
//   load       bytes -> graph, weights replaced where asked          (driver/model, onnx)
//   optimize   constants folded, BatchNorm folded, dead nodes gone   (graph)
//   fuse       nodes -> groups                                       (graph)
//   tasks      groups -> plain loop nests, equal ones once           (task)
//   forms      convolutions: direct or Winograd, as records say      (driver/forms)
//   [tune      loop nests -> records in the store                    (driver/tune, search)]
//   choose     best record of each task -> program -> object code    (search, lower, codegen)
//   plan       where each value between groups lives                 (graph)
//   package    objects + weights + plan + rt -> libID.so             (package)
#include "tcc/driver/compile.h"

#include <algorithm>
#include <optional>

#include "driver/build.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/dynamic.h"
#include "tcc/driver/forms.h"
#include "tcc/graph/byte_functions.h"
#include "tcc/graph/reference.h"
#include "tcc/graph/resample_order.h"
#include "tcc/graph/split_reductions.h"
#include "tcc/search/search.h"
#include "tcc/support/text.h"
#include "tcc/target/core_model.h"
#include "tcc/target/features.h"

namespace tcc::driver {
namespace {

Result<void> refuse_untuned(const std::vector<KernelChoice>& kernels) {
  std::vector<std::string> untuned, stale;
  for (const KernelChoice& kernel : kernels) {
    if (!kernel.tuned) untuned.push_back(fmt::format("{} {}", kernel.key, kernel.note));
    if (kernel.tuned && !kernel.passed_over.empty())
      stale.push_back(fmt::format("{} {}: {}", kernel.key, kernel.workload, kernel.passed_over[0]));
  }
  if (untuned.empty() && stale.empty()) return {};
  if (untuned.empty())
    return make_error(
        ErrorClass::kInput,
        fmt::format("the best records of {} of {} kernels no longer give their programs", stale.size(), kernels.size()),
        "run `tcc tune` on this model again, or build without --require-tuned to take the next best", stale);
  std::string message = fmt::format("{} of {} kernels are not tuned", untuned.size(), kernels.size());
  return make_error(ErrorClass::kInput, message, "run `tcc tune` on this model first, or build without --require-tuned",
                    untuned);
}

// What the choice of layouts knows of the target; nothing where the target has no blocked layouts, or nobody asks.
std::optional<graph::LayoutModel> layout_model(Layouts layouts, const target::Target& target) {
  const backend::Backend& backend = backend::backend_of(target);
  if (layouts == Layouts::kPlain || backend.channel_block == nullptr) return std::nullopt;
  graph::LayoutModel model;
  model.block = backend.channel_block(target, false);
  model.byte_block = backend.channel_block(target, true);
  model.fills_byte_blocks = true;
  const target::CoreModel& core = target::core_model(target);
  model.plain_efficiency = core.plain_convolution_share;
  model.depthwise = {core.depthwise_share, core.depthwise_long_rows, core.depthwise_half_row, core.depthwise_cap,
                     core.depthwise_strided};
  model.always_blocked = layouts == Layouts::kBlocked;
  return model;
}

// Layouts of convolutions of bytes on GPUs. With channels side by side, 32 for one matrix instruction, copies into
// shared memory have 16 bytes, and fragments are loaded as tiles. Else each byte of the image is copied by itself. The
// share is that of instructions of a convolution of 3x3 and 32 channels, as the emulation counts them, in both layouts.
// The other numbers are the model's own: 10 operations take as long as a byte of memory.
std::optional<graph::LayoutModel> byte_layouts(const target::Target& target) {
  if (!target.cuda.features.mma_m16n8k16) return std::nullopt;
  graph::LayoutModel model;
  model.block = model.byte_block = 32;
  model.plain_efficiency = 0.6;
  return model;
}

// Before anything is compiled: a target that no library can be built for.
Result<void> check_buildable(std::span<const target::Target> targets) {
  for (const target::Target& target : targets) {
    if (target::is_simulated(target))
      return make_error(ErrorClass::kUsage,
                        fmt::format("target '{}': expected a device, found a simulated GPU (seed {}), whose times no "
                                    "device has",
                                    sanitize(target.name), target.cuda.simulated),
                        "remove \"simulated\" from the target's \"cuda\" section");
    const backend::Backend& backend = backend::backend_of(target);
    auto loadable = backend.check_loadable(target);
    if (loadable) continue;
    Error error = std::move(loadable).error();
    if (backend.print != nullptr)
      error.notes.push_back(fmt::format(
          "without it {1}`tcc show MODEL --target {0} --task K --source` prints the source text of a kernel",
          target.name,
          // On a device that is here programs would have to run.
          backend::installed_gpu_number(target.name)
              ? std::string()
              : fmt::format("`tcc tune --target {}` predicts, and ", target.name)));
    return tl::make_unexpected(std::move(error));
  }
  return {};
}

}  // namespace

std::string tool_version() {
  return TCC_VERSION;
}

Result<void> check_precision(target::Precision precision, const target::Target& target) {
  const auto multiplies = backend::backend_of(target).multiplies;
  if (multiplies(target, precision)) return {};
  target::Precision nearest = target::Precision::kF32;
  for (target::Precision other : {target::Precision::kTf32, target::Precision::kBF16, target::Precision::kF16})
    if (multiplies(target, other)) nearest = other;
  return make_error(
      ErrorClass::kUsage,
      fmt::format("--precision {0}: expected a target that multiplies {0}, found {1}, which has no instruction for it",
                  target::precision_name(precision), target.name),
      fmt::format("use --precision {}, or another --target; `tcc targets {}` lists what it has",
                  target::precision_name(nearest), target.name));
}

namespace {

// Dot products of integers of 8 bits read neighboring channels, so that blocks are worth more than conversions.
bool convolves_bytes(const graph::Graph& graph) {
  const bool bytes = std::any_of(graph.values.begin(), graph.values.end(),
                                 [](const graph::Value& v) { return graph::is_byte(v.dtype); });
  return bytes && std::any_of(graph.order.begin(), graph.order.end(),
                              [&](graph::NodeId id) { return graph.node(id).op == graph::Op::kConv; });
}

}  // namespace

task::TaskOptions task_options(const ModelSource& source, const target::Target& target) {
  task::TaskOptions options;
  options.tf32 = source.precision == target::Precision::kTf32;
  options.in_order = backend::backend_of(target).runs_unscheduled;
  if (options.in_order) options.register_floats = target.cpu.num_vector_registers * target.cpu.vector_bits / 32;
  return options;
}

namespace {

// Halves that a CPU does not multiply. Kernels of GPUs convert what they bring to shared memory, once.
std::vector<graph::DType> widened_types(const target::Target& target) {
  const auto multiplies = backend::backend_of(target).multiplies;
  std::vector<graph::DType> types;
  if (!backend::backend_of(target).by_threads) return types;
  if (!multiplies(target, target::Precision::kF16)) types.push_back(graph::DType::kF16);
  if (!multiplies(target, target::Precision::kBF16)) types.push_back(graph::DType::kBF16);
  return types;
}

}  // namespace

Result<void> optimize_graph(graph::Graph& graph, const ModelSource& source, const target::Target& target) {
  auto evaluator = graph::reference_evaluator();
  const bool by_threads = backend::backend_of(target).by_threads;
  const bool shapes_are_known = source.ranges.empty() && graph.counts == 0;
  if (by_threads) graph::separate_resamples(graph);
  if (by_threads && shapes_are_known) graph::split_reductions(graph);
  graph::OptimizeOptions options;
  const bool asks = source.layouts == Layouts::kPlain && convolves_bytes(graph);
  options.layouts = layout_model(asks ? Layouts::kAuto : source.layouts, target);
  if (asks && !options.layouts) options.layouts = byte_layouts(target);
  options.winograd = source.winograd == kAutoForm ? 0 : source.winograd;
  options.winograd_transform = target::core_model(target).winograd_transform;
  if (source.precision == target::Precision::kF16) options.precision = graph::DType::kF16;
  if (source.precision == target::Precision::kBF16) options.precision = graph::DType::kBF16;
  options.widened = widened_types(target);
  options.signed_bytes = target::multiplies_signed_bytes(target);
  options.fast_math = source.fast_math;
  options.packed_weights = backend::backend_of(target).runs_unscheduled;
  options.transpose_weights = source.precision == target::Precision::kTf32;
  TCC_TRY_VOID(graph::optimize(graph, evaluator.get(), options));
  // Where tables of bytes stay in registers.
  if (by_threads && shapes_are_known && target.cpu.features.avx512_vbmi)
    TCC_TRY_VOID(graph::tabulate_byte_functions(graph, *evaluator));
  return {};
}

namespace {

// One bucket, whose counts are at most the extents of their axes.
package::DynamicPlan counted_plan(const graph::Graph& graph, size_t steps) {
  package::DynamicPlan plan;
  auto fixed = [&](graph::ValueId id) {
    graph::SymbolicShape shape;
    for (int64_t extent : graph.value(id).shape)
      shape.push_back(extent == 1 ? graph::SymbolicAxis{} : graph::SymbolicAxis{{-1, 0, extent}});
    return shape;
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    plan.inputs.push_back(fixed(graph.inputs[i]));
    plan.input_numbers.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) plan.output_numbers.push_back(static_cast<int32_t>(i));
  for (size_t i = 0; i < graph.model_outputs(); ++i) plan.outputs.push_back(fixed(graph.outputs[i]));
  plan.counts = graph.counts;
  plan.buckets.push_back({std::vector<int64_t>(static_cast<size_t>(graph.counts), 0), 0, static_cast<int64_t>(steps)});
  for (const graph::CountedAxis& a : graph.counted_axes) {
    const auto output = static_cast<size_t>(a.output), axis = static_cast<size_t>(a.axis);
    plan.buckets[0].bounds[static_cast<size_t>(a.count)] = graph.value(graph.outputs[output]).shape[axis];
    plan.outputs[output][axis] = {{a.count, 1, 0}};
  }
  plan.appends_to.assign(plan.outputs.size(), graph::kNone);
  plan.append_axis.assign(plan.outputs.size(), 0);
  return plan;
}

}  // namespace

// Optimize, fuse, tasks.
Result<Program> cut_into_tasks(const Model& model, const target::Target& target, const FormRecords& records) {
  if (!model.source.ranges.empty()) return make_dynamic_program(model, target, records);
  if (model.graph.counts > 0 && !backend::backend_of(target).runs_on_host(target))
    return make_error(
        ErrorClass::kUsage,
        fmt::format("output '{}' has an extent that is known at run time only: expected a CPU as target, "
                    "found '{}'",
                    sanitize(model.graph.output_names[static_cast<size_t>(model.graph.counted_axes.at(0).output)]),
                    sanitize(target.name)),
        "take --target host, or end the model at tensors of fixed shape");
  Program program;
  program.graph = model.graph;
  TCC_TRY_VOID(optimize_graph(program.graph, model.source, target));
  program.groups = graph::fuse(program.graph, {.attention = true});
  if (program.graph.counts > 0) program.dynamic = counted_plan(program.graph, program.groups.size());
  TCC_TRY(program.tasks, task::extract_tasks(program.graph, program.groups, task_options(model.source, target)));
  for (const graph::FusionGroup& group : program.groups) program.flops += graph::group_flops(program.graph, group);
  TCC_TRY_VOID(decide_forms(program, model.source, target, records));
  return program;
}

Result<Program> make_program(const Model& model, const target::Target& target, const FormRecords& records) {
  TCC_TRY_VOID(check_precision(model.source.precision, target));
  return cut_into_tasks(model, target, records);
}

Result<BuildReport> build_model(const Model& model, const BuildOptions& options) {
  TCC_TRY_VOID(check_buildable(options.targets));
  for (const target::Target& target : options.targets) TCC_TRY_VOID(check_precision(model.source.precision, target));
  // The model is loaded. Optimize, fuse, tasks.
  TCC_TRY(Program program, cut_into_tasks(model, options.targets.at(0),
                                          {.store = options.store, .threads = options.threads, .estimated = true}));
  // Choose.
  BuildReport report;
  TCC_TRY(std::vector<search::ChosenArtifact> kernels, choose_kernels(program, options));
  TCC_TRY(report.kernels, describe_kernels(program, options, kernels));
  report.refused_forms = program.refused_forms;
  if (options.require_tuned) TCC_TRY_VOID(refuse_untuned(report.kernels));

  // Plan and package.
  const graph::MemoryPlan memory =
      graph::plan_memory(program.graph, program.groups, memory_of_groups(program, options, kernels));
  package::PackagePlan plan;
  plan.graph = &program.graph;
  plan.groups = &program.groups;
  plan.memory = &memory;
  plan.tasks = &program.tasks;
  plan.target = options.targets[0];
  if (program.dynamic) plan.dynamic = &*program.dynamic;
  TCC_TRY(std::vector<package::ArchitectureCode> code, package_kernels(program, options, std::move(kernels)));
  report.id = options.id.empty() ? package::make_id(model_stem(model.source.model)) : options.id;
  const package::PackageOptions package_options{
      options.folder, report.id, tool_version(), source_to_json(model, program.flops), options.linker, options.emit};
  TCC_TRY(report.package,
          backend::backend_of(plan.target).payload->write(std::move(plan), std::move(code), package_options));
  return report;
}

}  // namespace tcc::driver
