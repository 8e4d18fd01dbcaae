// Timing a library. Private to the room.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "driver/host_tensors.h"
#include "tcc/driver/library.h"
#include "tcc/graph/graph.h"
#include "tcc/package/loaded_model.h"
#include "tcc/target/target.h"

namespace tcc::driver {

// What a library says of itself.
struct LibraryFacts {
  std::vector<KernelTime> tasks;               // without times
  std::vector<size_t> steps;                   // the task of each step of a run
  std::map<std::string, size_t> symbols;       // the task whose code a device's kernel is
  std::map<std::string, std::string> targets;  // by architecture: "sm_80" -> "a100"
};
// Errors: the metadata lists no tasks, or its steps name tasks that it does not list.
Result<LibraryFacts> library_facts(const package::LoadedModel& model);

// Seconds of each of facts.tasks, all its steps, inside of one run.
Result<std::vector<double>> time_tasks(package::ModelContext& context, const LibraryFacts& facts,
                                       const HostTensors& tensors);

// Collects what `call` returns, one sample a call, for `seconds` and at least `min_runs` times, after a warm-up of a
// tenth of that.
Result<std::vector<double>> collect(double seconds, int64_t min_runs, const std::function<Result<double>()>& call);

// Least seconds of one step of a task: arithmetic at the rate of its type, or its parameters moved once. 0: the library
// does not say the type.
double roofline_seconds(const KernelTime& task, const target::Target& target);

// Times runs on a device and the kernels alone: report.gpu, time, samples, and what is known of each of report.kernels.
// Errors: no driver or device, code for other devices.
Result<void> bench_on_device(package::LoadedModel& model, const LibraryFacts& facts,
                             const std::vector<graph::Constant>& inputs, const BenchOptions& options,
                             BenchReport& report);

}  // namespace tcc::driver
