#include "cli/fleet_arguments.h"

#include <cstdlib>

#include "cli/output.h"
#include "tcc/fleet/bus.h"

namespace tcc::cli {

void add_fleet(Options& options, FleetArguments& fleet, bool or_local) {
  options.section("Fleet");
  const Option url =
      options.option("--fleet", fleet.url, "The NATS server of a fleet of machines, as tls://HOST:4222").value("URL");
  options
      .option("--fleet-secrets", fleet.secrets,
              "File with the user, the password and the key of a role, as `tcc fleet serve` writes it "
              "[$TCC_FLEET_SECRETS]")
      .value("FILE");
  if (or_local)
    options
        .flag("--fleet-or-local", fleet.or_local, "Measure on this machine where the fleet is not reached or is lost")
        .needs(url);
}

Result<fleet::Access> open_access(const FleetArguments& a) {
  fleet::Access access;
  access.url = a.url;
  TCC_TRY_VOID(fleet::check_url(access.url));
  const auto from = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  const std::string file = a.secrets.empty() ? from("TCC_FLEET_SECRETS") : a.secrets;
  if (!file.empty()) TCC_TRY_VOID(fleet::read_secrets(file, access));
  for (const auto& [name, field] : {std::pair("TCC_FLEET_USER", &access.user),
                                    {"TCC_FLEET_PASSWORD", &access.password},
                                    {"TCC_FLEET_TOKEN", &access.token},
                                    {"TCC_FLEET_KEY", &access.key}})
    if (std::string value = from(name); !value.empty()) *field = std::move(value);
  TCC_TRY_VOID(fleet::check_access(access));
  return access;
}

Result<std::optional<driver::FleetRequest>> fleet_request(const FleetArguments& a, bool quiet) {
  if (a.url.empty()) return std::optional<driver::FleetRequest>();
  driver::FleetRequest request;
  TCC_TRY(request.access, open_access(a));
  request.or_local = a.or_local;
  request.note = [quiet](const std::string& text) { remark(quiet, "fleet: " + text); };
  return std::optional(std::move(request));
}

}  // namespace tcc::cli
