// Loading a built library as a user would: checking its numbers and timing it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tcc/driver/compile.h"
#include "tcc/record/record.h"

namespace tcc::driver {

struct TensorRange {
  std::string name, type, shape;
  double low = 0, high = 0, mean = 0;
};

struct OutputCheck {
  TensorRange actual;
  double scale = 0;      // largest magnitude of the reference
  double max_error = 0;  // largest difference as a share of `scale`
  std::string where;     // "[0, 17]"
  double expected_there = 0, actual_there = 0;
  std::string failure;  // "" when the output is right
};

struct VerifyOptions {
  std::string model;                          // where the model is now; "" = where the library says
  std::map<std::string, std::string> frozen;  // where the values of frozen inputs are now, likewise
  uint64_t seed = 1;
  std::optional<double> tolerance;  // of the output's scale; nullopt: that of the library's precision
  int threads = 0;                  // 0 = all CPUs
  std::string cuda_driver;          // of libraries for GPUs; "" = the system's
};

struct VerifyReport {
  std::string id, model;
  std::vector<TensorRange> inputs;
  std::vector<OutputCheck> outputs;
  target::Precision precision = target::Precision::kF32;  // that the library was built with
  double tolerance = 0;
  double reference_seconds = 0;
  std::string self_test;  // what the library's own test says; "" when it passes
  bool passed = false;
};

// Runs the library on seeded random inputs and compares with the graph's reference in double precision, whatever the
// library's precision is. An output whose
// values are all equal, or not all finite, fails whatever the reference says.
// Errors: the library does not load or run, its model cannot be found (`--model`).
Result<VerifyReport> verify_library(const std::string& library, const VerifyOptions& options);

struct Statistics {
  int64_t runs = 0;
  double min = 0, mean = 0, median = 0, p90 = 0, p95 = 0, p99 = 0;  // seconds
  double variation = 0;                                             // standard deviation over mean
};
// `samples` not empty.
Statistics summarise(std::vector<double> samples);

struct BenchOptions {
  int threads = 0;     // 0 = all CPUs
  double seconds = 2;  // of timing, after a warm-up of a tenth of it
  int64_t min_runs = 10;
  uint64_t seed = 1;
  bool per_kernel = false;   // also time the steps inside the model, in runs of their own
  std::string cuda_driver;   // of libraries for GPUs; "" = the system's
  std::string calibrations;  // as GpuSources::calibrations
  std::string cupti;         // as cuda_driver; none unless named where another driver than the system's is
};

// One task of the model, all its steps together, timed inside runs of the model: its data is where the steps before
// left it, which for weights is memory.
struct KernelTime {
  std::string key, workload;
  std::optional<ir::Type> type;  // of its arithmetic; nothing: an older library, which does not say
  int64_t weight = 1;
  bool tuned = false;
  double flops = 0, bytes = 0;  // of one step; bytes: of its parameters, each once
  // Seconds of one step by itself; 0 = not known. On a CPU when it was tuned, its data warm; on a device with CUPTI by
  // the device's own stamps.
  double alone = 0;
  double roofline = 0;  // seconds: no program of one step can be faster on the device; 0 = not known
  Statistics time;      // of all `weight` steps of one run; 0 runs unless per_kernel was asked for
};

// A library for GPUs on a device. Times of the device are between two events on its stream; wall times are from calling
// run() until the stream has done the work. Tensors are on the device throughout.
struct GpuBench {
  std::string device;       // "NVIDIA A100-SXM4-40GB"
  std::string code;         // "sm_80", or "sm_80 (PTX)" compiled by the driver
  std::string target;       // whose nominal rates the roofline is of
  bool calibrated = false;  // numbers of its analytical model are fitted to the device
  bool graph = false;       // the driver has CUDA graphs; the device's times are of a graph then
  Statistics warm, cold;    // of the device: runs back to back; after the second-level cache was overwritten
  Statistics wall_graph;    // run and wait, by a graph
  // Where CUPTI is: what the kernels of a run took by the device's own stamps, without the gaps between them (0 runs:
  // not known), and what the device's counters say of a run. `notes`: why they are not there, a sentence each.
  Statistics kernels;
  record::Counts counts;
  std::vector<std::string> notes;
  double roofline = 0;  // seconds: that of the kernels, summed; 0 = not known
};

struct BenchReport {
  std::string id;
  int threads = 1;
  double flops = 0;  // of one run; 0 = the library does not say
  double bytes = 0;  // of one run: what its kernels read and write, each once
  Statistics time;
  std::vector<double> samples;  // seconds, in the order of the runs
  std::vector<KernelTime> kernels;
  std::optional<GpuBench> gpu;  // `time` and `samples` are wall times of runs without a graph then
};
// Errors besides those of loading and running: the library is too old to name its kernels.
Result<BenchReport> bench_library(const std::string& library, const BenchOptions& options);

// Are the times of `b` others than those of `a`? Mann and Whitney's U test (Annals of Mathematical Statistics 18,
// 1947), by the normal approximation, two-sided, and a bootstrap interval of the ratio of the medians.
struct Comparison {
  double median_a = 0, median_b = 0;
  double ratio = 1, low = 1, high = 1;  // b over a and its 95 % interval
  double p = 1;
  bool differs = false;  // p below 0.01 and an interval that excludes 1 by more than 1 %
};
// Both not empty.
Comparison compare_times(const std::vector<double>& a, const std::vector<double>& b);

// A schedule of the user's for one task, run through the tuner's own checks.
struct ScheduleTime {
  std::string workload;
  std::string status, failure;  // "ok", or what became of it
  double flops = 0;
  double median = 0, low = 0, high = 0;  // seconds
  double max_error = 0;                  // share of what is allowed
  std::vector<std::string> notes;        // what an imported trace said that has no effect here
};
// `trace` is the text or JSON of a trace, or one of MetaSchedule; `file` names it in errors. For a GPU it is timed on
// the one that is here. Errors: the trace does not replay or lower, and which of its instructions says so; no such GPU.
Result<ScheduleTime> bench_schedule(const task::Task& task, const std::string& trace, const std::string& file,
                                    const target::Target& target, int threads, const std::string& cuda_driver = "");

// The metadata of a library. The file is read and checked; nothing of it is executed.
Result<std::string> library_metadata(const std::string& library);
// Does the name mean a library rather than a model?
bool is_library(const std::string& name);

}  // namespace tcc::driver
