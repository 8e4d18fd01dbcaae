// The table of a model's tasks; for `show` and `tune --tasks list`. Private to the room.
#pragma once

#include "cli/arguments.h"
#include "tcc/support/result.h"

namespace tcc::cli {

Result<int> show_tasks(const Common& common, const TaskArguments& arguments);

}  // namespace tcc::cli
