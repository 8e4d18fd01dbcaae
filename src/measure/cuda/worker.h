// The process that has a GPU's context: one for each device, started by exec.
#pragma once

#include <string>

namespace tcc::measure {

// As of GpuMeasureOptions.
struct GpuService {
  int ordinal = 0;
  std::string driver_library, cupti_library;
  bool sandbox = false;
};
// Serves jobs on the socket until the coordinator is gone, or until the device gives up on this process. Returns the
// exit code.
int serve_gpu(int socket, const GpuService& service);

}  // namespace tcc::measure
