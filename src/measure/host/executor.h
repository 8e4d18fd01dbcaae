// The coordinator's end of the link to the zygote (zygote.cpp), and what else the host needs for measuring.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "measure/executor.h"
#include "measure/host/cpu_share.h"
#include "measure/worker_link.h"
#include "tcc/measure/host.h"

namespace tcc::measure {

class HostExecutor : public Executor {
 public:
  static Result<std::unique_ptr<HostExecutor>> open(const HostMeasureOptions& options);

  const Facts& facts() const override { return facts_; }
  Result<codegen::Artifact> compile(const ir::Kernel& lowered, const target::Target& target) override;
  // A zygote that dies is started again and the job is tried once more.
  Result<FinishedJob> run(const JobSpec& spec) override;
  double timeout_of(const MeasureTask& task, double timing) const override;
  void end_measuring() override { share_.end_measuring(); }
  std::vector<std::string> notes() const override { return notes_; }
  int worker_pid() const override { return link_.pid(); }
  int64_t restarts() const override { return restarts_; }

  const HostMeasureOptions& options() const { return options_; }
  // CPUs that references run on: all of them.
  const std::vector<int>& cpus() const { return cpus_; }

 private:
  explicit HostExecutor(HostMeasureOptions options) : options_(std::move(options)) {}
  Result<void> choose_cpus();
  Result<void> start();
  Result<SharedMemory> make_host_job(const JobSpec& spec);
  // False: the zygote is gone.
  bool exchange(const JobSpec& spec, const SharedMemory& job, ReplyMessage& reply);

  const HostMeasureOptions options_;
  Facts facts_;
  std::string worker_;
  std::vector<int> cpus_;
  CpuShare share_;
  std::vector<std::string> notes_;
  WorkerLink link_;
  uint64_t next_job_ = 1;
  int64_t restarts_ = 0;
  QuietTimes quiet_;
  std::mutex mutex_;  // of run()
};

}  // namespace tcc::measure
