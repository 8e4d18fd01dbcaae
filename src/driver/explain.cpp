#include "tcc/driver/explain.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tcc/driver/forms.h"
#include "tcc/driver/show.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/trace.h"
#include "tcc/search/search.h"
#include "tcc/space/matrix_instruction.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/support/rng.h"

namespace tcc::driver {
namespace {

using schedule::Instruction;
using schedule::Op;
using schedule::Trace;

constexpr int kDrawsOfSpace = 32;  // of each design space, for the reasons of rejects

// --- which module made which instruction: the modules run again, and the paths that lead to the same trace are kept

struct ModulePath {
  schedule::Schedule state;
  std::vector<size_t> ends;  // number of instructions after each module
};

std::vector<std::string> modules_that_made(const Trace& trace, const task::Task& task, const target::Target& target) {
  Rng rng(space::SpaceOptions{}.seed);
  std::vector<ModulePath> paths;
  paths.push_back({schedule::Schedule(task.kernel, std::make_shared<Arena>(), &rng), {}});
  const std::span<const space::Module> modules = space::modules_for(target).modules;
  auto leads_there = [&](const schedule::Schedule& state) {
    const auto& made = state.trace().instructions;
    return made.size() <= trace.instructions.size() && std::equal(made.begin(), made.end(), trace.instructions.begin());
  };
  for (const auto& module : modules) {
    std::map<size_t, ModulePath> next;  // by their length: what leads to one trace and is as long is the same
    for (const ModulePath& path : paths) {
      std::vector<schedule::Schedule> states = module.apply(path.state, target, {}).states;
      states.push_back(path.state);  // the space may have been made without this module
      for (schedule::Schedule& state : states) {
        if (!state.ok() || !leads_there(state)) continue;
        std::vector<size_t> ends = path.ends;
        ends.push_back(state.trace().instructions.size());
        const size_t length = ends.back();
        next.try_emplace(length, ModulePath{std::move(state), std::move(ends)});
      }
    }
    paths.clear();
    for (auto& [length, path] : next) paths.push_back(std::move(path));
  }
  std::vector<std::string> names(trace.instructions.size());
  for (const ModulePath& path : paths) {
    if (path.ends.back() != trace.instructions.size()) continue;
    size_t at = 0;
    for (size_t m = 0; m < modules.size(); ++m)
      for (; at < path.ends[m]; ++at) names[at] = modules[m].name;
    break;
  }
  return names;
}

// --- steps in words

// Instructions that only name things or draw numbers show in those that use them.
bool is_shown(Op op) {
  return schedule::op_row(op).flag == schedule::Flag::kNone;
}

std::string input_text(const schedule::Input& input, const schedule::Executor& executor) {
  switch (input.kind) {
    case schedule::Input::Kind::kInferred:
      return "the rest";
    case schedule::Input::Kind::kLiteral:
      return std::to_string(input.value);
    case schedule::Input::Kind::kVariable:
      break;
  }
  const schedule::Value& value = executor.value(static_cast<int>(input.value));
  if (value.expr != nullptr) return ir::print(executor.kernel(), value.expr);
  return ir::name_hint(executor.kernel(), value.id);
}

std::string step_text(const Instruction& instruction, const std::vector<std::string>& inputs,
                      const schedule::Executor& executor) {
  std::string text(schedule::op_name(instruction.op));
  std::replace(text.begin(), text.end(), '_', ' ');
  for (size_t i = 0; i < inputs.size(); ++i) text += (i == 0 ? " " : ", ") + inputs[i];
  const std::string attributes = instruction.text + schedule::print_attributes(instruction);
  if (!attributes.empty()) text += " (" + attributes + ")";
  std::string made;
  for (int i = 0; i < instruction.outputs; ++i) {
    const schedule::Value& value = executor.value(instruction.first_output + i);
    if (value.expr == nullptr) made += (made.empty() ? " -> " : ", ") + ir::name_hint(executor.kernel(), value.id);
  }
  return text + made;
}

// `modules`: of each instruction.
Result<std::vector<ExplainedStep>> explain_steps(const Trace& trace, const task::Task& task,
                                                 const std::vector<std::string>& modules) {
  schedule::Executor executor(task.kernel, std::make_shared<Arena>(), schedule::Mode::kReplay, nullptr);
  std::vector<int64_t> decisions = trace.decisions;
  std::vector<ExplainedStep> steps;
  for (size_t i = 0; i < trace.instructions.size(); ++i) {
    const Instruction& instruction = trace.instructions[i];
    std::vector<std::string> inputs;  // before the step: it may use up what they name
    if (is_shown(instruction.op))
      for (const schedule::Input& input : instruction.inputs) inputs.push_back(input_text(input, executor));
    std::span<int64_t> drawn;
    if (instruction.decision >= 0)
      drawn = std::span(decisions).subspan(static_cast<size_t>(instruction.decision),
                                           static_cast<size_t>(instruction.decision_length));
    if (auto done = executor.run(instruction, drawn); !done)
      return input_error("{}: step {} of the schedule: {}: {}", task.workload, i,
                         ir::reject_reason_name(done.error().reason), done.error().text);
    if (is_shown(instruction.op)) steps.push_back({modules[i], step_text(instruction, inputs, executor)});
  }
  return steps;
}

// --- the loop tree

class LoopTree {
 public:
  explicit LoopTree(const ir::Kernel& kernel) : kernel_(kernel) { visit(kernel.root, 0); }
  std::string text() { return std::move(text_); }

 private:
  void line(int depth, const std::string& what) {
    text_ += std::string(static_cast<size_t>(2 * depth), ' ') + what + "\n";
  }
  void loop(const ir::Loop& l, int depth) {
    std::string kind(ir::loop_kind_name(l.loop_kind));
    if (l.axis != ir::Axis::kNone) kind += fmt::format(" {}", ir::axis_name(l.axis));
    line(depth, fmt::format("{} {} of {}", kind, ir::name_hint(kernel_, l.id), ir::print(kernel_, l.extent)));
    visit(l.body, depth + 1);
  }
  void visit(ir::Stmt s, int depth) {
    switch (s->kind) {
      case ir::StmtKind::kSeq:
        for (ir::Stmt part : ir::as<ir::Seq>(s)->stmts) visit(part, depth);
        return;
      case ir::StmtKind::kLoop:
        return loop(*ir::as<ir::Loop>(s), depth);
      case ir::StmtKind::kBlock:
        line(depth, "block " + ir::name_hint(kernel_, ir::as<ir::Block>(s)->id));
        return visit(ir::as<ir::Block>(s)->body, depth + 1);
      case ir::StmtKind::kStore:
        return line(depth, "store " + ir::name_hint(kernel_, ir::as<ir::Store>(s)->buffer));
      case ir::StmtKind::kIf: {
        const auto* branch = ir::as<ir::If>(s);
        line(depth, "if " + ir::print(kernel_, branch->condition));
        visit(branch->then_case, depth + 1);
        if (branch->else_case == nullptr) return;
        line(depth, "else");
        return visit(branch->else_case, depth + 1);
      }
      case ir::StmtKind::kAlloc: {
        std::string names;
        for (ir::Id id : ir::as<ir::Alloc>(s)->buffers) names += " " + ir::name_hint(kernel_, id);
        line(depth, "local" + names);
        return visit(ir::as<ir::Alloc>(s)->body, depth);
      }
      case ir::StmtKind::kInstrCall:
        return line(depth, "instruction");
      case ir::StmtKind::kRoles:
        for (const ir::Role& role : ir::as<ir::Roles>(s)->roles) {
          line(depth, fmt::format("warps {} to {}", role.first_warp, role.first_warp + role.warps - 1));
          visit(role.body, depth + 1);
        }
        return;
    }
  }
  const ir::Kernel& kernel_;
  std::string text_;
};

// --- what is illegal and why

void count_rejects(const task::Task& task, const target::Target& target, Explanation& out) {
  std::map<std::string, RejectExample> by_reason;
  Rng rng(1);
  out.space = space::explore_space(task.kernel, target, space::modules_for(target));
  out.design_spaces = std::ssize(out.space.traces);
  for (const Trace& trace : out.space.traces) {
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, task.kernel, target);
    if (!sketch) continue;
    if (!sketch->symbolic) out.replayed.add(sketch->concrete, "");
    std::vector<int64_t> decisions = trace.decisions;
    for (int i = 0; i < kDrawsOfSpace; ++i) {
      space::draw_decisions(*sketch, decisions, rng);
      ++out.draws;
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, target, std::make_shared<Arena>());
      if (nest) {
        ++out.legal;
        continue;
      }
      RejectExample& r = by_reason[std::string(ir::reject_reason_name(nest.error().reason))];
      if (r.count++ > 0) continue;
      r.example = nest.error().text;
      r.decisions = fmt::format("{}", fmt::join(decisions, " "));
    }
  }
  for (auto& [reason, reject] : by_reason) {
    reject.reason = reason;
    out.rejects.push_back(std::move(reject));
  }
}

// --- what the store knows of proposals and failures

using PlainJson = nlohmann::json;

std::string proposals_row(const std::string& key) {
  return "proposals " + key;
}

Result<PlainJson> load_proposals(const std::string& key, const record::Database& store) {
  TCC_TRY(std::optional<std::string> text, store.load_session(proposals_row(key)));
  PlainJson row = text ? PlainJson::parse(*text, nullptr, false) : PlainJson::object();
  return row.is_object() ? row : PlainJson::object();
}

constexpr int64_t kMostTried = 6;
constexpr size_t kMostOtherwise = 3;

// The fastest programs behind the chosen one, and what their schedules do otherwise.
Result<void> read_tried(const task::Task& task, const search::Chosen& chosen, const target::Target& target,
                        const record::Database& store, Explanation& out) {
  if (!(chosen.seconds > 0)) return {};
  TCC_TRY(std::vector<record::Record> records,
          store.fastest(search::task_hash(task.key), search::machine_of(target), chosen.threads, kMostTried + 1));
  std::set<std::string> own;
  for (const ExplainedStep& step : out.steps) own.insert(step.text);
  for (const record::Record& r : records) {
    if (r.nest_hash == chosen.nest_hash || std::ssize(out.tried) == kMostTried) continue;
    Tried tried{r.id, r.median, r.median / chosen.seconds, {}};
    const Result<Trace> trace = schedule::trace_from_json(r.trace);
    if (!trace) continue;
    const auto steps = explain_steps(*trace, task, std::vector<std::string>(trace->instructions.size()));
    if (!steps) continue;  // a record of another version
    for (const ExplainedStep& step : *steps)
      if (!own.contains(step.text) && tried.otherwise.size() < kMostOtherwise) tried.otherwise.push_back(step.text);
    out.tried.push_back(std::move(tried));
  }
  return {};
}

// nest: of the chosen program. Decisions in a trace may differ for one program, because replay mends tiles.
Result<void> read_recorded(const std::string& key, uint64_t nest, const record::Database& store, Explanation& out) {
  TCC_TRY(PlainJson row, load_proposals(key, store));
  try {
    out.recorded.proposed = row.value("proposed", int64_t{0});
    out.recorded.duplicate = row.value("duplicate", int64_t{0});
    out.recorded.rejected = row.value("rejected", int64_t{0});
    if (row.contains("reasons") && row["reasons"].is_object())
      for (const auto& [reason, reject] : row["reasons"].items())
        out.recorded.rejects.push_back({reason, reject.value("count", int64_t{0}), reject.value("example", ""), ""});
  } catch (const PlainJson::exception&) {  // a value of another type: the row counts nothing
    out.recorded = {};
  }
  std::stable_sort(out.recorded.rejects.begin(), out.recorded.rejects.end(),
                   [](const RejectExample& a, const RejectExample& b) { return a.count > b.count; });
  TCC_TRY(std::vector<record::Record> records, store.all(search::task_hash(key)));
  std::map<record::Status, RecordedFailure> by_status;
  for (const record::Record& r : records) {
    if (r.status == record::Status::kOk && r.nest_hash == nest) {
      if (r.device_seconds > 0) out.device_seconds = r.device_seconds;
      if (r.counts.any()) out.counts = r.counts;
    }
    RecordedFailure& f = by_status[r.status];
    ++f.count;
    if (!r.failure.empty()) f.example = r.failure;
  }
  for (auto& [status, failure] : by_status) {
    failure.status = std::string(record::status_name(status));
    out.failures.push_back(std::move(failure));
  }
  return {};
}

}  // namespace

Result<void> record_proposals(const std::string& key, const search::Counts& counts, record::Store& store) {
  if (counts.proposed == 0) return {};
  TCC_TRY(PlainJson row, load_proposals(key, store));
  auto add = [](PlainJson& to, const char* name, int64_t n) {
    PlainJson& value = to[name];
    value = (value.is_number_integer() ? value.get<int64_t>() : 0) + n;
  };
  if (row.contains("reasons") && !row["reasons"].is_object()) row.erase("reasons");
  add(row, "proposed", counts.proposed);
  add(row, "duplicate", counts.duplicate);
  add(row, "rejected", counts.rejected);
  for (const auto& [reason, count] : counts.rejected_by_reason) {
    PlainJson& reject = row["reasons"][reason];
    if (!reject.is_object()) reject = PlainJson::object();
    add(reject, "count", count);
    if (auto it = counts.reject_examples.find(reason); it != counts.reject_examples.end())
      reject["example"] = it->second;
  }
  return store.save_session(proposals_row(key), row.dump(-1, ' ', false, PlainJson::error_handler_t::replace));
}

namespace {

// Explains why the schedule does not use wgmma on a target that supports it.
std::vector<std::string> unmet_of_warpgroups(const task::Task& task, const target::Target& target) {
  if (!target.cuda.features.wgmma) return {};
  std::vector<std::string> unmet = space::unmet_conditions_of_warpgroup_instruction(task.kernel, target);
  if (unmet.empty()) unmet.push_back("the schedule above was taken; the design space has others with one");
  return unmet;
}

std::set<ir::Id> vectorized_loops(const ir::Kernel& kernel) {
  std::set<ir::Id> found;
  ir::visit(kernel.root, [&](ir::Stmt s) {
    if (const ir::Loop* l = ir::as<ir::Loop>(s); l != nullptr && l->loop_kind == ir::LoopKind::kVectorized)
      found.insert(l->id);
    return true;
  });
  return found;
}

}  // namespace

int64_t count_unaligned_vector_loops(const Trace& trace, const task::Task& task, const target::Target& target) {
  const auto arena = std::make_shared<Arena>();
  const auto kernel = schedule::replay(trace, trace.decisions, task.kernel, arena);
  if (!kernel) return -1;
  int64_t lost = -1;
  std::set<ir::Id> before;
  const auto count = [&](const lower::Pass& pass, const ir::Kernel& k) {
    const std::set<ir::Id> after = vectorized_loops(k);
    if (pass.name == "align_vectors") {
      std::erase_if(before, [&](ir::Id id) { return after.contains(id); });
      lost = std::ssize(before);
    }
    before = after;
  };
  return lower::lower(*kernel, target, ir::Stage::kLowered, arena, count) ? lost : -1;
}

Result<Explanation> explain_task(const Program& program, const std::string& name, const record::Database* store,
                                 const target::Target& target, int64_t threads, const ModelSource* source,
                                 const MachineFacts* facts) {
  TCC_TRY(const size_t index, find_task(program, name));
  const task::Task &task = program.tasks.tasks[index], &named = find_form(program, index, name);
  if (named.key != task.key)
    return make_error(ErrorClass::kUsage,
                      fmt::format("expected the form of task {} that `tcc build` takes ({} {}), found {} {}", index,
                                  task.key, task.workload, named.key, named.workload),
                      "choose the form: --winograd 0, 2 or 4");
  TCC_TRY(const search::Chosen chosen, search::built_program(task, target, store, threads));
  return explain_chosen(program, index, chosen, store, target, threads, source, facts, true);
}

Result<Explanation> explain_chosen(const Program& program, size_t index, const search::Chosen& chosen,
                                   const record::Database* store, const target::Target& target, int64_t threads,
                                   const ModelSource* source, const MachineFacts* facts, bool draws) {
  const task::Task& task = program.tasks.tasks[index];
  Explanation out;
  out.key = task.key;
  out.workload = task.workload;
  out.nodes = task.nodes;
  if (store != nullptr) TCC_TRY_VOID(read_recorded(task.key, chosen.nest_hash, *store, out));
  out.tuned = chosen.tuned;
  out.predicted = chosen.predicted;
  out.source = chosen.source;
  out.reason = chosen.reason;
  out.passed_over = chosen.passed_over;
  out.note = chosen.note;
  out.calibrated = target.cuda.calibrated;
  out.seconds = chosen.seconds;
  out.flops = task.flops;
  Trace trace;
  if (!chosen.trace.empty()) {
    TCC_TRY(trace, schedule::trace_from_json(chosen.trace));
    TCC_TRY(out.steps, explain_steps(trace, task, modules_that_made(trace, task, target)));
    for (const Instruction& i : trace.instructions)
      if (i.op == Op::kTensorize && out.matrix_instruction.empty()) out.matrix_instruction = i.text;
  }
  if (out.matrix_instruction.empty())
    out.no_matrix_instruction = space::unmet_conditions_of_matrix_instruction(task.kernel, target);
  else if (ir::instruction(ir::find_instruction(out.matrix_instruction)).family != ir::Family::kWgmma)
    out.no_matrix_instruction = unmet_of_warpgroups(task, target);
  out.loops = LoopTree(chosen.lowered).text();
  if (store != nullptr) TCC_TRY_VOID(read_tried(task, chosen, target, *store, out));
  const auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> nest = schedule::replay(trace, trace.decisions, task.kernel, arena);
  if (nest) nest = lower::lower(*nest, target, ir::Stage::kNest, arena);
  if (nest) {
    int64_t measured = 0;  // of all forms: `tune --tasks` measures all of them
    for (const task::Task* form : forms_of(program, index)) {
      if (store == nullptr) break;
      TCC_TRY(const std::vector<record::Record> records, store->all(search::task_hash(*form)));
      measured += std::ssize(records);
    }
    out.bounds = find_bounds({.program = &program,
                              .task = index,
                              .nest = &*nest,
                              .seconds = chosen.seconds,
                              .threads = chosen.threads > 0 ? chosen.threads : threads,
                              .measured = measured,
                              .source = source},
                             target, facts);
  }
  if (draws) count_rejects(task, target, out);
  out.unaligned_vector_loops = count_unaligned_vector_loops(trace, task, target);
  // Where the program cannot be compiled here, nothing is counted.
  out.facts = compiler_facts(chosen.facts);
  if (const auto found = chosen.facts.find("scalar_vector_loops"); found != chosen.facts.end())
    out.scalar_vector_loops = static_cast<int64_t>(found->second);
  return out;
}

}  // namespace tcc::driver
