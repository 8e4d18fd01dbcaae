// What a fleet does at the moment.
#pragma once

#include <string>
#include <vector>

#include "tcc/fleet/bus.h"
#include "tcc/fleet/message.h"

namespace tcc::fleet {

struct WorkerStatus {
  Beat beat;
  double silent = 0;      // seconds since its last beat, by the server's clock
  double clock_skew = 0;  // seconds that its clock is ahead of the server's, when it sent the beat
};
struct ClassStatus {
  std::string name;
  int64_t workers = 0;                                // that live
  int64_t waiting = 0, in_work = 0, redelivered = 0;  // candidates
  double rate = 0;                                    // candidates a second
};
struct FleetStatus {
  std::vector<WorkerStatus> workers;  // by class, then name
  std::vector<ClassStatus> classes;
  int64_t poison = 0;   // candidates that are set aside
  int64_t refused = 0;  // beats that could not be read: of another key or version
};
inline constexpr double kMostClockSkew = 30;  // seconds; more is worth a warning
inline constexpr double kSilentSeconds = 10;  // a worker that is silent for longer does not count as live

Result<FleetStatus> read_status(Bus& bus, const std::string& key);
// Asks a worker, or all ("") to end when they have answered what they measure.
Result<void> drain(Bus& bus, const std::string& key, const std::string& worker);

}  // namespace tcc::fleet
