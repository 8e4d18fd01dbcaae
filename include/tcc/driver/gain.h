// What tuning gained: measured where the model runs, in built libraries, or predicted where nothing can run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tcc/driver/library.h"
#include "tcc/driver/tune.h"

namespace tcc::driver {

struct GainOptions {
  target::Target target;                    // this machine's CPU or GPU
  const record::Database* store = nullptr;  // what `build` would read
  int64_t threads = 1;
  double seconds = 6;  // of timing in turns; building and the times of tasks come on top
  std::string cuda_driver = {};
  // The first library of a run that began with no program: its records in `store` are the default schedules, which need
  // not be searched again. nullptr: they are searched.
  const FirstLibrary* first = nullptr;
};

// All steps of one task in one run of the model, seconds.
struct TaskGain {
  std::string key, workload;
  int64_t weight = 1;
  double before = 0, after = 0;
};

struct Gain {
  Comparison latency;           // a: before, b: after; of a prediction the ratio has no interval
  std::vector<TaskGain> tasks;  // those that gained, most seconds first
  double kernels = 0;           // seconds of all kernels inside of a run of the second library; predicted: their sum
  double seconds = 0;           // wall time of all this
  bool predicted = false;       // sums of a model's times of kernels; nothing was run
};

// Builds the model twice, with the schedules that are taken without tuning and with those of the store, and times the
// libraries in turns (compare_libraries), then their tasks (bench_library). Call it from a process without other
// threads. Errors: those of building and of timing.
Result<Gain> measure_gain(const Model& model, const GainOptions& options);

// The same from predictions of tune_program (report.predicted): the sums over all kernels with the default schedules
// and with the best programs that it found. `first`: what the run began with, whose new programs are the default ones;
// the others are made here. Nothing where a task has no time.
Result<std::optional<Gain>> predict_gain(const Program& program, const TuneRequest& request, const TuneReport& report,
                                         const FirstLibrary& first);

// Wall time that measure_gain takes, about, where one build takes `build_seconds` and one run of the model
// `run_seconds` (0: not known).
double gain_seconds(double timing_seconds, double build_seconds, double run_seconds);
// Seconds of timing that suit a command of this length.
double gain_timing(double command_seconds);

}  // namespace tcc::driver
