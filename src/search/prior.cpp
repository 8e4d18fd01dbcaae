#include "search/prior.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "search/vary.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::search {

using nlohmann::json;

namespace {

constexpr size_t kTasks = 6, kFast = 16, kSpread = 32, kTraces = 4, kSeeds = 8;

std::string family_key(task::AnchorKind anchor, const target::Target& target, int64_t threads) {
  // Times of one platform only are comparable.
  const record::Machine machine = machine_of(target);
  return fmt::format("family {} {} {}", task::anchor_name(anchor),
                     record::hash_text(combine_hash(machine.features, hash_bytes(machine.platform))), threads);
}
std::string copy_key(const Session& session) {
  return session.key + " prior";
}

json to_json(const PriorTask& t) {
  json rows = json::array();
  for (size_t i = 0; i < t.rows.size(); ++i) rows.push_back(t.rows[i]);
  return {{"anchor", static_cast<int>(t.anchor)},
          {"hash", record::hash_text(t.hash)},
          {"rows", rows},
          {"throughputs", t.throughputs},
          {"best", t.best}};
}

// Rows of another schema, or of another version of it, are ignored, and `notes` says so.
std::vector<PriorTask> parse(const std::optional<std::string>& text, const features::Schema& schema,
                             std::vector<std::string>* notes = nullptr) {
  std::vector<PriorTask> out;
  if (!text) return out;
  json all = json::parse(*text, nullptr, false);
  if (all.is_discarded() || !all.is_object() || !all.contains("tasks") || !all["tasks"].is_array()) return out;
  const json &schema_name = all["schema"], &schema_version = all["version"];  // null where it is missing
  const std::string name = schema_name.is_string() ? schema_name.get<std::string>() : "unknown";
  const int version = schema_version.is_number() ? schema_version.get<int>() : 0;
  if (name != schema.name || version != schema.version) {
    if (notes != nullptr)
      notes->push_back(
          fmt::format("the records' feature rows have schema '{}' version {}, expected '{}' version {}: they "
                      "are ignored, and this run replaces them",
                      sanitize(name), version, schema.name, schema.version));
    return out;
  }
  for (const json& t : all["tasks"]) {
    PriorTask task;
    try {
      task.anchor = static_cast<task::AnchorKind>(t.at("anchor").get<int>());
      task.hash = std::stoull(t.at("hash").get<std::string>(), nullptr, 16);
      task.rows = features::Rows(schema);
      for (const json& row : t.at("rows")) {
        const auto values = row.get<std::vector<float>>();
        if (values.size() == schema.columns.size()) task.rows.add(values);
      }
      task.throughputs = t.at("throughputs").get<std::vector<float>>();
      task.best = t.at("best").get<std::vector<std::string>>();
    } catch (const std::exception&) {
      continue;
    }
    if (task.rows.size() == task.throughputs.size()) out.push_back(std::move(task));
  }
  return out;
}

std::string print(const std::vector<PriorTask>& tasks, const features::Schema& schema) {
  json list = json::array();
  for (const PriorTask& t : tasks) list.push_back(to_json(t));
  return json{{"schema", schema.name}, {"version", schema.version}, {"tasks", list}}.dump();
}

// The fastest programs, and others evenly over the rest.
PriorTask summary(const TaskState& state) {
  PriorTask out{.anchor = state.task->anchor, .hash = state.hash, .rows = {}, .throughputs = {}, .best = {}};
  std::vector<const Known*> order = fastest_known(state.known, state.known.size());
  if (order.empty()) return out;
  for (size_t i = 0; i < std::min(order.size(), kTraces); ++i) {
    schedule::Trace trace = state.sketches[static_cast<size_t>(order[i]->sketch)].trace;
    trace.decisions = order[i]->decisions;
    out.best.push_back(schedule::trace_to_json(trace));
  }
  std::set<size_t> take;
  for (size_t i = 0; i < std::min(order.size(), kFast); ++i) take.insert(i);
  for (size_t i = 0; i < kSpread; ++i) take.insert(i * order.size() / kSpread);
  for (size_t i : take) {
    out.rows.add(order[i]->sample.row);
    out.throughputs.push_back(static_cast<float>(order[0]->seconds / order[i]->seconds));
  }
  return out;
}

void seed_from_trace(const schedule::Trace& from, std::span<const int64_t> decisions, const TaskState& state,
                     std::vector<Seed>& out) {
  uint64_t shape = shape_hash(from);
  for (size_t s = 0; s < state.sketches.size() && out.size() < kSeeds; ++s) {
    const space::Sketch& sketch = state.sketches[s];
    if (shape_hash(sketch.trace) != shape) continue;
    out.push_back({static_cast<int32_t>(s), transfer_decisions(from, decisions, sketch, sketch.trace.decisions)});
  }
}

}  // namespace

Result<Prior> load_prior(std::span<const task::Task> tasks, const target::Target& target, const TuneOptions& options,
                         const features::Schema& schema, const Session& session, record::Store& store) {
  Prior prior;
  std::set<task::AnchorKind> families;
  for (const task::Task& t : tasks) families.insert(t.anchor);
  if (session.resumed) {
    TCC_TRY(std::optional<std::string> copy, store.load_session(copy_key(session)));
    prior.tasks = parse(copy, schema, &prior.notes);
  } else {
    for (task::AnchorKind anchor : families) {
      TCC_TRY(std::optional<std::string> text, store.load_session(family_key(anchor, target, options.threads)));
      for (PriorTask& t : parse(text, schema, &prior.notes)) prior.tasks.push_back(std::move(t));
    }
    TCC_TRY_VOID(store.save_session(copy_key(session), print(prior.tasks, schema)));
  }
  return prior;
}

Result<void> leave_prior(const std::vector<TaskState>& states, const target::Target& target, const TuneOptions& options,
                         const features::Schema& schema, const Session& session, record::Store& store) {
  std::set<task::AnchorKind> families;
  for (const TaskState& s : states) families.insert(s.task->anchor);
  for (task::AnchorKind anchor : families) {
    std::string key = family_key(anchor, target, options.threads);
    TCC_TRY(std::optional<std::string> text, store.load_session(key));
    std::vector<PriorTask> tasks = parse(text, schema);
    for (const TaskState& s : states) {
      if (s.task->anchor != anchor) continue;
      PriorTask mine = summary(s);
      if (mine.rows.empty()) continue;
      std::erase_if(tasks, [&](const PriorTask& t) { return t.hash == s.hash; });
      tasks.push_back(std::move(mine));
    }
    if (tasks.size() > kTasks) tasks.erase(tasks.begin(), tasks.end() - kTasks);
    TCC_TRY_VOID(store.save_session(key, print(tasks, schema)));
  }
  return store.erase_session(copy_key(session));
}

bool knows_family(const Prior& prior, task::AnchorKind anchor) {
  return std::any_of(prior.tasks.begin(), prior.tasks.end(), [&](const PriorTask& t) { return t.anchor == anchor; });
}

std::vector<Seed> related_seeds(const std::vector<TaskState>& states, const Prior& prior, size_t at) {
  std::vector<Seed> out;
  const TaskState& mine = states[at];
  if (!mine.known.empty()) return out;
  for (size_t rank = 0; rank < 2; ++rank)  // every relative's best before anyone's second
    for (size_t i = 0; i < states.size(); ++i) {
      if (i == at || states[i].task->anchor != mine.task->anchor) continue;
      std::vector<const Known*> best = fastest_known(states[i].known, rank + 1);
      if (best.size() <= rank) continue;
      seed_from_trace(states[i].sketches[static_cast<size_t>(best[rank]->sketch)].trace, best[rank]->decisions, mine,
                      out);
    }
  for (size_t rank = 0; rank < kTraces; ++rank)
    for (size_t i = prior.tasks.size(); i-- > 0;) {
      const PriorTask& t = prior.tasks[i];
      if (t.anchor != mine.task->anchor || t.hash == mine.hash || t.best.size() <= rank) continue;
      Result<schedule::Trace> trace = schedule::trace_from_json(t.best[rank]);
      if (trace) seed_from_trace(*trace, trace->decisions, mine, out);
    }
  return out;
}

}  // namespace tcc::search
