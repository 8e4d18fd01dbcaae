// What differs between processors when their programs are measured, as the coordinating process sees it. An executor
// talks to a worker process, which loads, checks and times programs (runner.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "measure/shared_memory.h"
#include "measure/wire.h"
#include "tcc/measure/measurement.h"
#include "tcc/support/parallel.h"
#include "tcc/target/target.h"

namespace tcc::measure {

struct JobSpec {
  JobKind kind = JobKind::kMeasure;
  std::vector<const codegen::Artifact*> artifacts;  // two of a pair
  const SharedMemory* task = nullptr;
  uint64_t task_id = 0;
  double budget_seconds = 0, patience_seconds = 0;
  double timeout_seconds = 10;  // until the checks are done, and again for the timing
  double best_seconds = 0;      // of the task's programs so far; 0: none
  bool profile = false;         // the device's own times and counters too, where there are any
  int64_t output_bytes = 0;     // kReference: room for the outputs
};

// The job's memory, with the worker's result, and how the job ended.
struct FinishedJob {
  enum class End : uint8_t {
    kAnswered,  // the result says what became of the program
    kTimedOut,  // it was ended from outside
    kDied,      // its process ended: `status` and `failure` say how
  };
  SharedMemory memory;
  End end = End::kAnswered;
  record::Status status = record::Status::kCrashed;
  std::string failure;

  JobHeader& header() const { return *reinterpret_cast<JobHeader*>(memory.data()); }
  WorkerResult& result() const { return header().result; }
};

// The memory of a job: a header with what `spec` says, the artifacts, room for outputs.
Result<SharedMemory> make_job(const JobSpec& spec);

class Executor {
 public:
  // What the coordinator asks once.
  struct Facts {
    MeasurerTraits traits;
    std::shared_ptr<const DeviceFacts> device;
    std::string name;  // of the device, for messages
    int64_t threads = 1;
    // Of a task, beyond which its reference is computed at samples: what suits the time that a program takes.
    std::optional<double> sample_above_flops;
    bool cold = false;             // programs find nothing of their inputs in the caches
    bool compiles_beside = false;  // candidates are compiled while others are measured
    double budget_seconds = 0.1, patience = 3;
    ThreadPool* compile_pool = nullptr;
  };

  virtual ~Executor() = default;
  virtual const Facts& facts() const = 0;
  // Error: the device cannot hold the task's tensors.
  virtual Result<void> check_task(const ir::Kernel& /*naive*/) const { return {}; }
  // No candidate is to blame for an error of class kEnvironment.
  virtual Result<codegen::Artifact> compile(const ir::Kernel& lowered, const target::Target& target) = 0;
  // Why the candidate is not run at all; "": it is.
  virtual std::string refusal(const Candidate& /*candidate*/) const { return ""; }
  // Runs one job to its end, starting the worker where it is not there. Errors: the worker cannot be started.
  virtual Result<FinishedJob> run(const JobSpec& spec) = 0;
  // What a job of the task may take, of which `timing` seconds are for timing.
  virtual double timeout_of(const MeasureTask& task, double timing) const = 0;
  // Looks at a job that `measurement` was read from, and may add to its failure.
  virtual void learn(const Candidate& /*candidate*/, const FinishedJob& /*job*/, Measurement& /*measurement*/) {}
  // Nothing is measured until the next job: compiling may have the whole machine.
  virtual void end_measuring() {}

  virtual std::vector<std::string> notes() const = 0;
  virtual int worker_pid() const = 0;
  virtual int64_t restarts() const = 0;
};

}  // namespace tcc::measure
