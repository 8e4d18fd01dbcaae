#include "tcc/driver/gpu_target.h"

#include "tcc/backend/backend.h"
#include "tcc/driver/calibrate.h"
#include "tcc/measure/gpu.h"

namespace tcc::driver {

Result<target::Target> find_target(const std::string& name, const GpuSources& sources) {
  const std::optional<int> number = backend::installed_gpu_number(name);
  if (!number) return target::find_target(name);
  measure::GpuMeasureOptions options;
  options.device = *number;
  options.driver_library = sources.cuda_driver;
  auto device = measure::find_gpu(options);
  if (!device) {
    Error error = std::move(device).error().with_context(fmt::format("--target {}", name));
    error.notes.push_back("a GPU that is not here is a target by its own name, such as a100; `tcc targets` lists them");
    return tl::make_unexpected(std::move(error));
  }
  device->target.name = name;
  return apply_calibration(std::move(device->target), device->name, sources.calibrations);
}

}  // namespace tcc::driver
