// What the user hears. Private to the room.
#pragma once

#include "search/session.h"
#include "search/task_state.h"

namespace tcc::search {

Progress make_progress(Progress::Kind kind, const std::vector<TaskState>& states, int64_t at, const Session& session,
                       const TuneOptions& options, double elapsed, bool improved);
Progress make_note(const std::string& text, const std::vector<TaskState>& states, const Session& session,
                   const TuneOptions& options, double elapsed);
// After a round that ranked and compiled programs of a task, and ran none.
Progress make_ranking_note(const std::vector<TaskState>& states, int64_t at, const Session& session,
                           const TuneOptions& options, double elapsed);
// What is particular about this run: that it goes on, that another process is on the same search.
std::vector<std::string> session_notes(const Session& session);
TuneResult summarise(const std::vector<TaskState>& states, const Session& session, const PhaseSeconds& phases,
                     double elapsed, bool stopped);

}  // namespace tcc::search
