// Kernels as printed for CUDA, compiled by the host's compiler with another prelude, to be run by fibers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulation/host_run.h"
#include "tcc/codegen/cuda.h"
#include "tcc/interp/tensor.h"
#include "tcc/support/files.h"

namespace tcc::testing {

// Many kernels are one translation unit, since starting the compiler costs most.
class HostProgram {
 public:
  HostProgram() = default;
  ~HostProgram();
  HostProgram(const HostProgram&) = delete;

  // The number of the kernel, for run().
  Result<size_t> add(const ir::Kernel& lowered, const target::Target& target);
  // Once, after the last add(). Errors: the compiler's messages.
  Result<void> compile();
  // Runs the launches on copies of the parameters, then copies what was written back. `parameters`: as the
  // interpreter takes them.
  HostReport run(size_t kernel, std::vector<interp::TensorData>& parameters, uint64_t seed = 1) const;

 private:
  struct Entry {
    std::vector<codegen::Launch> launches;
    std::vector<codegen::BufferInfo> buffers;
    std::map<std::string, int64_t> registers;  // that a thread of a launch begins with, by symbol
  };
  std::string text_;
  std::vector<std::string> lines_;
  std::vector<Entry> entries_;
  std::unique_ptr<TemporaryDirectory> folder_;
  void* library_ = nullptr;
};

}  // namespace tcc::testing
