// The coordinator's end of the link to a GPU's worker.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "measure/shared_memory.h"
#include "measure/wire.h"
#include "measure/worker_link.h"
#include "tcc/measure/gpu.h"

namespace tcc::measure {

// What is left of a job: its memory with the result, and how it ended.
struct GpuJob {
  enum class End : uint8_t { kAnswered, kTimedOut, kWorkerDied };
  SharedMemory memory;
  End end = End::kAnswered;
  std::string ending;  // of the process, where it died

  const WorkerResult& result() const { return reinterpret_cast<const JobHeader*>(memory.data())->result; }
};

class GpuLink {
 public:
  explicit GpuLink(const GpuMeasureOptions& options) : options_(options) {}
  // Starts the worker and asks for the device.
  Result<GpuDevice> start();
  void stop() { link_.stop(); }

  struct JobSpec {
    JobKind kind = JobKind::kMeasure;
    std::vector<const codegen::Artifact*> artifacts;
    const SharedMemory* task = nullptr;
    uint64_t task_id = 0;
    double budget_seconds = 0.1, patience_seconds = 0;
    double timeout_seconds = 10;
    double best_seconds = 0;
    bool counts = false;  // the device's counters too
  };
  // Runs one job to its end. A worker that is dead is started first; one that does not answer in time is ended.
  // Errors: the worker cannot be started, because the device is lost for example.
  Result<GpuJob> run(const JobSpec& spec);

  int worker_pid() const { return link_.pid(); }
  int64_t restarts() const { return restarts_; }

 private:
  Result<SharedMemory> make_job(const JobSpec& spec);

  const GpuMeasureOptions options_;
  std::string worker_;
  WorkerLink link_;
  uint64_t next_job_ = 1;
  int64_t restarts_ = 0;
  bool started_ = false;
};

}  // namespace tcc::measure
