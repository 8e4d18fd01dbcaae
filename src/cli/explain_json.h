// An explanation as JSON, for `explain --json` and `report`. Private to the room.
#pragma once

#include "cli/json.h"
#include "tcc/driver/explain.h"

namespace tcc::cli {

Json explanation_json(const driver::Explanation& e);

}  // namespace tcc::cli
