#include "tcc/driver/forms.h"

#include <algorithm>
#include <optional>

#include "tcc/backend/backend.h"
#include "tcc/graph/winograd.h"
#include "tcc/record/disturbed.h"
#include "tcc/target/core_model.h"

namespace tcc::driver {
namespace {

constexpr int64_t kTiles[] = {2, 4};
constexpr size_t kLeastDigits = 4;  // of a key, as find_task() takes them
// Estimates err: forms that they put a little behind the direct one are measured as well.
constexpr double kLeastGain = 1 / 1.3;
// Without measurements only F(4x4, 3x3) is taken, and from this estimate on. The picks of cost models leave more of
// such forms unused than of direct ones: with it ResNet-18 ran at 1.17 of its direct form, VGG-16 at 1.28 and ResNet-50
// at 1.04; DenseNet-121, whose estimates are 1.7 to 1.93, at 0.93. Picks of F(2x2, 3x3) were slower than direct ones.
constexpr int64_t kUnmeasuredTile = 4;
constexpr double kUnmeasuredGain = 2.1;

using GroupNumbers = std::vector<size_t>;

std::vector<GroupNumbers> groups_by_task(const Program& program) {
  std::vector<GroupNumbers> groups(program.tasks.tasks.size());
  for (size_t g = 0; g < program.tasks.bindings.size(); ++g)
    groups[static_cast<size_t>(program.tasks.bindings[g].task)].push_back(g);
  return groups;
}

// Only the anchor of the group reads its weight.
bool owns_weight(const graph::Graph& graph, const graph::FusionGroup& group) {
  const graph::ValueId weight = graph.node(group.anchor).inputs[1];
  int64_t uses = 0;
  for (graph::NodeId id : group.nodes) {
    const auto& inputs = graph.node(id).inputs;
    uses += std::count(inputs.begin(), inputs.end(), weight);
  }
  return uses == 1;
}

// The largest error of the groups that are one task, where it is above the tolerance.
std::optional<double> error_above_tolerance(const Program& program, const GroupNumbers& groups, int64_t m) {
  double error = 0;
  for (size_t g : groups) {
    const graph::Node& anchor = program.graph.node(program.groups[g].anchor);
    if (!graph::is_winograd_accurate(program.graph, anchor, m))
      error = std::max(error, graph::winograd_error(program.graph, anchor, m));
  }
  return error > 0 ? std::optional(error) : std::nullopt;
}

// The task of a group if its anchor had this form. The weight is a stand-in: a task does not know its values.
Result<task::Task> task_in_form(graph::Graph& graph, const graph::FusionGroup& group, int64_t m) {
  const graph::Node plain = graph.node(group.anchor);
  const graph::Value weight = graph.value(plain.inputs[1]);
  const int64_t a = graph::winograd_matrices(m).a;
  const graph::ValueId stand_in = graph.add_constant(
      weight.name, weight.dtype, {a * a, weight.shape[0], weight.shape[1]}, graph::make_splat(weight.dtype, 0));
  graph::Node& node = graph.node(group.anchor);
  node.inputs[1] = stand_in;
  std::get<graph::ConvAttrs>(node.attrs).winograd = m;
  Result<task::Task> made = task::make_task(graph, group);
  graph.node(group.anchor) = plain;
  graph.values.pop_back();
  if (made)
    for (task::ParamSource& p : made->params)
      if (p.value == stand_in) p.value = weight.id;
  return made;
}

// Empty: the task has its direct form only.
Result<std::vector<TaskForm>> find_forms(Program& program, size_t index, const GroupNumbers& groups,
                                         double transform_cost) {
  std::vector<TaskForm> forms;
  const task::Task& direct = program.tasks.tasks[index];
  const graph::FusionGroup& first = program.groups[groups[0]];
  if (direct.kernel.tf32 || !graph::fits_winograd(program.graph, program.graph.node(first.anchor))) return forms;
  for (size_t g : groups)
    if (!owns_weight(program.graph, program.groups[g])) return forms;
  for (int64_t m : kTiles) {
    const double gain = graph::winograd_gain(program.graph, program.graph.node(first.anchor), m, transform_cost);
    if (gain <= kLeastGain) continue;
    if (const auto error = error_above_tolerance(program, groups, m)) {
      program.refused_forms.push_back({direct.workload, m, *error});
      continue;
    }
    TCC_TRY(task::Task task, task_in_form(program.graph, first, m));
    task.weight = direct.weight;
    task.nodes = direct.nodes;
    forms.push_back({m, std::move(task), gain});
  }
  if (!forms.empty()) forms.insert(forms.begin(), {0, direct});
  return forms;
}

// The one that was fastest in the model, unless others have become far faster alone since.
Result<std::optional<size_t>> form_of_model(const std::vector<TaskForm>& forms, const target::Target& target,
                                            const FormRecords& records) {
  const record::Machine machine = search::machine_of(target);
  TCC_TRY(const std::optional<std::string> text, records.store->load_session(record::chosen_form_key(
                                                     search::task_hash(forms[0].task), machine, records.threads)));
  if (!text) return std::optional<size_t>();
  std::optional<size_t> chosen;
  double seconds = 0, best = 0;
  for (size_t i = 0; i < forms.size(); ++i) {
    const uint64_t hash = search::task_hash(forms[i].task);
    TCC_TRY(const std::optional<record::Record> r, records.store->confirmed_best(hash, machine, records.threads));
    if (!r || record::is_untimed(r->kind) || r->median <= 0) continue;
    const double alone = record::comparable_seconds(*r);
    if (best == 0 || alone < best) best = alone;
    if (record::hash_text(hash) == *text) chosen = i, seconds = alone;
  }
  return chosen && seconds <= kFormInReach * best ? chosen : std::nullopt;
}

// The fastest by measurements, those on this machine and this number of threads before all others.
Result<std::optional<size_t>> fastest_form(const std::vector<TaskForm>& forms, const target::Target& target,
                                           const FormRecords& records) {
  const record::Machine machine = search::machine_of(target);
  std::optional<size_t> fastest;
  double best = 0;
  bool best_is_exact = false;
  for (size_t i = 0; i < forms.size(); ++i) {
    TCC_TRY(const std::optional<record::Record> r,
            search::chosen_record(forms[i].task, target, *records.store, records.threads));
    if (!r || record::is_untimed(r->kind) || r->median <= 0) continue;
    const bool exact = r->threads == records.threads && record::is_of(*r, machine);
    const bool better = exact == best_is_exact ? r->median < best : exact;
    if (best > 0 && !better) continue;
    fastest = i, best = r->median, best_is_exact = exact;
  }
  return fastest;
}

std::optional<size_t> estimated_form(const std::vector<TaskForm>& forms) {
  for (size_t i = 0; i < forms.size(); ++i)
    if (forms[i].winograd == kUnmeasuredTile && forms[i].estimate >= kUnmeasuredGain) return i;
  return std::nullopt;
}

void take_form(Program& program, size_t index, const GroupNumbers& groups, const TaskForm& form,
               graph::WinogradWeights& made) {
  for (size_t g : groups) {
    graph::FusionGroup& group = program.groups[g];
    const graph::ValueId plain = program.graph.node(group.anchor).inputs[1];
    graph::set_winograd(program.graph, group.anchor, form.winograd, made);
    const graph::ValueId transformed = program.graph.node(group.anchor).inputs[1];
    std::replace(group.constants.begin(), group.constants.end(), plain, transformed);
    for (task::ParamSource& p : program.tasks.bindings[g].params)
      if (p.value == plain) p.value = transformed;
  }
  task::Task& task = program.tasks.tasks[index];
  task = form.task;
  task.params = program.tasks.bindings[groups[0]].params;
}

// Of a model whose convolutions all take one form where they gain.
void list_refused(Program& program, int64_t m, double transform_cost) {
  for (graph::NodeId id : graph::refused_winograd(program.graph, m, transform_cost))
    for (size_t g = 0; g < program.groups.size(); ++g) {
      if (program.groups[g].anchor != id) continue;
      const std::string& workload = program.tasks.tasks[static_cast<size_t>(program.tasks.bindings[g].task)].workload;
      const double error = graph::winograd_error(program.graph, program.graph.node(id), m);
      const auto known = std::find_if(program.refused_forms.begin(), program.refused_forms.end(),
                                      [&](const RefusedForm& r) { return r.workload == workload; });
      if (known == program.refused_forms.end())
        program.refused_forms.push_back({workload, m, error});
      else
        known->error = std::max(known->error, error);
    }
}

}  // namespace

std::string form_of(std::string_view workload) {
  for (int64_t m : kTiles)
    if (workload.find(fmt::format(" winograd{}", m)) != std::string_view::npos) return fmt::format("winograd{}", m);
  return workload.starts_with("conv2d") ? "direct" : "";
}

std::string refusal_text(const RefusedForm& refused) {
  return fmt::format(
      "{0}: expected F({1}x{1}, 3x3) to be off by at most {2:.1e} of the largest result, found up to {3:.1e}: the "
      "task keeps its direct form",
      refused.workload, refused.winograd, graph::kWinogradTolerance, refused.error);
}

Result<void> decide_forms(Program& program, const ModelSource& source, const target::Target& target,
                          const FormRecords& records) {
  if (source.winograd == 0) return {};
  const double transform_cost = target::core_model(target).winograd_transform;
  if (source.winograd != kAutoForm) {
    list_refused(program, source.winograd, transform_cost);
    return {};
  }
  if (backend::backend_of(target).predicts) return {};
  const std::vector<GroupNumbers> groups = groups_by_task(program);
  program.forms.resize(groups.size());
  graph::WinogradWeights made;
  for (size_t i = 0; i < groups.size(); ++i) {
    TCC_TRY(program.forms[i], find_forms(program, i, groups[i], transform_cost));
    const std::vector<TaskForm>& forms = program.forms[i];
    std::optional<size_t> chosen;
    if (!forms.empty() && records.store != nullptr) {
      TCC_TRY(chosen, form_of_model(forms, target, records));
      if (!chosen) {
        TCC_TRY(chosen, fastest_form(forms, target, records));
      }
    }
    if (!chosen && records.estimated) chosen = estimated_form(forms);
    if (chosen.value_or(0) > 0) take_form(program, i, groups[i], forms[*chosen], made);
  }
  return {};
}

std::vector<const task::Task*> forms_of(const Program& program, size_t index) {
  std::vector<const task::Task*> out;
  if (index < program.forms.size())
    for (const TaskForm& form : program.forms[index]) out.push_back(&form.task);
  if (out.empty()) out.push_back(&program.tasks.tasks[index]);
  return out;
}

const task::Task& find_form(const Program& program, size_t index, const std::string& name) {
  if (name.size() >= kLeastDigits && index < program.forms.size())
    for (const TaskForm& form : program.forms[index])
      if (form.task.key.starts_with(name)) return form.task;
  return program.tasks.tasks[index];
}

}  // namespace tcc::driver
