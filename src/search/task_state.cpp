#include "search/task_state.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <map>

#include "search/anchor.h"
#include "tcc/backend/backend.h"
#include "tcc/lower/lower.h"
#include "tcc/record/disturbed.h"
#include "tcc/space/space.h"
#include "tcc/support/check.h"

namespace tcc::search {

uint64_t task_hash(const std::string& key) {
  uint64_t hash = 0;
  auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), hash, 16);
  TCC_CHECK(error == std::errc() && end == key.data() + key.size(), "task key '{}'", key);
  return hash;
}

namespace {

constexpr size_t kElsewhere = 256;  // records of other numbers of threads that the model sees
constexpr size_t kTaskSeeds = 8;
constexpr size_t kMaxPredicted = 16;  // seeds that nobody has run

// The features of a stored program; what no longer replays has none. Its sketch, where it is one of today's.
void restore_program(Known& known, const record::Record& record, const TaskState& state,
                     const std::unordered_map<uint64_t, int32_t>& sketches, const target::Target& target,
                     const features::Needs& needs) {
  Result<schedule::Trace> trace = schedule::trace_from_json(record.trace);
  if (!trace) return;
  if (auto it = sketches.find(space::structural_key(*trace, trace->decisions)); it != sketches.end())
    known.sketch = it->second;
  auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> kernel = schedule::replay(*trace, trace->decisions, state.task->kernel, arena);
  if (!kernel) return;
  ir::Legal<ir::Kernel> nest = lower::lower(*kernel, target, ir::Stage::kNest, arena);
  if (!nest) return;
  features::Workspace workspace;
  features::extract(needs, {*state.task, *trace, trace->decisions, *nest, target, record.threads}, workspace,
                    known.sample);
}

// Programs that an analytical model expects to be the fastest on this architecture.
void seed_from_predictions(TaskState& state, std::vector<record::Record> records, const target::Target& target,
                           const std::unordered_map<uint64_t, int32_t>& sketches) {
  const std::string isa = backend::backend_of(target).isa(target);
  std::erase_if(records, [&](const record::Record& r) {
    return !record::is_untimed(r.kind) || r.status != record::Status::kOk || r.isa != isa;
  });
  std::stable_sort(records.begin(), records.end(), [](const auto& x, const auto& y) { return x.median < y.median; });
  for (const record::Record& r : records) {
    if (state.seeds.size() >= kMaxPredicted) return;
    Result<schedule::Trace> trace = schedule::trace_from_json(r.trace);
    if (!trace) continue;
    if (auto it = sketches.find(space::structural_key(*trace, trace->decisions)); it != sketches.end())
      state.seeds.push_back({it->second, r.decisions});
  }
}

}  // namespace

bool take_best(TaskState& state, const record::Record& record) {
  if (record.status != record::Status::kOk || record.median <= 0) return false;
  const bool disturbed = record::is_disturbed(record);
  if (state.best_seconds > 0 && record::comparable_seconds(record.median, disturbed) >=
                                    record::comparable_seconds(state.best_seconds, state.best_disturbed))
    return false;
  state.best_seconds = record.median;
  state.best_disturbed = disturbed;
  state.best_nest_hash = record.nest_hash;
  state.best_trace = record.trace;
  return true;
}

Result<TaskState> load_task(const task::Task& task, const target::Target& target, const TuneOptions& options,
                            const features::Needs& needs, const record::Store& store, int64_t last_record,
                            record::Kind kind) {
  TaskState state;
  state.task = &task;
  state.hash = task_hash(task);
  state.anchor = anchor_hash(task);
  state.shape = anchor_shape(task);
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target, options.space))
    for (const schedule::Trace& placed : space::structural_variants(trace, task.kernel, target))
      if (ir::Legal<space::Sketch> sketch = space::make_sketch(placed, task.kernel, target); sketch)
        state.sketches.push_back(std::move(*sketch));
  std::unordered_map<uint64_t, int32_t> sketches;
  for (size_t i = 0; i < state.sketches.size(); ++i) sketches.emplace(state.sketches[i].key, static_cast<int32_t>(i));

  TCC_TRY(std::vector<record::Record> records, store.all(state.hash));
  const record::Machine machine = machine_of(target);
  const uint64_t plain = schedule::skeleton_hash(schedule::Trace{});
  bool plain_is_sketch = std::any_of(state.sketches.begin(), state.sketches.end(),
                                     [](const space::Sketch& s) { return s.trace.instructions.empty(); });
  std::map<std::pair<uint64_t, int64_t>, int64_t> newest;  // the last record of a program is its verdict
  for (const record::Record& r : records)
    if (r.kind == kind && record::is_of(r, machine) && (last_record < 0 || r.id <= last_record))
      newest[{r.nest_hash, r.threads}] = r.id;
  for (const record::Record& record : records) {
    if (record.kind != kind || !record::is_of(record, machine)) continue;
    // The plain program is measured beside a search, at a moment of the caller's: proposals must not depend on it.
    if (record.skeleton == plain && !plain_is_sketch) continue;
    bool here = record.threads == options.threads, later = last_record >= 0 && record.id > last_record;
    if (later) {
      if (here) state.interrupted.emplace(record.nest_hash, record);
      continue;
    }
    if (newest[{record.nest_hash, record.threads}] != record.id) continue;
    Known known{.record = record.id, .decisions = record.decisions, .nest_hash = record.nest_hash};
    if (record.status == record::Status::kOk) known.seconds = record.median;
    known.disturbed = record::is_disturbed(record);
    restore_program(known, record, state, sketches, target, needs);
    if (!here) {
      state.elsewhere.push_back(std::move(known));
      continue;
    }
    take_best(state, record);
    state.measured.insert(record.nest_hash);
    state.known.push_back(std::move(known));
  }
  for (const Known* k : fastest_known(state.elsewhere, kTaskSeeds)) state.seeds.push_back({k->sketch, k->decisions});
  if (kind == record::Kind::kMeasured) seed_from_predictions(state, std::move(records), target, sketches);
  if (state.elsewhere.size() > kElsewhere)
    state.elsewhere.erase(state.elsewhere.begin(), state.elsewhere.end() - kElsewhere);
  return state;
}

std::vector<const Known*> fastest_known(const std::vector<Known>& known, size_t count) {
  std::vector<const Known*> out;
  for (const Known& k : known)
    if (k.seconds > 0 && k.sketch >= 0 && !k.sample.empty()) out.push_back(&k);
  std::stable_sort(out.begin(), out.end(), [](const Known* x, const Known* y) { return x->seconds < y->seconds; });
  out.resize(std::min(out.size(), count));
  return out;
}

void learn_record(TaskState& state, const record::Record& record, Individual individual, bool twin) {
  Known known{.record = record.id,
              .sketch = individual.sketch,
              .decisions = std::move(individual.decisions),
              .nest_hash = record.nest_hash};
  known.sample = std::move(individual.sample);
  if (record.status == record::Status::kOk) known.seconds = record.median;
  known.disturbed = record::is_disturbed(record);
  state.measured.insert(record.nest_hash);
  state.measured.insert(individual.nest_hash);  // of the same program before it was replayed
  state.known.push_back(std::move(known));
  Counts& c = state.counts;
  if (twin) {
    ++c.duplicate;
    return;
  }
  using record::Status;
  const Status status = record.status;
  constexpr std::pair<Status, int64_t Counts::*> kFailures[] = {
      {Status::kWrong, &Counts::wrong},        {Status::kCompileFailed, &Counts::compile_failed},
      {Status::kCrashed, &Counts::crashed},    {Status::kHung, &Counts::hung},
      {Status::kTimedOut, &Counts::timed_out}, {Status::kRejected, &Counts::rejected}};
  for (const auto& [failure, count] : kFailures) c.*count += status == failure ? 1 : 0;
  if (status != Status::kCompileFailed && status != Status::kRejected) ++c.compiled;
  if (status == Status::kOk && record.kind != record::Kind::kPredicted) ++c.measured;
  if (status == Status::kOk && record::is_disturbed(record)) ++c.disturbed;
  if (status != Status::kRejected) return;
  // By the last passes of lowering: "reason: text".
  const size_t colon = record.failure.find(": ");
  const std::string reason = record.failure.substr(0, colon);
  ++c.rejected_by_reason[reason];
  if (colon != std::string::npos) c.reject_examples.emplace(reason, record.failure.substr(colon + 2));
}

Result<std::vector<TaskState>> load_tasks(std::span<const task::Task> tasks, const target::Target& target,
                                          const TuneOptions& options, const features::Needs& needs,
                                          const record::Store& store, int64_t last_record, record::Kind kind,
                                          ThreadPool* pool) {
  std::vector<Result<TaskState>> loaded(tasks.size(), Result<TaskState>(TaskState{}));
  parallel_for(pool, std::ssize(tasks), [&](int64_t i) {
    auto at = static_cast<size_t>(i);
    loaded[at] = load_task(tasks[at], target, options, needs, store, last_record, kind);
  });
  static std::atomic<uint64_t> runs{0};
  const uint64_t run = ++runs;
  std::vector<TaskState> states;
  for (Result<TaskState>& state : loaded) {
    TCC_TRY(TaskState ready, std::move(state));
    ready.run = run;
    if (!options.choices.empty()) ready.choice = options.choices.at(states.size());
    if (!options.turns.empty()) ready.turn = options.turns.at(states.size());
    states.push_back(std::move(ready));
  }
  return states;
}

}  // namespace tcc::search
