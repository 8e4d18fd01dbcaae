// From what is known to the cost model's samples. Private to the room.
#pragma once

#include "search/prior.h"
#include "search/task_state.h"
#include "tcc/cost/cost_model.h"

namespace tcc::search {

// Retrains the model for the task at `at`: on all its own programs, and with less weight on what is known of other
// tasks, of other numbers of threads and from earlier runs. A function of the records in their order; at most a few
// thousand samples, so that a long run's rounds cost no more than a short one's.
void learn(cost::CostModel& model, const std::vector<TaskState>& states, const Prior& prior, size_t at);

}  // namespace tcc::search
