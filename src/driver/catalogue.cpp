#include "tcc/driver/catalogue.h"

#include "tcc/codegen/cuda.h"
#include "tcc/runtime/cuda_device.h"

namespace tcc::driver {

std::string describe_cuda() {
  auto compiler = codegen::nvrtc_version();
  auto device = runtime::CudaDevice::open();
  return fmt::format("CUDA: {}; {}",
                     compiler ? "compiler NVRTC " + *compiler : "no compiler (" + compiler.error().message + ")",
                     device ? "a device is present" : "no device (" + device.error().message + ")");
}

}  // namespace tcc::driver
