// Measuring on this machine's CPU in three processes: this one compiles; a single-threaded zygote (`tcc-worker`), made
// by exec, forks one child for each candidate; the child links the object, runs it on guarded buffers, checks it, times
// it, writes a fixed-size result to shared memory and exits. Whatever a candidate does, only its child dies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tcc/measure/coordinator.h"
#include "tcc/measure/task.h"
#include "tcc/support/parallel.h"
#include "tcc/target/target.h"

namespace tcc::measure {

struct HostMeasureOptions {
  std::string worker_path;                         // "" = the file `tcc-worker` beside the running executable
  std::vector<int> cpus;                           // CPUs the child may use; empty = those this process may use
  int threads = 1;                                 // threads a candidate runs on; 0 = as many as cpus
  double budget_seconds = 0.1;                     // timing of one candidate ends here even if it has not converged
  double patience = 3;                             // budgets that a quiet moment is waited for, by what may be the best
  double timeout_seconds = 10;                     // at most this for the first run, and again for the rest
  int64_t memory_limit_bytes = int64_t{32} << 30;  // of the child's address space
  bool sandbox = false;                            // programs get no network, processes or files, where seccomp is
  // Large weights are driven out of the caches before each timed run, as by the other kernels of a model whose weights
  // are more than the last cache holds: programs that wait for memory are told from others.
  bool cold_weights = false;
  std::optional<target::Target> device;  // what records say of this machine; nullopt: host_target()
  ThreadPool* compile_pool = nullptr;    // compiles a batch's candidates; nullptr = this thread
};

class HostExecutor;

class IsolatedHostMeasurer : public Coordinator {
 public:
  // Starts the zygote; call before other threads run where possible. Errors: no worker executable, a worker of another
  // version, no permission.
  static Result<std::unique_ptr<IsolatedHostMeasurer>> create(const HostMeasureOptions& options);

  const HostMeasureOptions& options() const;
  HostExecutor& executor() { return executor_; }  // private to this room

 private:
  IsolatedHostMeasurer(std::unique_ptr<HostExecutor> executor, HostExecutor& seen);
  HostExecutor& executor_;
};

// What `tcc-worker` runs: the zygote's loop on the socket `fd`. Returns the exit code.
int worker_main(int argc, char** argv);

}  // namespace tcc::measure
