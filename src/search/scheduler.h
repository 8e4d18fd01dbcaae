// Which task gets the next round, and how many trials. Private to the room.
#pragma once

#include "search/task_state.h"

namespace tcc::search {

// weight * (alpha * (best[n-1-window] - best[n-1]) / window + (1 - alpha) * best[n-1] / n) after n rounds, the first
// term 0 until there are enough (MetaSchedule's gradient scheduler). 0 while nothing valid is known.
double scheduler_gain(const TaskState& state, const Settings& settings);

// What a task adds to the model's time: weight * best_seconds of the fastest form of its choice. 0: nothing is known.
double choice_seconds(const std::vector<TaskState>& states, const TaskState& state);
// How many choices there are: tasks without others count as one each.
size_t count_choices(const std::vector<TaskState>& states);
// Whether another form of its choice leads this one by more than it may still gain: 2 times after one round, 1.4 times
// after two, 1.15 times after three.
bool is_beaten(const std::vector<TaskState>& states, const TaskState& state);
// scheduler_gain, less what the task is behind the best form of its choice.
double choice_gain(const std::vector<TaskState>& states, const TaskState& state, const Settings& settings);

// Tasks without a round come first, those of an earlier turn and then the most arithmetic first. Then, by gradient, the
// one with the greatest gain, except that a task that has waited for 4 turns of all others goes before it; by round
// robin the one that has waited longest. Tasks with a planned round wait. -1: no task is left.
int64_t next_task(const std::vector<TaskState>& states, const TuneOptions& options, const Settings& settings,
                  int64_t round);

// The tasks without a round that can be measured, in the order in which next_task takes them.
std::vector<size_t> unseen_tasks(const std::vector<TaskState>& states, const TuneOptions& options,
                                 const Settings& settings);

// The other forms of a task's choice: how many, and their trials, planned ones included.
struct Rivals {
  int64_t count = 0, trials = 0;
};
Rivals rivals_of(const std::vector<TaskState>& states, const TaskState& state);

// Trials of one round of a task, where `tasks` are built: a twelfth of what the task may expect, 8 at least and
// options.round_size at most; the first round twice as many, unless the model is `informed` of the family before it.
// Where trials are few, every task and every form of it has two rounds, or one. Forms of a choice share
// options.trials_per_task.
int64_t trials_of_round(const TaskState& state, size_t tasks, const TuneOptions& options, const Settings& settings,
                        int64_t trials_used, bool informed = false, const Rivals& rivals = {});

// Share of the trials that is used up; 0 where nothing limits them.
double progress_of(const TaskState& state, const TuneOptions& options, int64_t trials_used);

}  // namespace tcc::search
