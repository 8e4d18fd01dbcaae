// The options that name a fleet. Private to the room.
#pragma once

#include <optional>
#include <string>

#include "cli/options.h"
#include "tcc/driver/fleet.h"

namespace tcc::cli {

struct FleetArguments {
  std::string url, secrets;
  bool or_local = false;
};

// --fleet and --fleet-secrets; `or_local`: --fleet-or-local, too.
void add_fleet(Options& options, FleetArguments& fleet, bool or_local);
// The address with the secrets of --fleet-secrets, else of $TCC_FLEET_SECRETS (files), and of $TCC_FLEET_USER,
// $TCC_FLEET_PASSWORD, $TCC_FLEET_TOKEN and $TCC_FLEET_KEY. Errors: those of fleet::check_access.
Result<fleet::Access> open_access(const FleetArguments& fleet);
// What measures; nullopt: no --fleet. Notes go to the user as remarks.
Result<std::optional<driver::FleetRequest>> fleet_request(const FleetArguments& fleet, bool quiet);

}  // namespace tcc::cli
