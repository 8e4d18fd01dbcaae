// The numbers of the analytical model (target/sm_model.h), fitted to a device of this machine by a fixed list of
// kernels:
//
//   copies, with 4 to 64 bytes of each thread in flight    copy_share
//   chains of loads that depend on each other, over much and over little memory    memory_latency_ns, l2_latency_ns,
//                                                          l1_latency_cycles, shared_latency_cycles
//   blocks that read one tensor of the second-level cache  l2_bytes_per_cycle
//   a chain of multiply-adds, and reciprocal roots of many threads    arithmetic_latency_cycles, special_per_cycle
//   a graph of launches that do nothing                    launch_seconds
//   blocks whose words go round, with barriers             barrier_cycles
//   blocks that read shared memory                         l1_bytes_per_cycle
//   a product by instructions of warps                     warp_matrix_share, where it is better than what is assumed
#pragma once

#include <string>
#include <vector>

#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::driver {

struct CalibrationOptions {
  std::string folder;         // where the numbers are kept; "" = nowhere
  std::string cuda_driver;    // "" = the system's
  std::string nvrtc_library;  // "" = the system's
};

struct Calibration {
  struct Fitted {
    std::string name;  // a member of SmModel, or launch_seconds
    double before = 0, after = 0;
  };
  std::string device;
  std::string file;  // where it is kept; "" = nowhere
  std::vector<Fitted> fitted;
  std::vector<std::string> notes;  // what could not be fitted, and why
};

// Runs the kernels on a GPU of this machine ("cuda", "cuda:1") and keeps the numbers. Errors: another target; no
// driver, no device or no NVRTC; the folder cannot be written.
Result<Calibration> calibrate_gpu(const std::string& name, const CalibrationOptions& options);

// `target`, the GPU called `device`, with the numbers that calibrate_gpu() kept in the folder; unchanged without a
// file. A file that is damaged becomes a note of the target.
target::Target apply_calibration(target::Target target, const std::string& device, const std::string& folder);

std::string calibration_to_json(const Calibration& calibration);

}  // namespace tcc::driver
