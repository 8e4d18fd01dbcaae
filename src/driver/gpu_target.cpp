#include "tcc/driver/gpu_target.h"

#include <charconv>

#include "tcc/measure/gpu.h"

namespace tcc::driver {

std::optional<int> installed_gpu_number(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  name.remove_prefix(5);
  int number = -1;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size() && number >= 0;
  return whole ? std::optional(number) : std::nullopt;
}

Result<target::Target> find_target(const std::string& name, const std::string& cuda_driver) {
  const std::optional<int> number = installed_gpu_number(name);
  if (!number) return target::find_target(name);
  measure::GpuMeasureOptions options;
  options.device = *number;
  options.driver_library = cuda_driver;
  auto device = measure::find_gpu(options);
  if (!device) {
    Error error = std::move(device).error().with_context(fmt::format("--target {}", name));
    error.notes.push_back("a GPU that is not here is a target by its own name, such as a100; `tcc targets` lists them");
    return tl::make_unexpected(std::move(error));
  }
  device->target.name = name;
  return std::move(device->target);
}

}  // namespace tcc::driver
