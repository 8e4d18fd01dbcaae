// The confirmed best program of a task, and the session text that names it. Private to the room.
#pragma once

#include "search/task_state.h"
#include "tcc/support/files.h"

namespace tcc::search {

// Writes down which program is best. During a run medians decide.
Result<void> save_best(const TaskState& state, const target::Target& target, const TuneOptions& options,
                       record::Store& store);

// At the end, where env offers paired comparisons and a program is within 3 % of the fastest: the fastest by their
// medians, which were taken minutes apart, are timed again in turns, and the fastest few of these meet the fastest in
// pairs. True when the confirmed best changed. `over`: no further program is timed once it says so.
Result<bool> rerank_task(TaskState& state, const target::Target& target, const TuneOptions& options,
                         const Environment& env, const std::function<bool()>& over = {});
// Times that other programs disturbed are taken again, of the fastest few that could be the task's best, as long as the
// machine is quiet by now: the first time that is disturbed again ends it (false). The new records replace the old
// ones.
Result<bool> remeasure_task(TaskState& state, const target::Target& target, const TuneOptions& options,
                            const Environment& env, const std::function<bool()>& over = {});
// Of all tasks whose best time is disturbed, and of those of which a disturbed time is below the best: remeasure_task.
// Then the tasks that take more than 1 % of the network's time, those with the most time first, until
// options.finals_share of the run is spent on it. `since_start`: of the run, before the first of them.
// Nor is options.seconds exceeded. `progress`: called with the number of tasks that are done, and of all.
Result<void> rerank_finalists(std::vector<TaskState>& states, const target::Target& target, const TuneOptions& options,
                              const Environment& env, const Stopwatch& since_start,
                              const std::function<void(int64_t, int64_t)>& progress);

// What is built from. On `threads` where there is something, else on the nearest number of threads, of two equally near
// ones the greater: `record.threads` says which. Among the records of one number of threads it is the confirmed
// best: the fastest, or the one that won the last paired comparison if it is not far behind.
Result<std::optional<record::Record>> find_best(const record::Database& database, uint64_t task,
                                                const target::Target& target, int64_t threads);

}  // namespace tcc::search
