// The process that has a GPU's context: one for each device, started by exec.
#pragma once

#include <string>

namespace tcc::measure {

// Serves jobs on the socket until the coordinator is gone, or until the device gives up on this process. Returns the
// exit code.
int serve_gpu(int socket, int ordinal, const std::string& driver_library, const std::string& cupti_library);

}  // namespace tcc::measure
