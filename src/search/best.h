// The best program of a task: who holds the title, and where that is written. Private to the room.
#pragma once

#include "search/task_state.h"

namespace tcc::search {

// Writes down who is best. During a run medians decide.
Result<void> save_title(const TaskState& state, const target::Target& target, const TuneOptions& options,
                        record::Store& store);

// At the end: the fastest few by their medians, which were taken minutes apart, meet the fastest in paired comparisons,
// where env offers them. True when the title changed.
Result<bool> hold_final(TaskState& state, const target::Target& target, const TuneOptions& options,
                        const Environment& env);

// The title holder: the fastest record, or the one that won the last paired comparison if it is within 10 % of it.
Result<std::optional<record::Record>> find_best(const record::Store& store, uint64_t task, const target::Target& target,
                                                int64_t threads);

}  // namespace tcc::search
