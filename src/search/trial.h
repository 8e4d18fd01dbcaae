// From picked programs to records: lower, measure, store. Private to the room.
#pragma once

#include <functional>

#include "search/task_state.h"
#include "tcc/cost/cost_model.h"

namespace tcc::search {

struct TrialOutcome {
  int64_t done = 0;      // records of this round, those taken over from an interrupted one included
  bool stopped = false;  // env.stop asked to end before all were measured
  bool improved = false;
  int64_t last_record = -1;  // id; -1: none was added
  PhaseSeconds seconds;      // its measure and compile
};

// Measures the programs in their order, a handful at a time, until `count` of them were not rejected, and stores each
// result as it comes. What an interrupted
// round has measured already is taken from its records. Ends early, keeping what it has, when env.stop says so or
// `out_of_time` does. `model`: ranked them.
Result<TrialOutcome> run_trials(TaskState& state, std::vector<Individual> picks, int64_t count,
                                const cost::CostModel& model, const target::Target& target, const TuneOptions& options,
                                const Environment& env, const std::function<bool()>& out_of_time);

// Unix time for a record.
int64_t unix_now(const Environment& env);

// The skeleton with the decisions.
schedule::Trace trace_of(const TaskState& state, int32_t sketch, std::span<const int64_t> decisions);

}  // namespace tcc::search
