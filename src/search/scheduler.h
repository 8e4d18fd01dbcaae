// Which task gets the next round, and how many trials. Private to the room.
#pragma once

#include "search/task_state.h"

namespace tcc::search {

// Tasks without a round come first, the most arithmetic first; then the one with the greatest weighted gain,
//   weight * (alpha * (best[n-4] - best[n-1]) / 3 + (1 - alpha) * best[n-1] / n),
// (MetaSchedule's gradient scheduler); a task that has waited for 4 turns of all others goes before it. -1: no task is
// left.
int64_t next_task(const std::vector<TaskState>& states, const TuneOptions& options, int64_t round);

// Trials of one round: a twelfth of what the task may expect, 8 at least and options.round_size at most; the first
// round twice as many. Where trials are few, every task has two rounds, or one.
int64_t trials_of_round(const TaskState& state, size_t tasks, const TuneOptions& options, int64_t trials_used);

// Share of the trials that is used up; 0 where nothing limits them.
double progress_of(const TaskState& state, const TuneOptions& options, int64_t trials_used);

}  // namespace tcc::search
