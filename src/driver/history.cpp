#include "tcc/driver/history.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "tcc/driver/forms.h"
#include "tcc/driver/records.h"
#include "tcc/record/disturbed.h"
#include "tcc/search/search.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"

namespace tcc::driver {
namespace {

struct Event {
  size_t task = 0;
  const task::Task* form = nullptr;  // of the task
  record::Record record;
};

// Records of all forms of all tasks in the order of their times.
Result<std::vector<Event>> events_of(const Program& program, const record::Database& store,
                                     const target::Target& target, int64_t threads) {
  const record::Machine machine = search::machine_of(target);
  std::vector<Event> events;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i) {
    for (const task::Task* form : forms_of(program, i)) {
      TCC_TRY(std::vector<record::Record> records, store.all(search::task_hash(form->key)));
      for (record::Record& r : records)
        if (record::is_of(r, machine) && r.threads == threads && r.kind != record::Kind::kSimulated)
          events.push_back({i, form, std::move(r)});
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.record.unix_time < b.record.unix_time; });
  return events;
}

// The best times so far, and the run that the next record belongs to.
class Runs {
 public:
  explicit Runs(const Program& program) : tasks_(program.tasks.tasks), best_(tasks_.size(), 0.0) {}

  void add(const Event& e, bool improves) {
    const record::Record& r = e.record;
    const bool goes_on =
        !runs_.empty() && r.unix_time - runs_.back().end <= kRunPause && runs_.back().version == r.tool_version;
    if (!goes_on) {
      finish();
      runs_.push_back({.begin = r.unix_time, .version = r.tool_version, .platform = r.platform});
    }
    TuningRun& run = runs_.back();
    run.end = r.unix_time;
    ++run.records;
    if (r.status != record::Status::kOk) ++run.failed;
    seen_.insert(e.task);
    if (!improves) return;
    improved_.insert(e.task);
    best_[e.task] = r.median;
  }
  double best(size_t task) const { return best_[task]; }

  // Sums up the last run.
  void finish() {
    if (!runs_.empty()) {
      TuningRun& run = runs_.back();
      run.tasks = std::ssize(seen_), run.improved = std::ssize(improved_);
      run.without = std::count(best_.begin(), best_.end(), 0.0);
      for (size_t i = 0; i < best_.size() && run.without == 0; ++i)
        run.seconds += best_[i] * static_cast<double>(tasks_[i].weight);
    }
    seen_.clear(), improved_.clear();
  }
  const std::vector<TuningRun>& runs() const { return runs_; }

 private:
  const std::vector<task::Task>& tasks_;
  std::vector<double> best_;  // seconds; 0: none yet
  std::vector<TuningRun> runs_;
  std::set<size_t> seen_, improved_;  // tasks of the last run
};

// --- phases: a row of the store for each list of tasks, whatever forms of them are built

using PlainRows = nlohmann::json;

std::string phases_row(const Program& program) {
  uint64_t hash = 0;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i)
    hash = combine_hash(hash, search::task_hash(forms_of(program, i)[0]->key));
  return "phases " + record::hash_text(hash);
}

// An array of objects with "end" and "seconds", and a number for each phase; whatever else was stored counts as none.
Result<PlainRows> load_phases(const Program& program, const record::Database& store) {
  TCC_TRY(const std::optional<std::string> text, store.load_session(phases_row(program)));
  PlainRows rows = text ? PlainRows::parse(*text, nullptr, false) : PlainRows::array();
  return rows.is_array() ? rows : PlainRows::array();
}

double stored_number(const PlainRows& row, const char* name) {
  const auto found = row.is_object() ? row.find(name) : row.end();
  return row.is_object() && found != row.end() && found->is_number() ? found->get<double>() : 0;
}

// Adds each kept run's phases to the run of the history that it was a part of.
void add_phases(const PlainRows& rows, std::vector<TuningRun>& runs) {
  for (const PlainRows& row : rows) {
    const double end = stored_number(row, "end"), begin = end - stored_number(row, "seconds") - 1;
    const auto same = std::find_if(runs.begin(), runs.end(), [&](const TuningRun& r) {
      return static_cast<double>(r.begin) <= end + 1 && begin <= static_cast<double>(r.end);
    });
    if (same == runs.end()) continue;
#define TCC_X(phase) \
  if (stored_number(row, #phase) > 0) same->phases[#phase] += stored_number(row, #phase);
    TCC_SEARCH_PHASES(TCC_X)
#undef TCC_X
  }
}

}  // namespace

Result<void> record_phases(const Program& program, const search::PhaseSeconds& phases, double seconds,
                           record::Store& store) {
  TCC_TRY(PlainRows rows, load_phases(program, store));
  PlainRows row = {{"end", Clock::system().unix_seconds()}, {"seconds", seconds}};
#define TCC_X(phase) row[#phase] = phases.phase;
  TCC_SEARCH_PHASES(TCC_X)
#undef TCC_X
  rows.push_back(std::move(row));
  if (rows.size() > kKeptRuns) rows.erase(rows.begin(), rows.end() - static_cast<int64_t>(kKeptRuns));
  return store.save_session(phases_row(program), rows.dump(-1, ' ', false, PlainRows::error_handler_t::replace));
}

Result<History> tuning_history(const Program& program, const record::Database& store, const target::Target& target,
                               int64_t threads) {
  TCC_TRY(const std::vector<Event> events, events_of(program, store, target, threads));
  History history;
  for (const task::Task& t : program.tasks.tasks)
    history.tasks.push_back({std::ssize(history.tasks), t.key, t.workload, t.weight, t.flops, 0, {}});
  Runs runs(program);
  for (const Event& e : events) {
    const record::Record& r = e.record;
    TaskHistory& task = history.tasks[e.task];
    ++task.records;
    bool improves = r.status == record::Status::kOk && r.median > 0 && !record::is_disturbed(r) &&
                    (runs.best(e.task) == 0 || r.median < runs.best(e.task));
    if (improves) {
      TCC_TRY(const bool wrong, store.is_wrong(r.task, r.target_features, r.nest_hash));
      improves = !wrong;
    }
    if (improves) task.best.push_back({r.id, r.unix_time, r.median, form_of(e.form->workload)});
    runs.add(e, improves);
  }
  runs.finish();
  history.runs = runs.runs();
  TCC_TRY(const PlainRows phases, load_phases(program, store));
  add_phases(phases, history.runs);
  return history;
}

Result<StoreChange> compare_stores(const record::Store& a, const record::Store& b) {
  std::map<std::tuple<std::string, std::string, std::string, int64_t, std::string>, TaskChange> tasks;
  std::map<const TaskChange*, uint64_t> programs;  // of store a
  for (const record::Store* store : {&a, &b}) {
    const bool first = store == &a;
    TCC_TRY(const StoreSummary summary, summarise_store(*store));
    for (const TaskRecords& t : summary.tasks) {
      TaskChange& change = tasks[{t.workload, t.key, t.target, t.threads, t.platform}];
      change.key = t.key, change.workload = t.workload, change.target = t.target, change.platform = t.platform;
      change.threads = t.threads;
      (first ? change.records_a : change.records_b) = t.records;
      (first ? change.seconds_a : change.seconds_b) = t.best_seconds;
      if (first)
        programs[&change] = t.best_program;
      else
        change.same_program = change.seconds_a > 0 && t.best_seconds > 0 && programs[&change] == t.best_program;
    }
  }
  StoreChange out;
  double logs = 0;
  for (auto& [key, change] : tasks) {
    if (change.seconds_a > 0 && change.seconds_b > 0) {
      ++out.both;
      logs += std::log(change.seconds_a / change.seconds_b);
    }
    out.tasks.push_back(std::move(change));
  }
  if (out.both > 0) out.speed = std::exp(logs / static_cast<double>(out.both));
  return out;
}

}  // namespace tcc::driver
