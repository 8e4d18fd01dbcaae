// Proposing programs: evolution over the design spaces under a cost model. Private to the room.
#pragma once

#include "search/task_state.h"
#include "tcc/cost/cost_model.h"

namespace tcc::search {

// At most n programs that were never measured and differ from each other, best first. A function of the arguments
// alone: slot i of a generation draws from rng.fork, whichever thread works on it. Counts what was proposed, rejected
// and duplicate into `counts`.
std::vector<Individual> propose(const TaskState& state, const cost::CostModel& model, int64_t n,
                                const target::Target& target, const TuneOptions& options, const Rng& rng,
                                ThreadPool* pool, Counts& counts);

}  // namespace tcc::search
