// Tuning and collecting on a fleet of machines, and working for one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tcc/fleet/access.h"
#include "tcc/fleet/worker.h"
#include "tcc/measure/measurement.h"
#include "tcc/record/store.h"
#include "tcc/support/parallel.h"
#include "tcc/target/target.h"

namespace tcc::driver {

// What measures instead of this machine.
struct FleetRequest {
  fleet::Access access;
  bool or_local = false;                         // this machine, where the fleet cannot be reached or is lost
  std::function<void(const std::string&)> note;  // sentences for the user, at once; may be empty
};

// Opens the measurer of this machine, which the tuner takes when the fleet is gone.
using OpenLocal = std::function<Result<measure::Measurer*>()>;

// A measurer of the fleet for a target. `run`: see fleet::TunerOptions. Errors: the server, the credentials, no worker.
Result<std::unique_ptr<measure::Measurer>> open_fleet(const FleetRequest& request, const target::Target& target,
                                                      int64_t threads, const std::string& run,
                                                      const std::function<bool()>& stop, OpenLocal open_local);

// The name of a run in a store: that of the interrupted one which goes on, else a new one.
Result<std::string> fleet_run(record::Store& store, const target::Target& target, int64_t threads, uint64_t seed,
                              bool resume);
// The run is over: its answers are of no use to another one.
Result<void> end_fleet_run(record::Store& store, const target::Target& target, int64_t threads, uint64_t seed);

struct FleetWorkerRequest {
  fleet::Access access;
  target::Target target;
  std::optional<target::Target> device;  // this machine with measured rates; nullopt: nominal ones
  std::string cuda_driver, cupti;
  int64_t threads = 1;
  double job_seconds = 600;  // a job that takes longer ends the worker, and goes to another one
  double job_memory = 0;     // bytes that a job may ask for; 0 = half of the machine's
  double fake = -1;          // seconds of made-up measurements on a simulated GPU; below 0: measures
  std::string name;          // "" = host and process
  std::string user;          // that a worker started by root becomes; "" = nobody
  std::function<bool()> stop;
  std::function<void(const std::string&)> note;
};
// Until it is drained or stopped. Errors: those of fleet::work; the target is not measured here; root without a user to
// become.
Result<fleet::WorkerReport> work_for_fleet(const FleetWorkerRequest& request);

}  // namespace tcc::driver
