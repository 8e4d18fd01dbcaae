// What tuning gained, measured where the model runs: in built libraries.
#pragma once

#include <string>
#include <vector>

#include "tcc/driver/library.h"

namespace tcc::driver {

struct GainOptions {
  target::Target target;                    // a CPU, this one
  const record::Database* store = nullptr;  // what `build` would read
  int64_t threads = 1;
  double seconds = 6;  // of timing in turns; building and the times of tasks come on top
};

// All steps of one task in one run of the model, seconds.
struct TaskGain {
  std::string key, workload;
  int64_t weight = 1;
  double before = 0, after = 0;
};

struct Gain {
  Comparison latency;           // a: before, b: after
  std::vector<TaskGain> tasks;  // those that gained, most seconds first
  double seconds = 0;           // wall time of all this
};

// Builds the model twice, with the schedules that are taken without tuning and with those of the store, and times the
// libraries in turns (compare_libraries), then their tasks (bench_library). Call it from a process without other
// threads. Errors: those of building and of timing.
Result<Gain> measure_gain(const Model& model, const GainOptions& options);

// Wall time that measure_gain takes, about, where one build takes `build_seconds`.
double gain_seconds(double timing_seconds, double build_seconds);
// Seconds of timing that suit a command of this length.
double gain_timing(double command_seconds);

}  // namespace tcc::driver
