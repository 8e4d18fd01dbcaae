// What earlier runs leave to later ones about tasks of the same families: features and throughputs of some of their
// programs for the cost model, and their best traces to begin with. Private to the room.
//
// Records alone do not serve for this: features need the kernel, which a store does not hold. One row of the store's
// sessions for each family, target and number of threads.
#pragma once

#include <string>
#include <vector>

#include "search/session.h"
#include "search/task_state.h"

namespace tcc::search {

struct PriorTask {
  task::AnchorKind anchor = task::AnchorKind::kElementwise;
  uint64_t hash = 0;  // of the task
  features::Rows rows;
  std::vector<float> throughputs;  // of the fastest, in (0, 1]
  std::vector<std::string> best;   // traces as JSON, fastest first
};

struct Prior {
  std::vector<PriorTask> tasks;    // oldest first
  std::vector<std::string> notes;  // for the user: rows of another schema that were ignored
};

// For the families of these tasks: rows of `schema`. A resumed session gets what it began with, whatever other runs
// have left since.
Result<Prior> load_prior(std::span<const task::Task> tasks, const target::Target& target, const TuneOptions& options,
                         const features::Schema& schema, const Session& session, record::Store& store);
// Adds what this run knows of its tasks and forgets the session's copy.
Result<void> leave_prior(const std::vector<TaskState>& states, const target::Target& target, const TuneOptions& options,
                         const features::Schema& schema, const Session& session, record::Store& store);

// Whether the model learns from tasks of the family before this run's own.
bool knows_family(const Prior& prior, task::AnchorKind anchor);

// For a task without records, programs of related ones, brought to its extents: best tasks of the same family in this
// run, then those of earlier runs, where a sketch has the same steps.
std::vector<Seed> related_seeds(const std::vector<TaskState>& states, const Prior& prior, size_t at);

}  // namespace tcc::search
