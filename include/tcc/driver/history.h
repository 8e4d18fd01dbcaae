// What tuning reached by when, and how two stores of records differ.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tcc/driver/compile.h"
#include "tcc/record/store.h"

namespace tcc::driver {

// The best valid program of one task became faster.
struct Improvement {
  int64_t record = 0;  // its number
  int64_t unix_time = 0;
  double seconds = 0;
  std::string form;  // see form_of()
};
// Of all forms of a task.
struct TaskHistory {
  int64_t number = 0;
  std::string key, workload;
  int64_t weight = 1;
  double flops = 0;
  int64_t records = 0;
  std::vector<Improvement> best;  // oldest first; disturbed times and programs with wrong results are left out
};
// Records of a model's tasks without a pause of more than kRunPause seconds, by one version of tcc.
struct TuningRun {
  int64_t begin = 0, end = 0;     // Unix time
  std::string version, platform;  // of its first record
  int64_t records = 0, failed = 0;
  int64_t tasks = 0, improved = 0;  // tasks with records, and those of them whose best became faster
  // After the run: the best times of all tasks, each times its weight; 0 where a task has none yet.
  double seconds = 0;
  int64_t without = 0;  // tasks without a valid program after the run
  // Wall seconds by phase (TCC_SEARCH_PHASES), where tcc kept them; no others than those above 0.
  std::map<std::string, double> phases;
};
inline constexpr int64_t kRunPause = 600;

struct History {
  std::vector<TuningRun> runs;  // oldest first
  std::vector<TaskHistory> tasks;
};
// Keeps the wall time of each phase of a run that just ended, for tuning_history() of this program. The newest
// kKeptRuns are kept.
Result<void> record_phases(const Program& program, const search::PhaseSeconds& phases, double seconds,
                           record::Store& store);
inline constexpr size_t kKeptRuns = 200;

// Of what was measured (or predicted, where the target's programs cannot run here) for this target and number of
// threads. Errors: those of the store.
Result<History> tuning_history(const Program& program, const record::Database& store, const target::Target& target,
                               int64_t threads);

// The best valid programs of one task, target, machine and number of threads in two stores, "a" and "b".
struct TaskChange {
  std::string key, workload, target, platform;
  int64_t threads = 0;
  int64_t records_a = 0, records_b = 0;  // 0: the store does not know the task
  double seconds_a = 0, seconds_b = 0;   // 0: none is valid
  bool same_program = false;             // both are valid, and the same program
};
struct StoreChange {
  std::vector<TaskChange> tasks;  // by workload
  int64_t both = 0;               // tasks with a valid program in both
  double speed = 1;               // their geometric mean of seconds_a / seconds_b
};
Result<StoreChange> compare_stores(const record::Store& a, const record::Store& b);

}  // namespace tcc::driver
