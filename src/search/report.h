// What the user hears. Private to the room.
#pragma once

#include "search/session.h"
#include "search/task_state.h"

namespace tcc::search {

Progress make_progress(Progress::Kind kind, const std::vector<TaskState>& states, int64_t at, const Session& session,
                       const TuneOptions& options, double elapsed, bool improved);
TuneResult summarise(const std::vector<TaskState>& states, const Session& session, double elapsed, bool stopped);

}  // namespace tcc::search
