// Data for cost models: random programs of many tasks, measured as tuning measures them, in a pool.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tcc/data/pool.h"
#include "tcc/driver/fleet.h"
#include "tcc/search/search.h"

namespace tcc::driver {

struct CollectProgress {
  std::string workload;
  size_t task = 0, tasks = 0;
  int64_t programs = 0, wanted = 0;  // of the task, former calls' included
  double elapsed_seconds = 0;
};
struct CollectRequest {
  target::Target target;
  std::optional<target::Target> device;  // this machine with measured rates; nullopt: nominal ones
  std::string cuda_driver, cupti;        // libraries; "" = the system's
  std::optional<FleetRequest> fleet;     // its workers measure; nullopt: this machine does
  search::Strategy sampler = search::Strategy::kRandom;
  int64_t per_task = 256;  // programs
  double seconds = 0;      // of the whole call, shared evenly by the tasks that are left; 0 = no limit
  uint64_t seed = 1;
  int64_t threads = 1;  // that the programs run on
  space::SpaceOptions space = {};
  std::function<bool()> stop;                            // may be empty
  std::function<void(const CollectProgress&)> progress;  // may be empty
};
struct CollectReport {
  int64_t added = 0;
  int64_t rejected = 0;  // of given programs: those that the target's lowering or its machine rejects
  double seconds = 0;
  bool stopped = false;
  std::vector<std::string> notes;  // about the machine and tasks, for the user
};

// Measures programs of each task until the pool has `per_task` of them on this platform, in this space, or the space
// has no more. The pool grows after every few programs, so an interrupted call goes on where it ended. Programs that
// fail count and are kept; those that lowering rejects are not. Errors: the target cannot be measured here, the pool
// cannot be written. A task that cannot be measured is a note, unless none can.
Result<CollectReport> collect(std::span<const task::Task> tasks, data::PoolWriter& pool, const CollectRequest& request);

// Measures the programs of `programs` (task, skeleton, decisions; their times do not count) on the request's target,
// the first `per_task` of each group: so programs get times on several platforms. Their space keeps its name. What the
// pool has already is not measured again, so an interrupted call goes on where it ended. The request's sampler, seed
// and space are not used. Errors: as collect(); programs for another kind of target.
Result<CollectReport> collect_programs(const data::Pool& programs, data::PoolWriter& pool,
                                       const CollectRequest& request);

// The tasks of several programs, each once, with the sum of its weights.
std::vector<task::Task> unite_tasks(std::span<const std::vector<task::Task>> lists);

}  // namespace tcc::driver
