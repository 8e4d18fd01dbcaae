// The options of `tcc tune`, and the search that they ask for. Private to the room.
#pragma once

#include <optional>
#include <string>

#include "cli/arguments.h"
#include "cli/fleet_arguments.h"
#include "tcc/driver/tune.h"

namespace tcc::cli {

struct TuneArguments : TaskArguments {
  Common common;
  int64_t trials = 0, trials_per_task = 0;  // 0 = no limit of the user's
  std::optional<std::string> time;
  std::string effort = "2";
  uint64_t seed = 1;
  std::string strategy = "evolutionary", task_scheduler = "gradient", cost_model;
  std::string pretrained, adapt;
  int64_t measure_top = 0;    // 0: kDefaultTop
  int64_t tasks_at_once = 0;  // 0: as the measurer says
  std::string reading = "recommended", rank = "model";
  bool no_vthreads = false;
  std::string draft = "tcc", draft_without;
  int64_t drafts = 0;               // 0: the paper's
  int64_t verify_generations = -1;  // as the target has it
  bool no_lse = false, no_statements = false, no_dataflow = false;
  bool fresh = false, baseline = false, strict_timing = false;
  int64_t simulate = 0;
  std::string space = std::string(space::kDefaultSpace);
  std::string tasks;  // "list", or which
  std::string cupti;
  FleetArguments fleet;
};

void declare_tune(Options& options, TuneArguments& a);

// Errors (usage): an option that was given has no effect at this effort.
Result<void> check_effort(const TuneArguments& a, driver::Effort effort);

// `tasks`: how many are tuned. Without a limit of the user's: 64 programs a task, or the first ten of a construction,
// at most 10 minutes. Errors (usage): words that mean nothing, options that do not go with the strategy.
Result<search::TuneOptions> tune_options(const TuneArguments& a, const target::Target& target, int64_t tasks);

}  // namespace tcc::cli
