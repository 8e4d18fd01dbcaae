// From picked programs to records: lower, measure, store. Private to the room.
#pragma once

#include <functional>

#include "search/task_state.h"
#include "tcc/cost/cost_model.h"

namespace tcc::search {

// A round of one task: its programs and their outcome.
struct TaskRound {
  TaskState* state = nullptr;
  std::vector<Individual> picks;
  int64_t count = 0;         // programs to measure; further picks replace those that are rejected
  size_t next = 0;           // of the picks
  int64_t tried = 0;         // programs that were not rejected
  int64_t trials = 0;        // of those, no twins
  bool improved = false;     // a new best was found
  int64_t last_record = -1;  // id; -1: none was added
};

struct TrialOutcome {
  bool stopped = false;  // env.stop asked to end before all were measured
  PhaseSeconds seconds;  // measure and compile
};

// Measures the programs of rounds of different tasks, those of each in their order, as many at once as the measurer
// takes. A round ends when `count` of its programs were not rejected. Stores each result as it comes. What an
// interrupted round has measured already is taken from its records. Ends early, keeping what it has, when env.stop says
// so or `out_of_time` does. `model`: ranked them.
Result<TrialOutcome> run_trials(std::span<TaskRound> rounds, const cost::CostModel& model, const target::Target& target,
                                const TuneOptions& options, const Environment& env,
                                const std::function<bool()>& out_of_time);

// Unix time for a record.
int64_t unix_now(const Environment& env);

// The skeleton with the decisions.
schedule::Trace trace_of(const TaskState& state, int32_t sketch, std::span<const int64_t> decisions);

}  // namespace tcc::search
