// The coordinator's end of the link to the zygote.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "measure/cpu_share.h"
#include "measure/shared_memory.h"
#include "measure/wire.h"
#include "measure/worker_link.h"
#include "tcc/measure/host.h"

namespace tcc::measure {

// What is left of a job: its memory with the result, and how the child ended.
struct FinishedJob {
  SharedMemory memory;
  ReplyMessage reply;
  bool worker_died = false;  // twice over: nothing else is known

  const JobHeader& header() const { return *reinterpret_cast<const JobHeader*>(memory.data()); }
  const WorkerResult& result() const { return header().result; }
  bool exited() const;
};

class IsolatedHostMeasurer::Channel {
 public:
  static Result<std::unique_ptr<Channel>> open(const HostMeasureOptions& options);

  struct JobSpec {
    JobKind kind = JobKind::kMeasure;
    std::vector<const codegen::Artifact*> artifacts;
    const SharedMemory* task = nullptr;
    uint64_t task_id = 0;
    int threads = 1;
    double budget_seconds = 0.1, patience_seconds = 0;
    double timeout_seconds = 10;
    double best_seconds = 0;  // of the task's programs so far; 0: none
    int64_t output_bytes = 0;
  };
  // Runs one job to its end. A zygote that dies is started again and the job is tried once more.
  Result<FinishedJob> run(const JobSpec& spec);

  const HostMeasureOptions& options() const { return options_; }
  const std::shared_ptr<const DeviceFacts>& device() const { return device_; }
  const std::vector<int>& cpus() const { return cpus_; }
  CpuShare& share() { return share_; }
  // The fastest right program of a task that this measurer has seen, seconds; 0: none.
  double best_of(uint64_t task) const;
  void note_time(uint64_t task, double seconds);
  // What was measured of the same code in this run; nullptr: nothing that may stand for it. A measurement is noted
  // after its twin was asked for.
  const Measurement* twin_of(uint64_t run, uint64_t task, const Measurement& m);
  void note_measured(uint64_t task, const Measurement& m);
  // Programs (by code) that have passed the second seed of their task.
  bool is_confirmed(uint64_t task, uint64_t code) const { return confirmed_.contains({task, code}); }
  void note_confirmed(uint64_t task, uint64_t code) { confirmed_.emplace(task, code); }
  int threads() const { return options_.threads > 0 ? options_.threads : static_cast<int>(cpus_.size()); }
  int worker_pid() const { return link_.pid(); }
  int64_t restarts() const { return restarts_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  explicit Channel(HostMeasureOptions options) : options_(std::move(options)) {}
  Result<void> choose_cpus();
  Result<void> start();
  Result<SharedMemory> make_job(const JobSpec& spec);
  // False: the zygote is gone.
  bool exchange(const JobSpec& spec, const SharedMemory& job, ReplyMessage& reply);

  HostMeasureOptions options_;
  std::string worker_;
  std::vector<int> cpus_;
  CpuShare share_;
  std::shared_ptr<const DeviceFacts> device_;
  std::vector<std::string> notes_;
  WorkerLink link_;
  uint64_t next_job_ = 1;
  int64_t restarts_ = 0;
  QuietTimes quiet_;
  std::map<uint64_t, double> best_times_;                                        // by task
  std::map<std::tuple<uint64_t, uint64_t, std::string>, Measurement> measured_;  // of one run, by task, code, layouts
  uint64_t run_ = 0;
  std::set<std::pair<uint64_t, uint64_t>> confirmed_;
  std::mutex mutex_;
};

}  // namespace tcc::measure
