// Measuring on a GPU of this machine. This process compiles; `tcc-worker`, started by exec, holds the device's context
// and runs the programs. This process never opens the driver, so it may fork. What a program does to the device ends
// the worker at most: it is started again, and the program's record says what it did.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tcc/measure/host.h"
#include "tcc/measure/task.h"
#include "tcc/support/parallel.h"
#include "tcc/target/target.h"

namespace tcc::measure {

struct GpuMeasureOptions {
  std::string worker_path;     // "" = the file `tcc-worker` beside the running executable
  std::string driver_library;  // "" = the system's libcuda.so.1
  // The device's own times and counters; "" = the system's libcupti where the driver is the system's and drives a
  // device, else none.
  std::string cupti_library;
  bool sandbox = false;  // the process that holds the device gets no network, processes or new files, where seccomp is
  int device = 0;        // number of the device, as nvidia-smi and CUDA_VISIBLE_DEVICES have it
  double budget_seconds = 0.1;
  double patience = 3;                 // budgets that an undisturbed moment is waited for, by what may be the best
  double timeout_seconds = 10;         // at most this for the first runs, and again for the timed ones
  int64_t max_copies = 32;             // of the parameters, which launches take in turns
  ThreadPool* compile_pool = nullptr;  // compiles while the worker measures; nullptr = this thread does
};

// A GPU of this machine.
struct GpuDevice {
  std::string name, uuid;
  target::Target target;  // named "cuda": what its attributes say
  int64_t memory_bytes = 0;
  int driver_version = 0;       // 13000 = 13.0
  bool takes_ptx_only = false;  // an emulated device
};
// Asks a worker, which ends afterwards. Errors, each with what to do: no worker, no driver, no device.
Result<GpuDevice> find_gpu(const GpuMeasureOptions& options);

class CudaExecutor;

class GpuMeasurer : public Coordinator {
 public:
  // `references` computes the tasks' references on the CPU; it must outlive this. Errors: those of find_gpu; no NVRTC;
  // a driver older than NVRTC.
  static Result<std::unique_ptr<GpuMeasurer>> create(IsolatedHostMeasurer& references,
                                                     const GpuMeasureOptions& options);
  const GpuDevice& device() const;

 private:
  GpuMeasurer(std::unique_ptr<CudaExecutor> executor, CudaExecutor& seen, IsolatedHostMeasurer& references);
  CudaExecutor& executor_;
};

}  // namespace tcc::measure
