// Proving a model's GPU kernels without a GPU: the PTX that NVRTC makes of them runs in the PTX machine.
#pragma once

#include <string>
#include <vector>

#include "tcc/driver/compile.h"
#include "tcc/measure/reference.h"

namespace tcc::driver {

struct EmulateOptions {
  target::Target target;                    // a GPU
  const record::Database* store = nullptr;  // of measurements and predictions; nullptr: default schedules
  uint64_t seed = 1;                        // of the data and of the order of warps
  // Of an output's scale. 16-bit outputs, and outputs of attentions of 16-bit tensors, get 8 units of the type.
  double tolerance = 1e-3;
  // Instructions of threads that a task may take. Of larger ones with one launch, as many blocks run
  // as fit, the first and the last among them, and their results are compared.
  int64_t max_instructions = int64_t{4'000'000'000};
  double max_flops = 2e10;  // of larger tasks the reference takes too long; a twentieth of it where it is interpreted
  measure::ReferenceEngine engine = measure::ReferenceEngine::kBest;
};

struct EmulatedTask {
  // kOk: all blocks ran and are right. kPart: those that ran are right. kTooLarge: nothing is known.
  enum class Status { kOk, kPart, kTooLarge, kFailed };
  std::string key, workload;
  int64_t weight = 1;
  package::Origin origin = package::Origin::kDefault;  // of its schedule
  Status status = Status::kOk;
  double max_error = 0;  // as a share of the output's scale
  double allowed = 0;
  int64_t instructions = 0;  // of threads, run
  int64_t needed = 0;        // that all blocks take
  int64_t blocks = 0, all_blocks = 0;
  int64_t races = 0;
  std::vector<std::string> findings;  // of the machine: what, thread, line of the PTX
  std::string failure;                // "" when nothing is wrong
  double seconds = 0;
};

struct EmulateReport {
  std::string model, target, toolkit;
  std::vector<EmulatedTask> tasks;
  int64_t count(EmulatedTask::Status status) const;
};

// Every task's kernel as `build` would make it, on random data against the naive kernel in double precision.
// Errors: those of build for a GPU (no NVRTC, an architecture it does not compile, ...); a target that is not a GPU.
Result<EmulateReport> emulate_model(const Model& model, const EmulateOptions& options);

}  // namespace tcc::driver
