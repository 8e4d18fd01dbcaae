// Builds without a client of NATS.
#ifndef TCC_WITH_NATS

#include "tcc/fleet/bus.h"

namespace tcc::fleet {

bool fleet_available() {
  return false;
}

Result<std::shared_ptr<Bus>> Bus::connect(const Access&, const std::string&) {
  return make_error(ErrorClass::kEnvironment, "this tcc was built without the client of NATS that a fleet needs",
                    "install libnats-dev, then configure with -DTCC_WITH_FLEET=ON and build tcc again");
}

}  // namespace tcc::fleet

#endif
