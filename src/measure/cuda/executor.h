// The coordinator's end of the link to a GPU's worker (worker.cpp).
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "measure/executor.h"
#include "measure/worker_link.h"
#include "tcc/measure/gpu.h"

namespace tcc::measure {

class CudaExecutor : public Executor {
 public:
  explicit CudaExecutor(const GpuMeasureOptions& options) : options_(options) {}
  // Starts the worker and learns what the device is. Called once.
  Result<void> start();
  const GpuDevice& device() const { return device_; }

  const Facts& facts() const override { return facts_; }
  Result<void> check_task(const ir::Kernel& naive) const override;
  Result<codegen::Artifact> compile(const ir::Kernel& lowered, const target::Target& target) override;
  std::string refusal(const Candidate& candidate) const override;
  // A worker that is dead is started first; one that does not answer in time is ended. Errors: the worker cannot be
  // started, because the device is lost for example.
  Result<FinishedJob> run(const JobSpec& spec) override;
  double timeout_of(const MeasureTask& task, double timing) const override;
  // Counts programs that hang for want of their asynchronous copies, and takes over the worker's notes.
  void learn(const Candidate& candidate, const FinishedJob& job, Measurement& measurement) override;
  std::vector<std::string> notes() const override;
  int worker_pid() const override { return link_.pid(); }
  int64_t restarts() const override { return restarts_; }

 private:
  // Starts the worker. Errors: no driver, no device.
  Result<GpuDevice> connect();
  Result<void> ensure_started();
  void note(const std::string& lines);

  const GpuMeasureOptions options_;
  Facts facts_;
  GpuDevice device_;
  std::string worker_;
  WorkerLink link_;
  uint64_t next_job_ = 1;
  int64_t restarts_ = 0;
  std::map<uint64_t, int> hangs_;  // by task
  mutable std::mutex mutex_;
  std::vector<std::string> notes_;  // guarded by mutex_
};

}  // namespace tcc::measure
