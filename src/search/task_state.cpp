#include "search/task_state.h"

#include <algorithm>
#include <charconv>

#include "tcc/lower/lower.h"
#include "tcc/space/space.h"
#include "tcc/support/check.h"

namespace tcc::search {

uint64_t task_hash(const task::Task& task) {
  uint64_t hash = 0;
  auto [end, error] = std::from_chars(task.key.data(), task.key.data() + task.key.size(), hash, 16);
  TCC_CHECK(error == std::errc() && end == task.key.data() + task.key.size(), "task key '{}'", task.key);
  return hash;
}

namespace {

// The features of a stored program; what no longer replays has none.
void restore_row(Known& known, const record::Record& record, const TaskState& state, const target::Target& target) {
  Result<schedule::Trace> trace = schedule::trace_from_json(record.trace);
  if (!trace) return;
  auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> kernel = schedule::replay(*trace, trace->decisions, state.task->kernel, arena);
  if (!kernel) return;
  ir::Legal<ir::Kernel> nest = lower::lower(*kernel, target, ir::Stage::kNest, arena);
  if (!nest) return;
  known.row = features::extract(*nest, target, record.threads);
  known.has_row = true;
}

void take_best(TaskState& state, const record::Record& record) {
  if (record.status != record::Status::kOk || record.median <= 0) return;
  if (state.best_seconds > 0 && record.median >= state.best_seconds) return;
  state.best_seconds = record.median;
  state.best_nest = record.nest;
  state.best_trace = record.trace;
}

}  // namespace

Result<TaskState> load_task(const task::Task& task, const target::Target& target, const TuneOptions& options,
                            const record::Store& store, int64_t last_record) {
  TaskState state;
  state.task = &task;
  state.hash = task_hash(task);
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target))
    if (ir::Legal<space::Sketch> sketch = space::make_sketch(trace, task.kernel, target); sketch)
      state.sketches.push_back(std::move(*sketch));
  std::unordered_map<uint64_t, int32_t> by_skeleton;
  for (size_t i = 0; i < state.sketches.size(); ++i)
    by_skeleton.emplace(schedule::skeleton_hash(state.sketches[i].trace), static_cast<int32_t>(i));

  TCC_TRY(std::vector<record::Record> records, store.all(state.hash));
  const uint64_t machine = target::feature_hash(target), plain = schedule::skeleton_hash(schedule::Trace{});
  for (const record::Record& record : records) {
    if (record.kind != record::Kind::kMeasured || record.target_features != machine ||
        record.threads != options.threads)
      continue;
    // The plain program is measured beside a search, at a moment of the caller's: proposals must not depend on it.
    if (record.skeleton == plain && !by_skeleton.contains(plain)) continue;
    if (last_record >= 0 && record.id > last_record) {
      state.interrupted.emplace(record.nest, record);
      continue;
    }
    Known known{.record = record.id, .decisions = record.decisions, .nest = record.nest};
    if (auto it = by_skeleton.find(record.skeleton); it != by_skeleton.end()) known.sketch = it->second;
    if (record.status == record::Status::kOk) known.seconds = record.median;
    restore_row(known, record, state, target);
    take_best(state, record);
    state.measured.insert(record.nest);
    state.known.push_back(std::move(known));
  }
  return state;
}

void learn_record(TaskState& state, const record::Record& record, Individual individual) {
  Known known{.record = record.id,
              .sketch = individual.sketch,
              .decisions = std::move(individual.decisions),
              .nest = record.nest};
  known.row = individual.row;
  known.has_row = true;
  if (record.status == record::Status::kOk) known.seconds = record.median;
  state.measured.insert(record.nest);
  state.known.push_back(std::move(known));
  Counts& c = state.counts;
  switch (record.status) {
    case record::Status::kOk:
      ++c.compiled, ++c.measured;
      break;
    case record::Status::kWrong:
      ++c.compiled, ++c.wrong;
      break;
    case record::Status::kCompileFailed:
      ++c.compile_failed;
      break;
    case record::Status::kCrashed:
      ++c.compiled, ++c.crashed;
      break;
    case record::Status::kHung:
      ++c.compiled, ++c.hung;
      break;
    case record::Status::kTimedOut:
      ++c.compiled, ++c.timed_out;
      break;
    case record::Status::kRejected:
      ++c.rejected;
      break;
  }
}

}  // namespace tcc::search
