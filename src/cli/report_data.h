// The block of JSON of a report page (docs/report.md) from what the driver says. Private to the room.
#pragma once

#include <string>
#include <vector>

#include "cli/json.h"
#include "cli/lookup.h"
#include "tcc/driver/history.h"
#include "tcc/driver/machine_facts.h"
#include "tcc/driver/report.h"

namespace tcc::cli {

struct ModelOnPage {
  std::string name;  // as the command line gave it
  const OpenTasks& open;
  const std::vector<driver::ReportedTask>& tasks;
  const driver::History& history;
  const driver::MachineFacts* facts;  // of the machine that runs the target; nullptr: nominal rates
  int64_t threads;
};
Json model_page(const ModelOnPage& page);
Json store_page(const std::string& path, const std::vector<driver::StoredTask>& tasks);
// metadata: of the library. `facts`: the rates to draw, of this machine; nullptr: none.
Json library_page(const std::string& path, const Json& metadata, const driver::MachineFacts* facts);
// Two libraries side by side, task by task.
Json pair_page(const std::string& path_a, const Json& a, const std::string& path_b, const Json& b,
               const driver::MachineFacts* facts);

}  // namespace tcc::cli
