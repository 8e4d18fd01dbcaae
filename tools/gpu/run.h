// What the steps of gpu_check share.
#pragma once

#include <string>
#include <vector>

#include "gpu/backend.h"
#include "tcc/support/files.h"

namespace tcc::gpu_check {

struct Options {
  bool dry_run = false;
  bool collect = false;
  std::string target = "h200";  // of a dry run
  std::string from, to;         // first and last step
  double minutes = 9;
  std::string out = "gpu_check.json";
  std::string nvrtc, cublas, cudnn, cupti, tcc, driver, python = "python3";
  int device = 0;
  std::string self;  // folder of this program
};

struct Run {
  const Options& options;
  Backend& backend;
  Results& results;
  Stopwatch watch;
  double copy_rate = 0;
  int tests = 0;  // kernels run and checked, models tuned
  std::vector<std::string> failures;

  double seconds_left() const { return options.minutes * 60 - watch.seconds(); }
  bool out_of_time() const { return seconds_left() <= 0; }
  Result<void> row(const Row& r);
  void fail(const std::string& text);
  // Something that would be measured beside, or a check, that this machine does not have.
  void absent(const std::string& text);
};

std::string text_of(const Error& error);
double median(std::vector<double> values);

// Every instruction of the table that the target has: its function of the prelude against the table's semantics.
Result<void> conformance(Run& run);
// Small tasks of every kind, several programs of each design space, against the naive kernel.
Result<void> correctness(Run& run);
// Products in fp32, fp16 and bf16, as the design spaces make them.
Result<void> product_table(Run& run);
// Softmax, layer normalisation and elementwise kernels against the rate of a copy.
Result<void> memory_bound(Run& run);
Result<void> attention(Run& run);
Result<void> convolution(Run& run);
// PyTorch's times of the same work, where python3 has torch.
Result<void> torch_peers(Run& run);
// Tuning whole models by `tcc`, and with --collect records of more of them.
Result<void> models(Run& run);
Result<void> collection(Run& run);

}  // namespace tcc::gpu_check
