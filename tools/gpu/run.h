// What the steps of gpu_check share.
#pragma once

#include <string>
#include <vector>

#include "gpu/backend.h"
#include "tcc/support/files.h"

namespace tcc::gpu_check {

struct Options {
  bool dry_run = false;
  bool fresh = false;           // forget the rows of an earlier run
  std::string target = "h200";  // of a dry run
  std::string from, to;         // first and last step
  std::string only;             // one step, in this process
  double minutes = 9;
  std::string limit_step;    // a step with another limit than its own
  double limit_seconds = 0;  // that limit
  std::string out = "gpu_check.json";
  std::string nvrtc, cublas, cudnn, cupti, driver;
  int device = 0;
};

struct Run {
  const Options& options;
  Backend& backend;
  Results& results;
  std::string step;
  Stopwatch watch;
  double copy_rate = 0;
  int tests = 0;  // kernels run and checked
  std::vector<std::string> failures, absences;

  double seconds_left() const { return options.minutes * 60 - watch.seconds(); }
  bool out_of_time() const { return seconds_left() <= 0; }
  // How this step's kernels are compiled: they are called after the step.
  CodeRequest code() const;
  Result<void> row(const Row& r);
  void fail(const std::string& text);
  // Something that would be measured beside, or a check, that this machine does not have. It is said once.
  void absent(const std::string& text);
};

std::string text_of(const Error& error);
double median(std::vector<double> values);
// Fills run.copy_rate: from the results where a step before has measured it.
Result<void> know_copy_rate(Run& run);

// What the device is, and the rate of its copies.
Result<void> device_facts(Run& run);
Result<void> copy_rate(Run& run);
// Constants of the device that the analytical model rests on: resident clusters, costs of launches and fences,
// bandwidth by bytes in flight.
Result<void> probes(Run& run);
// Every instruction of the table that the target has: its function of the prelude against the table's semantics.
Result<void> conformance(Run& run);
// Small tasks of every kind, several programs of each design space, against the naive kernel.
Result<void> correctness(Run& run);
// One program of ten small tasks, for a tool that watches every access (compute-sanitizer).
Result<void> sanitizer(Run& run);
// Hand-written kernels: one elementwise, SGEMM beside cuBLAS.
Result<void> elementwise(Run& run);
Result<void> gemm(Run& run);
// Products in fp32, fp16 and bf16, as the design spaces make them, in turns with cuBLAS.
Result<void> product_table(Run& run);
// Softmax, layer normalization and reductions against the rate of a copy.
Result<void> memory_bound(Run& run);
Result<void> attention(Run& run);
// Convolutions in turns with cuDNN.
Result<void> convolution(Run& run);

}  // namespace tcc::gpu_check
