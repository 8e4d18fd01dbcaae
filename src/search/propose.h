// Proposing programs: evolution over the design spaces under a cost model. Private to the room.
#pragma once

#include "search/task_state.h"
#include "tcc/cost/cost_model.h"

namespace tcc::search {

struct RoundPlan {
  int64_t count = 0;        // programs wanted
  double progress = 0;      // share of the trials that is used up; 0 where there is no limit
  std::vector<Seed> seeds;  // programs of related tasks, best first
};

// At most plan.count programs that were never measured and differ from each other, in the order of measuring. A
// function of the arguments alone: slot i of a generation draws from rng.fork, whichever thread works on it. Counts
// what was proposed, rejected and duplicate into `counts`.
std::vector<Individual> propose(const TaskState& state, const cost::CostModel& model, const RoundPlan& plan,
                                const target::Target& target, const TuneOptions& options, const Rng& rng,
                                ThreadPool* pool, Counts& counts);

}  // namespace tcc::search
