#include "tcc/driver/report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "driver/launch_models.h"
#include "tcc/backend/backend.h"
#include "tcc/cost/draft.h"
#include "tcc/driver/forms.h"
#include "tcc/driver/records.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/trace.h"
#include "tcc/search/search.h"

namespace tcc::driver {
namespace {

using record::Kind;
using record::Record;
using record::Status;

constexpr size_t kMostText = size_t{64} << 10;  // bytes of one text, so that the page stays small

std::string cut_lines(std::string text, std::string& note, const char* rest) {
  if (text.size() <= kMostText) return text;
  const auto lines = [](const std::string& t) { return std::count(t.begin(), t.end(), '\n'); };
  const int64_t all = lines(text);
  text.resize(text.rfind('\n', kMostText) + 1);
  note = fmt::format("the first {} of {} lines; {}", lines(text), all, rest);
  return text;
}

// Whether a record says how long a program took.
bool is_trial(const Record& r) {
  return !record::is_untimed(r.kind);
}
double seconds_of(const Record& r) {
  return r.status == Status::kOk ? r.median : 0;
}

// A measured program, of the form at this place of ReportedTask::forms.
struct Trial {
  Record record;
  int64_t form = 0;
};

void add_trials(const std::vector<Trial>& trials, ReportedTask& out) {
  std::map<Status, RecordedFailure> by_status;
  for (const auto& [r, form] : trials) {
    out.trials.push_back({r.id, r.unix_time, form, std::string(record::status_name(r.status)), seconds_of(r)});
    RecordedFailure& f = by_status[r.status];
    ++f.count;
    if (!r.failure.empty()) f.example = r.failure;
    out.platform = r.platform;
    out.tool_version = r.tool_version;
  }
  for (auto& [status, failure] : by_status) {
    failure.status = std::string(record::status_name(status));
    out.failures.push_back(std::move(failure));
  }
}

// The measured time of a program; 0: it was not measured.
double time_of(const std::vector<Record>& records, uint64_t nest) {
  double seconds = 0;
  for (const Record& r : records)
    if (is_trial(r) && r.nest_hash == nest && seconds_of(r) > 0) seconds = r.median;  // the newest is the verdict
  return seconds;
}

// What models expect of a part of the trials.
void predict_trials(const std::vector<Trial>& trials, const std::vector<const task::Task*>& forms,
                    const target::Target& target, ReportedTask& out) {
  const std::unique_ptr<cost::CostModel> prior = backend::backend_of(target).prior(target);
  const auto count = std::ssize(trials);
  const int64_t step = std::max<int64_t>((count + kPredictedTrials - 1) / kPredictedTrials, 1);
  for (int64_t i = 0; i < count; i += step) {
    const auto at = static_cast<size_t>(i);
    if (!(out.trials[at].seconds > 0)) continue;
    const auto& [record, form] = trials[at];
    const std::optional<ir::Kernel> nest = nest_of_trace(record.trace, *forms[static_cast<size_t>(form)], target);
    if (!nest) continue;  // a record of another version
    double seconds = prior->expected_seconds(features::extract(prior->schema(), *nest, target, out.threads));
    if (!(seconds > 0)) seconds = cost::draft_kernel_seconds(*nest, target, out.threads).value_or(0);
    out.trials[at].predicted = seconds;
  }
}

// Fills in the code, and the facts that its compiler tells of it.
void make_code(const target::Target& target, const task::Task& task, size_t index, search::Chosen& chosen,
               ReportedTask& out) {
  const backend::Backend& backend = backend::backend_of(target);
  const backend::CompileOptions options{.prefix = fmt::format("k{}", index), .want_source = true};
  const auto failed = [&](const Error& error) { out.code_note = error.message; };
  const auto& texts = backend.payload->texts;
  if (std::find(texts.begin(), texts.end(), "asm") != texts.end()) {
    package::Emit emit;
    emit.assembly = true;
    package::TaskCode code;
    if (auto made = backend.payload->add_texts(chosen.lowered, target, options, emit, code); !made)
      return failed(made.error());
    out.code = cut_lines(std::move(code.assembly), out.code_note, "`tcc build --emit asm` writes all of them");
    return;
  }
  Result<codegen::Artifact> artifact = backend.compile(chosen.lowered, target, options);
  if (artifact) chosen.facts = artifact->facts;
  if (artifact) out.launch_models = launch_models_of(chosen, *artifact, task, target);
  if (!artifact && backend.print != nullptr) artifact = backend.print(chosen.lowered, target, options);
  if (!artifact) return failed(artifact.error());
  out.code = cut_lines(std::move(artifact->source), out.code_note, "`tcc show --source` prints all of them");
}

std::string schedule_text(const std::string& json, const task::Task& task) {
  Result<schedule::Trace> trace = schedule::trace_from_json(json);
  if (!trace) return "";
  std::vector<int64_t> used;  // as it is replayed: a record's tiles need not divide their loops
  if (schedule::replay(*trace, trace->decisions, task.kernel, std::make_shared<Arena>(), &used))
    trace->decisions = std::move(used);
  return schedule::print_trace(*trace);
}

struct Request {
  const Program& program;
  const record::Database* store;
  const target::Target& target;
  int64_t threads;
  const ModelSource* source;
  const MachineFacts* facts;
};

// The records of a form on this kind of machine and number of threads.
Result<std::vector<Record>> records_of(const Request& q, const task::Task& form, int64_t threads) {
  TCC_TRY(std::vector<Record> records, q.store->all(search::task_hash(form)));
  const record::Machine machine = search::machine_of(q.target);
  std::erase_if(records, [&](const Record& r) { return r.threads != threads || !record::is_of(r, machine); });
  return records;
}

// The times of the programs that are taken without tuning. `records`: of the form that is built.
void add_references(const std::vector<Record>& records, const task::Task& task, const target::Target& target,
                    ReportedTask& out) {
  for (const Record& r : records)
    if (record::is_untimed(r.kind) && out.default_seconds == 0) out.default_seconds = time_of(records, r.nest_hash);
  if (std::any_of(records.begin(), records.end(), is_trial) && backend::backend_of(target).runs_unscheduled)
    if (const auto plain = search::unscheduled_program(task, target))
      out.plain_seconds = time_of(records, plain->nest_hash);
}

// What the store knows of the task in all of its forms.
Result<void> add_records(const Request& q, size_t index, ReportedTask& out) {
  const task::Task& task = q.program.tasks.tasks[index];
  const std::vector<const task::Task*> forms = forms_of(q.program, index);
  std::vector<Trial> trials;
  for (const task::Task* form : forms) {
    const int64_t at = std::ssize(out.forms);
    ReportedForm row{form_of(form->workload), form->key, form->key == task.key};
    TCC_TRY(const std::vector<Record> records, records_of(q, *form, out.threads));
    for (const Record& r : records)
      if (is_trial(r)) trials.push_back({r, at}), ++row.trials;
    TCC_TRY(const std::optional<Record> best, search::chosen_record(*form, q.target, *q.store, out.threads));
    if (best && is_trial(*best) && best->threads == out.threads) row.best_seconds = best->median;
    if (row.built) add_references(records, task, q.target, out);
    out.forms.push_back(std::move(row));
  }
  std::stable_sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
    return std::pair(a.record.unix_time, a.record.id) < std::pair(b.record.unix_time, b.record.id);
  });
  add_trials(trials, out);
  predict_trials(trials, forms, q.target, out);
  return {};
}

Result<ReportedTask> report_task(const Request& q, size_t index) {
  const task::Task& task = q.program.tasks.tasks[index];
  TCC_TRY(search::Chosen chosen, search::choose_program(task, q.target, q.store, q.threads));
  ReportedTask out;
  out.number = static_cast<int64_t>(index);
  out.weight = task.weight;
  out.threads = chosen.threads > 0 ? chosen.threads : q.threads;
  for (const task::ParamSource& p : task.params)
    out.bytes += static_cast<double>(q.program.graph.value(p.value).bytes());
  make_code(q.target, task, index, chosen, out);
  TCC_TRY(out.explanation,
          explain_chosen(q.program, index, chosen, q.store, q.target, q.threads, q.source, q.facts, false));
  out.nest = ir::print(task.kernel);
  std::string note;
  out.program = cut_lines(ir::print(chosen.lowered), note, "`tcc show --task` prints all of them");
  if (!note.empty()) out.program += "# " + note + "\n";
  out.schedule = schedule_text(chosen.trace, task);
  if (q.store != nullptr) TCC_TRY_VOID(add_records(q, index, out));
  return out;
}

}  // namespace

Result<std::vector<ReportedTask>> report_program(const Program& program, const record::Database* store,
                                                 const target::Target& target, int64_t threads,
                                                 const ModelSource* source, const MachineFacts* facts,
                                                 ThreadPool* pool) {
  const Request request{program, store, target, threads, source, facts};
  std::vector<Result<ReportedTask>> made(program.tasks.tasks.size(), ReportedTask());
  parallel_for(pool, std::ssize(made), [&](int64_t i) {
    const auto index = static_cast<size_t>(i);
    made[index] = report_task(request, index);
  });
  std::vector<ReportedTask> tasks;
  for (Result<ReportedTask>& one : made) {
    TCC_TRY(ReportedTask task, std::move(one));
    tasks.push_back(std::move(task));
  }
  return tasks;
}

Result<std::vector<StoredTask>> report_store(const record::Store& store) {
  TCC_TRY(const std::vector<Record> all, store.all());
  TCC_TRY(const StoreSummary summary, summarise_store(store));
  using Key = std::tuple<std::string, std::string, std::string, int64_t>;  // task, target, platform, threads
  std::map<Key, std::vector<Trial>> trials;
  for (const Record& r : all)
    if (is_trial(r)) trials[{record::hash_text(r.task), r.target, r.platform, r.threads}].push_back({r, 0});
  std::vector<StoredTask> tasks;
  for (const TaskRecords& t : summary.tasks) {
    StoredTask out{t.target, t.platform, {}};
    out.task.number = std::ssize(tasks);
    out.task.threads = t.threads;
    Explanation& e = out.task.explanation;
    e.key = t.key;
    e.workload = t.workload;
    e.seconds = t.best_seconds;
    e.tuned = t.best_seconds > 0;
    e.source = search::Source::kMeasured;
    const std::vector<Trial>& own = trials[{t.key, t.target, t.platform, t.threads}];
    add_trials(own, out.task);
    for (const auto& [r, form] : own)
      if (seconds_of(r) == e.seconds && e.seconds > 0) out.task.schedule = record_schedule(r);
    tasks.push_back(std::move(out));
  }
  return tasks;
}

}  // namespace tcc::driver
