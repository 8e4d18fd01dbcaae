// A GPU's counters as people and programs read them. Private to the room.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tcc/driver/library.h"

namespace tcc::cli {

// What was not counted is null.
nlohmann::ordered_json counts_json(const record::Counts& counts);
// One line; seconds: of the run that was counted, 0 = not known.
std::string counts_text(const record::Counts& counts, double seconds);

}  // namespace tcc::cli
