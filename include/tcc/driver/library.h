// Loading a built library as a user would: checking its numbers and timing it.
#pragma once

#include <string>
#include <vector>

#include "tcc/driver/compile.h"

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
  std::string model;  // where the model is now; "" = where the library says
  uint64_t seed = 1;
  double tolerance = 1e-3;  // of the output's scale
  int threads = 0;          // 0 = all CPUs
};

struct VerifyReport {
  std::string id, model;
  std::vector<TensorRange> inputs;
  std::vector<OutputCheck> outputs;
  double tolerance = 0;
  double reference_seconds = 0;
  std::string self_test;  // what the library's own test says; "" when it passes
  bool passed = false;
};

// Runs the library on seeded random inputs and compares with the graph's reference in double precision. An output whose
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
};

struct BenchReport {
  std::string id;
  int threads = 1;
  double flops = 0;  // of one run; 0 = the library does not say
  Statistics time;
};
Result<BenchReport> bench_library(const std::string& library, const BenchOptions& options);

struct KernelTime {
  KernelChoice kernel;
  double flops = 0;
  Statistics time;  // one run of the kernel by itself, its data warm
};
// Each kernel that a build of the model would hold, by itself.
Result<std::vector<KernelTime>> bench_kernels(const Model& model, const BuildOptions& build,
                                              const BenchOptions& options);

// The metadata of a library as it stands in it.
Result<std::string> library_metadata(const std::string& library);
// Does the name mean a library rather than a model?
bool is_library(const std::string& name);

}  // namespace tcc::driver
