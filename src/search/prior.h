// What earlier runs leave to later ones about tasks of the same families: features and throughputs of some of their
// programs for the cost model, and their best traces to begin with. Private to the room.
//
// Records alone do not serve for this: features need the kernel, which a store does not hold. One row of the store's
// sessions for each family, target and number of threads.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "search/session.h"
#include "search/task_state.h"
#include "tcc/search/shipped_prior.h"

namespace tcc::search {

struct Prior {
  std::vector<PriorTask> tasks;  // oldest first
  const ShippedPrior* shipped = nullptr;
  std::set<task::AnchorKind> unknown;  // families that the store has nothing of: what ships is for their tasks
  std::vector<std::string> notes;      // for the user: rows of another schema that were ignored
};

// For the families of these tasks: rows of `schema`. In the default space, and where the shipped rows have this schema,
// with the shipped rows of families that the store lacks. A resumed session gets what it began with, whatever other
// runs have left since.
Result<Prior> load_prior(std::span<const task::Task> tasks, const target::Target& target, const TuneOptions& options,
                         const features::Schema& schema, const Session& session, const ShippedPrior* shipped,
                         record::Store& store);
// Adds what this run knows of its tasks and forgets the session's copy.
Result<void> leave_prior(const std::vector<TaskState>& states, const target::Target& target, const TuneOptions& options,
                         const features::Schema& schema, const Session& session, record::Store& store);

// Whether the model learns from tasks of the family before this run's own.
bool knows_family(const Prior& prior, task::AnchorKind anchor);

// For a task without records, programs of related ones, brought to its extents: best tasks of the same family in this
// run, then those of earlier runs, where a sketch has the same steps.
std::vector<Seed> related_seeds(const std::vector<TaskState>& states, const Prior& prior, size_t at);

}  // namespace tcc::search
