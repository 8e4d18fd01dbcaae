// Loading a built library as a user would: checking its numbers and timing it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/driver/compile.h"
#include "tcc/record/record.h"

namespace tcc::driver {

struct TensorRange {
  std::string name, type, shape;
  double low = 0, high = 0, mean = 0;  // of the finite elements; without any, 0
  int64_t nans = 0, infinite = 0;      // elements that are not
};

enum class Verdict : uint8_t {
  kRight,
  kWrong,
  kInconclusive,  // right as far as it goes, but the values say nothing: all are equal, or rounding may change them all
};
std::string_view verdict_name(Verdict verdict);  // "right", "wrong", "inconclusive"

struct OutputCheck {
  TensorRange actual;
  double scale = 0;      // largest magnitude of the reference
  double max_error = 0;  // largest difference as a share of `scale`
  // At the element that comes nearest to its bound, or is furthest beyond it:
  std::string where;                            // "[0, 17]"
  double expected_there = 0, actual_there = 0;  //
  double error_there = 0, allowed_there = 0;    // as shares of `scale`; 0: its elements must be equal
  int64_t terms = 1;                            // that meet in an element of the operator that gives the output
  int64_t wrong = 0;                            // elements beyond their bounds
  int64_t flushed = 0;                          // elements that are 0, and below the smallest normal in the reference
  Verdict verdict = Verdict::kRight;
  std::string failure;  // why it is not right; "" when it is
};

// Where an input's random values are drawn; nothing: inside the domains of the operators that read it.
struct DrawnRange {
  double low = 0, high = 0;
};

// How far the reference is. `remaining`: seconds at the rate so far.
struct VerifyProgress {
  double share = 0, elapsed = 0, remaining = 0;
};
// What the reference of a library's model costs: operations in double precision, and bytes at one time, about.
struct VerifyPlan {
  double flops = 0, bytes = 0;
};

struct VerifyOptions {
  std::string model;                          // where the model is now; "" = where the library says
  std::map<std::string, std::string> frozen;  // where the values of frozen inputs are now, likewise
  uint64_t seed = 1;
  // Of dimensions of several sizes, by name; those not named have their largest. Empty: several sizes are checked,
  // both ends, the tuned ones, their neighbors and some between.
  std::map<std::string, int64_t> sizes;
  std::map<std::string, uint64_t> seeds;        // of single inputs, by name
  std::map<std::string, DrawnRange> ranges;     // of single inputs, by name
  std::string inputs;                           // .npz of inputs by name; those that it lacks are drawn
  std::string expected;                         // .npz of outputs by name, instead of the reference's
  std::string onnxruntime_python;               // a Python with ONNX Runtime, whose outputs are expected; "" = none
  std::optional<double> tolerance;              // of the output's scale; nullopt: bounds by element, see below
  int threads = 0;                              // 0 = all CPUs
  bool keep_denormals = false;                  // of libraries for CPUs
  std::string cuda_driver;                      // of libraries for GPUs; "" = the system's
  std::function<void(const VerifyPlan&)> plan;  // called before the reference begins
  std::function<void(const VerifyProgress&)> progress;  // several times a second, by one thread at a time
};

struct VerifyReport {
  std::string id, model;
  std::vector<TensorRange> inputs;
  std::vector<OutputCheck> outputs;
  target::Precision precision = target::Precision::kF32;  // that the library was built with
  bool fast_math = false;                                 // so with --fast-math
  double tolerance = 0;  // as a share of its scale, the most that any output's worst element was allowed
  double reference_seconds = 0;
  std::string self_test;  // what the library's own test says; "" when it passes
  Verdict verdict = Verdict::kWrong;
  std::map<std::string, int64_t> sizes;  // of dimensions of several sizes
  std::vector<VerifyReport> further;     // at other sizes; `verdict` is the worst of all
  bool passed() const { return verdict == Verdict::kRight; }
};

// Runs the library on seeded random inputs, or on those given, and compares with the graph's reference in double
// precision, whatever the library's precision is. Each element has a bound of its own (tcc/graph/error_bound.h): by its
// type, the length of its sums, and the rounding errors of the operators before it. NaN and infinities must be where
// the reference, rounded to the output's type, has them. Outputs that are right but the same everywhere are
// inconclusive. Expected values from a file are taken to be rounded as those of the library: they may be off twice as
// far. Errors: the library does not load or run, its model cannot be found (`--model`), tensors that do not fit it.
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
  std::map<std::string, int64_t> sizes;  // of dimensions of several sizes, by name; those not named have their largest
  bool per_kernel = false;               // also time the steps inside the model, in runs of their own
  bool profile = true;                   // on a GPU: times and counters of the kernels by CUPTI, where it is there
  std::string cuda_driver;               // of libraries for GPUs; "" = the system's
  std::string calibrations;              // as GpuSources::calibrations
  std::string cupti;                     // as cuda_driver; none unless named where another driver than the system's is
};

// One task of the model, all its steps together, timed inside runs of the model: its data is where the steps before
// left it, which for weights is memory.
struct KernelTime {
  std::string key, workload;
  task::GroupNodes nodes;        // of the model; empty: an older library, which does not say
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

// Are the times of `b` others than those of `a`? Samples of a run depend on each other, so blocks of them are compared,
// by Student's t distribution.
struct Comparison {
  double median_a = 0, median_b = 0;    // seconds
  double ratio = 1, low = 1, high = 1;  // b over a, and its 99 % interval
  double p = 1;                         // of a ratio of 1
  int64_t blocks = 0;                   // of each, or of pairs
  double smallest = 0;                  // effects below this are not called a difference
  bool differs = false;                 // the interval excludes 1, and the effect is at least `smallest`
};
// Two runs of one library in two processes differ by up to 4 %, whatever their samples say of each other.
inline constexpr double kSmallestEffectOfRuns = 0.05, kSmallestEffectOfPairs = 0.01;
// Of two runs, each cut into blocks. Both not empty.
Comparison compare_times(const std::vector<double>& a, const std::vector<double>& b);

// Two libraries timed in turns by one process: medians over its pairs.
struct PairBlock {
  double ratio = 1;                   // of the time of B over that of A
  double median_a = 0, median_b = 0;  // seconds
  int64_t pairs = 0;
};
// Not empty.
Comparison compare_pairs(const std::vector<PairBlock>& blocks);
// Times the libraries in turns, for kPairedTimes times options.seconds in all: for CPUs in kPairedBlocks processes, and
// it is called from a process without other threads, for it forks; for GPUs in turns in this process, by the
// device's own times. Errors: they do not load or run, are for different machines or of other tensors.
inline constexpr int64_t kPairedBlocks = 12;
inline constexpr double kPairedTimes = 3;
Result<Comparison> compare_libraries(const std::string& a, const std::string& b, const BenchOptions& options);
// Wall time that it takes on a CPU, about: `seconds` as in its options, `run_seconds` of one run of a library (0: not
// known). Long runs take longer than they were asked to, because each process has a least number of them.
double compare_seconds(double seconds, double run_seconds);

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
// The nodes of the model that a task of this metadata computes, from its member "nodes".
using task::nodes_from_json;
// Does the name mean a library rather than a model?
bool is_library(const std::string& name);

}  // namespace tcc::driver
