// From what is known of all tasks to the cost model's samples. Private to the room.
#pragma once

#include "search/task_state.h"
#include "tcc/cost/cost_model.h"

namespace tcc::search {

// Retrains the model on every program that has features, in the order of the records.
void learn(cost::CostModel& model, const std::vector<TaskState>& states);

}  // namespace tcc::search
