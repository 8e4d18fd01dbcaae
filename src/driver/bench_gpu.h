// Timing a library on a GPU. Private to the room.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "tcc/driver/library.h"
#include "tcc/graph/graph.h"
#include "tcc/package/loaded_model.h"

namespace tcc::driver {

struct GpuBenchRun {
  GpuBench gpu;
  std::vector<double> wall_samples;
  std::vector<KernelTime> kernels;  // timed with options.per_kernel only
};

// `inputs` as many as the library has. Errors: no driver or device, code for other devices.
Result<GpuBenchRun> bench_on_gpu(package::LoadedModel& model, const std::string& library,
                                 const std::vector<graph::Constant>& inputs, const BenchOptions& options);

// The tasks that a library's metadata lists.
Result<std::vector<KernelTime>> read_tasks(const nlohmann::json& metadata, const std::string& library);

// Least seconds of one run of a task on a device: arithmetic at the rate of its type and parameters moved once.
double roofline_seconds(const KernelTime& task, const target::Target& target);

}  // namespace tcc::driver
