// The session row: what an interrupted run needs to go on with the same proposals. Private to the room.
#pragma once

#include <string>

#include "search/task_state.h"

namespace tcc::search {

struct Session {
  std::string key;
  int64_t round = 0;         // the next round
  int64_t trials = 0;        // used up to it
  int64_t last_record = -1;  // id of the last record that its proposals may depend on
  bool resumed = false;
  bool damaged = false;       // there was a checkpoint that could not be used
  int64_t other_process = 0;  // that is on the same search right now, with a row of its own; 0: none
  // Where an interrupted run of the same tasks waits for other options: how they differ. Otherwise "".
  std::string interrupted_otherwise;
};

// The row of an interrupted run of the same tasks, target and options, else a fresh session whose last_record is -1.
// Rows belong to the process that works on them: a second run of the same search, at the same time, gets one of its
// own.
// `kind`: of the records that it makes. `checkpoint`: of the model. Proposals depend on it, so it is part of what makes
// two searches the same.
Result<Session> open_session(std::span<const task::Task> tasks, const target::Target& target,
                             const TuneOptions& options, record::Kind kind, uint64_t checkpoint, record::Store& store);
// Id of the last record that the states were made from; -1: none.
int64_t last_record(const std::vector<TaskState>& states);
// What the row says of each task, put into the states.
Result<void> restore_session(const Session& session, std::vector<TaskState>& states, const record::Store& store);
// A round of `state` is over: it measured `trials` programs, the last of them stored as `last_record` (-1: none). A
// task whose rounds find nothing new again and again is exhausted.
void close_round(Session& session, TaskState& state, const Settings& settings, int64_t trials, int64_t last_record);
Result<void> save_session(const Session& session, const std::vector<TaskState>& states, record::Store& store);

}  // namespace tcc::search
