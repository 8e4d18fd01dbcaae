// The best program of a task: who holds the title, and where that is written. Private to the room.
#pragma once

#include "search/task_state.h"

namespace tcc::search {

// The fastest record of a round against the best so far. A lead below `clear_lead` must be confirmed by a paired
// comparison, where there is one. True when the title changed.
Result<bool> challenge_best(TaskState& state, const record::Record& record, double clear_lead,
                            const target::Target& target, const TuneOptions& options, const Environment& env);

// The title holder: the fastest record, or the one that won the last paired comparison if it is within 10 % of it.
Result<std::optional<record::Record>> find_best(const record::Store& store, uint64_t task, const target::Target& target,
                                                int64_t threads);

}  // namespace tcc::search
