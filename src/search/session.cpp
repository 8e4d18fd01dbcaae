#include "search/session.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "tcc/support/hash.h"
#include "tcc/support/text.h"
#include "tcc/target/probe.h"

namespace tcc::search {

using nlohmann::json;

namespace {

constexpr int kVersion = 2;

uint64_t options_hash(const space::SpaceOptions& s) {
  uint64_t h = s.seed;
  for (int64_t v : {s.max_innermost, s.max_unroll, static_cast<int64_t>(s.pack_weights)})
    h = combine_hash(h, static_cast<uint64_t>(v));
  for (const std::string& name : s.modules) h = combine_hash(h, hash_bytes(name));
  if (s.metaschedule) h = combine_hash(h, hash_bytes("wide"));
  const space::GpuSpaceOptions& g = s.gpu;
  for (int64_t v : {g.max_innermost, g.max_vthreads, g.max_blocks, g.tensor_max_innermost, g.wgmma_group,
                    g.wgmma_cluster, static_cast<int64_t>(g.allow_tf32)})
    h = combine_hash(h, static_cast<uint64_t>(v));
  for (const std::vector<int64_t>* list :
       {&g.vector_lengths, &g.unroll_steps, &g.reduction_threads, &g.reduction_inner, &g.row_unroll,
        &g.attention_threads, &g.bind_threads, &g.tensor_vector_bytes, &g.tensor_stages, &g.wgmma_stages,
        &g.wgmma_walkers, &g.wgmma_parts, &g.stages, &g.split_k})
    for (int64_t v : *list) h = combine_hash(h, static_cast<uint64_t>(v));
  return h;
}
uint64_t settings_hash(const Settings& s) {
  return hash_bytes(std::string_view(reinterpret_cast<const char*>(&s), sizeof s));
}

std::string session_key(std::span<const task::Task> tasks, const target::Target& target, const TuneOptions& o,
                        record::Kind kind, uint64_t checkpoint) {
  uint64_t h = combine_hash(kVersion + static_cast<uint64_t>(kind) * 256, target::feature_hash(target));
  h = combine_hash(h, hash_bytes(target::platform_text(target)));
  for (const task::Task& t : tasks) h = combine_hash(h, combine_hash(task_hash(t), static_cast<uint64_t>(t.weight)));
  for (int64_t v : {o.trials, o.trials_per_task, o.threads, o.round_size, o.population, o.generations,
                    static_cast<int64_t>(o.strategy), static_cast<int64_t>(o.scheduler)})
    h = combine_hash(h, static_cast<uint64_t>(v));
  h = combine_hash(h, options_hash(o.space));
  if (o.settings) h = combine_hash(h, settings_hash(*o.settings));
  h = combine_hash(combine_hash(h, o.seed), std::bit_cast<uint64_t>(o.explore));
  for (int64_t choice : o.choices) h = combine_hash(h, static_cast<uint64_t>(choice) + 1);
  for (int64_t turn : o.turns) h = combine_hash(h, static_cast<uint64_t>(turn) + 1);
  if (o.cost_model != cost::kDefaultModel) h = combine_hash(h, hash_bytes(o.cost_model));
  if (checkpoint != 0) h = combine_hash(h, checkpoint);
  if (o.constructed > 0) h = combine_hash(h, combine_hash(0x636f6e73, static_cast<uint64_t>(o.constructed)));
  if (o.strategy == Strategy::kRoller || o.strategy == Strategy::kGensor)
    for (int64_t v : {static_cast<int64_t>(o.construction.variant), static_cast<int64_t>(o.construction.reading),
                      static_cast<int64_t>(o.construction.order), static_cast<int64_t>(o.construction.vthreads)})
      h = combine_hash(h, static_cast<uint64_t>(v));
  if (drafts(o.strategy))
    for (int64_t v : {static_cast<int64_t>(o.drafting.model.kind), static_cast<int64_t>(o.drafting.model.without),
                      o.drafting.drafts, static_cast<int64_t>(o.drafting.explore), o.drafting.verify_generations})
      h = combine_hash(h, static_cast<uint64_t>(v));
  if (o.tasks_at_once > 1) h = combine_hash(h, combine_hash(0x7461736b73, static_cast<uint64_t>(o.tasks_at_once)));
  if (!o.statement_branch || !o.dataflow_branch) h = combine_hash(h, o.statement_branch ? 0x646174 : 0x737461);
  return "tune " + record::hash_text(h);
}

// The values of a session row and of one of its tasks: the one list for writing and reading. fn(name, value)
void session_fields(auto& session, auto&& fn) {
  fn("round", session.round), fn("trials", session.trials), fn("last_record", session.last_record);
}
void task_fields(auto& s, auto&& fn) {
  fn("history", s.history), fn("trials", s.trials), fn("empty_rounds", s.empty_rounds), fn("last_round", s.last_round);
  fn("first_seconds", s.first_seconds), fn("exhausted", s.exhausted), fn("best_seconds", s.best_seconds);
  fn("best_disturbed", s.best_disturbed), fn("best_trace", s.best_trace), fn("best_nest_hash", s.best_nest_hash);
}
auto writer(json& row) {
  return [&row](const char* name, const auto& value) { row[name] = value; };
}
// Each value where the row has it. Throws json::exception where a value has another type.
auto reader(const json& row) {
  return [&row](const char* name, auto& value) {
    if (row.contains(name)) row[name].get_to(value);
  };
}
void read_task(const json& t, TaskState& s) {
  task_fields(s, reader(t));
  for (const json& r : t.value("relatives", json::array()))
    if (r.is_array() && r.size() == 2) s.relatives.push_back({r[0].get<uint64_t>(), r[1].get<int64_t>()});
}

struct Row {
  std::optional<json> checkpoint;  // whole: every value has its type
  bool damaged = false;            // the row does not hold a checkpoint
};

// A row that another version wrote, or that somebody changed, is not a checkpoint: the run starts anew.
Result<Row> load(const std::string& key, const record::Store& store) {
  TCC_TRY(std::optional<std::string> text, store.load_session(key));
  if (!text) return Row{};
  json row = json::parse(*text, nullptr, false);
  try {
    if (!row.is_object() || row.value("version", 0) != kVersion) return Row{{}, true};
    Session session;
    session_fields(session, reader(row));
    for (const json& t : row.value("tasks", json::array())) {
      TaskState task;
      read_task(t, task);
    }
  } catch (const json::exception&) {
    return Row{{}, true};
  }
  return Row{std::move(row), false};
}

// The first row that nobody works on, one of an interrupted run before an empty one.
Result<void> claim_row(Session& session, const std::string& key, bool resume, record::Store& store) {
  constexpr int kRows = 32;
  for (int i = 1; i <= kRows; ++i) {
    const std::string candidate = i == 1 ? key : fmt::format("{} #{}", key, i);
    TCC_TRY(int64_t other, store.claim_session(candidate));
    if (other != 0) {
      session.other_process = other;
      continue;
    }
    TCC_TRY(Row row, load(candidate, store));
    session.damaged = session.damaged || (resume && row.damaged);
    const bool interrupted = resume && row.checkpoint.has_value();
    if (!session.key.empty() && !interrupted) {
      TCC_TRY_VOID(store.release_session(candidate));
      continue;
    }
    if (!session.key.empty()) TCC_TRY_VOID(store.release_session(session.key));
    session.key = candidate;
    if (interrupted || !resume) break;
  }
  if (!session.key.empty()) return {};
  return make_error(ErrorClass::kEnvironment, fmt::format("{} runs of this very search are under way", kRows),
                    "wait for one of them, or give another --seed");
}

// --- a run of the same tasks with other options

// What users call the options that make searches others; the rest differs without a name.
json named_options(const TuneOptions& o) {
  return {{"--trials", std::to_string(o.trials)},
          {"--trials-per-task", std::to_string(o.trials_per_task)},
          {"--threads", std::to_string(o.threads)},
          {"--tasks-at-once", std::to_string(o.tasks_at_once)},
          {"--seed", std::to_string(o.seed)},
          {"--strategy", strategy_names()[static_cast<size_t>(o.strategy)]},
          {"--task-scheduler", task_scheduler_names()[static_cast<size_t>(o.scheduler)]},
          {"--cost-model", o.cost_model}};
}
std::string tasks_key(std::span<const task::Task> tasks, const target::Target& target, record::Kind kind) {
  uint64_t h = combine_hash(static_cast<uint64_t>(kind), target::feature_hash(target));
  for (const task::Task& t : tasks) h = combine_hash(h, task_hash(t));
  return "tune tasks " + record::hash_text(h);
}

// Compares with the last run of these tasks that began, and leaves a note for the next one.
Result<void> note_other_options(Session& session, const std::string& tasks, const TuneOptions& options,
                                record::Store& store) {
  const json own = named_options(options);
  TCC_TRY(const std::optional<std::string> text, store.load_session(tasks));
  const json last = text ? json::parse(*text, nullptr, false) : json();
  if (last.is_object() && last.contains("session") && last["session"].is_string() && last["session"] != session.key) {
    TCC_TRY(const Row row, load(last["session"].get<std::string>(), store));
    const bool waits = row.checkpoint && row.checkpoint->value("trials", 0) > 0;
    for (const auto& [name, value] : own.items())
      if (waits && last.contains(name) && last[name].is_string() && last[name] != value)
        session.interrupted_otherwise +=
            fmt::format("{}{} {} there, {} here", session.interrupted_otherwise.empty() ? "" : ", ", name,
                        sanitize(last[name].get<std::string>()), value.get<std::string>());
  }
  json mine = own;
  mine["session"] = session.key;
  return store.save_session(tasks, mine.dump());
}

}  // namespace

Result<Session> open_session(std::span<const task::Task> tasks, const target::Target& target,
                             const TuneOptions& options, record::Kind kind, uint64_t checkpoint, record::Store& store) {
  Session session;
  TCC_TRY_VOID(claim_row(session, session_key(tasks, target, options, kind, checkpoint), options.resume, store));
  if (!options.resume) return session;
  TCC_TRY(Row row, load(session.key, store));
  TCC_TRY_VOID(note_other_options(session, tasks_key(tasks, target, kind), options, store));
  if (!row.checkpoint) return session;
  session.interrupted_otherwise.clear();
  session_fields(session, reader(*row.checkpoint));
  session.resumed = true;
  return session;
}

int64_t last_record(const std::vector<TaskState>& states) {
  int64_t last = -1;
  for (const TaskState& s : states)
    for (const std::vector<Known>* list : {&s.known, &s.elsewhere})
      for (const Known& k : *list) last = std::max(last, k.record);
  return last;
}

Result<void> restore_session(const Session& session, std::vector<TaskState>& states, const record::Store& store) {
  if (!session.resumed) return {};
  TCC_TRY(Row row, load(session.key, store));
  const json tasks = row.checkpoint ? row.checkpoint->value("tasks", json::array()) : json::array();
  if (tasks.size() != states.size()) return {};
  for (size_t i = 0; i < states.size(); ++i) read_task(tasks[i], states[i]);
  return {};
}

void close_round(Session& session, TaskState& state, const Settings& settings, int64_t trials, int64_t last_record) {
  session.trials += trials;
  session.last_record = std::max(session.last_record, last_record);
  state.history.push_back(state.best_seconds);
  if (state.history.size() == 1) state.first_seconds = state.best_seconds;
  state.last_round = session.round++;
  state.empty_rounds = trials == 0 ? state.empty_rounds + 1 : 0;
  state.exhausted = state.empty_rounds >= settings.scheduling.max_empty_rounds;
}

Result<void> save_session(const Session& session, const std::vector<TaskState>& states, record::Store& store) {
  json row = {{"version", kVersion}, {"tasks", json::array()}};
  session_fields(session, writer(row));
  for (const TaskState& s : states) {
    json relatives = json::array();
    for (const RecordName& r : s.relatives) relatives.push_back({r.task, r.record});
    json& task = row["tasks"].emplace_back(json{{"key", s.task->key}, {"relatives", relatives}});
    task_fields(s, writer(task));
  }
  return store.save_session(session.key, row.dump());
}

}  // namespace tcc::search
