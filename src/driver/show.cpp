#include "tcc/driver/show.h"

#include <charconv>

#include "driver/build.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/forms.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/record/disturbed.h"
#include "tcc/schedule/trace.h"
#include "tcc/search/search.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

TensorSummary summarise_tensor(const graph::Value& value, const std::string& name) {
  return {sanitize(name), std::string(graph::dtype_name(value.dtype)), graph::shape_text(value.shape)};
}

constexpr size_t kMinKeyDigits = 4;  // fewer digits are a number

}  // namespace

Result<size_t> find_task(const Program& program, const std::string& name) {
  const auto& tasks = program.tasks.tasks;
  size_t number = 0;
  auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (code == std::errc() && end == name.data() + name.size() && number < tasks.size()) return number;
  std::vector<size_t> matches;
  for (size_t i = 0; i < tasks.size(); ++i)
    if (name.size() >= kMinKeyDigits && find_form(program, i, name).key.starts_with(name)) matches.push_back(i);
  if (matches.size() == 1) return matches[0];
  return make_error(
      ErrorClass::kUsage,
      fmt::format("task '{}' {}", sanitize(name), matches.empty() ? "does not exist" : "is the start of several keys"),
      fmt::format(
          "give a number from 0 to {}, or a key of the table (at least four of its digits) that `tcc show` prints",
          tasks.size() - 1));
}

Result<ModelSummary> summarise_model(const Model& model) {
  const graph::Graph& graph = model.graph;
  ModelSummary summary;
  summary.name = graph.name;
  summary.hash = model.hash;
  for (graph::ValueId id : graph.inputs)
    summary.inputs.push_back(summarise_tensor(graph.value(id), graph.value(id).name));
  for (size_t i = 0; i < graph.model_outputs(); ++i)
    summary.outputs.push_back(summarise_tensor(graph.value(graph.outputs[i]), graph.output_names[i]));
  for (graph::NodeId id : graph.order) ++summary.operators[std::string(graph::op_name(graph.node(id).op))];
  summary.nodes = static_cast<int64_t>(graph.order.size());
  for (const graph::Value& value : graph.values) {
    if (!value.is_constant()) continue;
    ++summary.constants;
    summary.constant_bytes += value.bytes();
  }
  TCC_TRY(Program program, cut_into_tasks(model, target::host_target()));
  if (program.dynamic) {
    std::vector<std::string> names;
    for (const graph::DimRange& dim : program.dynamic->dims) names.push_back(dim.name);
    for (int64_t most : program.dynamic->buckets.back().bounds)
      if (std::ssize(names) < std::ssize(program.dynamic->dims) + program.dynamic->counts)
        names.push_back(fmt::format("(up to {})", most));
    for (size_t i = 0; i < summary.inputs.size(); ++i)
      summary.inputs[i].shape = graph::symbolic_text(program.dynamic->inputs[i], names);
    for (size_t i = 0; i < summary.outputs.size(); ++i)
      summary.outputs[i].shape = graph::symbolic_text(program.dynamic->outputs[i], names);
  }
  summary.flops = program.flops;
  summary.kernels = static_cast<int64_t>(program.groups.size());
  summary.tasks = static_cast<int64_t>(program.tasks.tasks.size());
  summary.workspace_bytes = graph::plan_memory(program.graph, program.groups).workspace_bytes;
  return summary;
}

std::map<std::string, double> compiler_facts(const std::map<std::string, double>& facts) {
  std::map<std::string, double> out;
  for (const char* name : {"registers", "spill_bytes", "stack_bytes", "shared_bytes", "serialized_products",
                           "injected_waits", "ignored_register_budgets"})
    if (const auto found = facts.find(name); found != facts.end()) out.insert(*found);
  return out;
}

std::string facts_text(const std::map<std::string, double>& facts) {
  const auto value = [&](const char* name) {
    const auto found = facts.find(name);
    return found == facts.end() ? 0.0 : found->second;
  };
  if (!facts.contains("registers")) return "";
  std::string text = fmt::format("{} registers, {} bytes spilled", value("registers"), value("spill_bytes"));
  const std::pair<const char*, const char*> losses[] = {
      {"serialized_products", "the compiler waits for each product of a warpgroup"},
      {"injected_waits", "the compiler waits for products of warpgroups where the schedule does not"},
      {"ignored_register_budgets", "the compiler ignores the roles' numbers of registers"}};
  for (const auto& [name, words] : losses)
    if (value(name) > 0) text += fmt::format("; {} ({} {})", words, value(name), value(name) == 1 ? "time" : "times");
  return text;
}

namespace {

// One task, whatever its number and its other forms are.
Result<TaskSummary> summarise_form(const task::Task& task, const record::Database* store, const target::Target& target,
                                   int64_t threads) {
  TaskSummary summary{0, task.key, task.workload, task.nodes, task.weight, task.flops};
  summary.form = form_of(task.workload);
  if (store == nullptr) return summary;
  const record::Machine machine = search::machine_of(target);
  TCC_TRY(const auto best, search::chosen_record(task, target, *store, threads));
  if (best) {
    summary.best_seconds = best->median;
    summary.threads = best->threads;
    summary.predicted = record::is_untimed(best->kind);
    summary.disturbed = record::is_disturbed(*best);
  }
  TCC_TRY(auto records, store->all(search::task_hash(task.key)));
  for (const record::Record& record : records) summary.records += record::is_of(record, machine) ? 1 : 0;
  return summary;
}

}  // namespace

Result<std::vector<TaskSummary>> summarise_tasks(const Program& program, const record::Database* store,
                                                 const target::Target& target, int64_t threads) {
  std::vector<TaskSummary> summaries;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i) {
    TCC_TRY(TaskSummary summary, summarise_form(program.tasks.tasks[i], store, target, threads));
    summary.number = static_cast<int64_t>(i);
    if (i < program.forms.size())
      for (const TaskForm& form : program.forms[i]) {
        TCC_TRY(const TaskSummary one, summarise_form(form.task, store, target, threads));
        summary.forms.push_back({one.form, one.key, one.records, one.best_seconds, one.disturbed});
      }
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

Result<TaskDetails> show_task(const Program& program, const std::string& name, const record::Database* store,
                              const target::Target& target, int64_t threads) {
  TCC_TRY(size_t index, find_task(program, name));
  const task::Task& task = find_form(program, index, name);
  TCC_TRY(auto summaries, summarise_tasks(program, store, target, threads));
  TaskDetails details;
  TCC_TRY(details.summary, summarise_form(task, store, target, threads));
  details.summary.number = static_cast<int64_t>(index);
  details.summary.forms = std::move(summaries[index].forms);
  details.nest = ir::print(task.kernel);
  TCC_TRY(const search::Chosen chosen, search::built_program(task, target, store, threads));
  details.tuned = chosen.tuned;
  details.predicted = chosen.predicted;
  details.note = chosen.note;
  details.program = ir::print(chosen.lowered);
  details.facts = compiler_facts(chosen.facts);
  if (!chosen.trace.empty()) {
    TCC_TRY(schedule::Trace trace, schedule::trace_from_json(chosen.trace));
    // As it is replayed: a record's tiles need not divide their loops.
    std::vector<int64_t> used;
    if (schedule::replay(trace, trace.decisions, task.kernel, std::make_shared<Arena>(), &used))
      trace.decisions = std::move(used);
    details.trace = schedule::print_trace(trace);
  }
  return details;
}

Result<std::string> show_source(const Program& program, const std::string& name, const record::Database* store,
                                const target::Target& target, int64_t threads) {
  const backend::Backend& backend = backend::backend_of(target);
  if (backend.print == nullptr)
    return make_error(ErrorClass::kUsage, fmt::format("expected a GPU, found the target '{}'", target.name),
                      "the kernels of a CPU have no source text; `tcc build --emit llvm` writes their LLVM IR");
  TCC_TRY(const size_t index, find_task(program, name));
  TCC_TRY(const search::Chosen chosen, search::built_program(find_form(program, index, name), target, store, threads));
  TCC_TRY(codegen::Artifact artifact, backend.print(chosen.lowered, target, {.prefix = fmt::format("k{}", index)}));
  return std::move(artifact.source);
}

Result<void> check_pass_name(const std::string& pass, const target::Target& target) {
  const lower::Pipeline& pipeline = lower::pipeline_of(target);
  if (lower::find_pass(pipeline, pass) == nullptr) return lower::unknown_pass(pipeline, pass);
  return {};
}

Result<std::vector<Stage>> show_stages(const Program& program, const std::string& name, const record::Database* store,
                                       const target::Target& target, int64_t threads) {
  TCC_TRY(const size_t index, find_task(program, name));
  const task::Task& task = find_form(program, index, name);
  TCC_TRY(const search::Chosen chosen, search::built_program(task, target, store, threads));
  auto rejected = [&](const ir::Reject& r) {
    return input_error("{}: {}: {}", task.workload, ir::reject_reason_name(r.reason), r.text);
  };
  auto arena = std::make_shared<Arena>();
  ir::Kernel kernel = task.kernel;
  std::vector<Stage> stages = {{"plain", ir::print(kernel)}};
  if (!chosen.trace.empty()) {
    TCC_TRY(const schedule::Trace trace, schedule::trace_from_json(chosen.trace));
    auto scheduled = schedule::replay(trace, trace.decisions, task.kernel, arena);
    if (!scheduled) return rejected(scheduled.error());
    kernel = *scheduled;
    stages.push_back({"scheduled", ir::print(kernel)});
  }
  auto note = [&](const lower::Pass& ran, const ir::Kernel& k) {
    stages.push_back({std::string(ran.name), ir::print(k)});
  };
  if (auto lowered = lower::lower(kernel, target, ir::Stage::kLowered, arena, note); !lowered)
    return rejected(lowered.error());
  return stages;
}

Result<std::string> show_after(const std::string& pass, const Program& program, const std::string& name,
                               const record::Database* store, const target::Target& target, int64_t threads) {
  TCC_TRY_VOID(check_pass_name(pass, target));
  TCC_TRY(const std::vector<Stage> stages, show_stages(program, name, store, target, threads));
  std::string text;
  for (const Stage& stage : stages)
    if (stage.name == pass) text += fmt::format("# after {}\n{}", pass, stage.text);
  return text;
}

}  // namespace tcc::driver
