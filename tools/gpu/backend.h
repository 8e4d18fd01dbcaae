// Where gpu_check runs its kernels: a device, or in a dry run the interpreter.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/results.h"
#include "tcc/codegen/artifact.h"
#include "tcc/interp/tensor.h"
#include "tcc/ir/kernel.h"
#include "tcc/target/target.h"

namespace tcc::runtime {
class CudaDevice;
}

namespace tcc::gpu_check {

using Floats = std::vector<float>;

struct GemmSize {
  int64_t m, n, k;
};

// A kernel with its inputs in place.
class Session {
 public:
  virtual ~Session() = default;
  // Replaces the inputs, poisons the output, runs once and returns the output.
  virtual Result<Floats> run(const std::vector<Floats>& inputs) = 0;
  // Seconds per run over `count` runs in a row.
  virtual Result<double> time(int count) = 0;
  // The same of a library's GEMM on the same inputs; nullopt without a peer.
  virtual Result<std::optional<double>> time_peer(const GemmSize& size, int count) = 0;
};

// A kernel compiled for the target, with its parameters in place.
class Program {
 public:
  virtual ~Program() = default;
  // Replaces inputs and weights, poisons outputs, runs once and fetches the outputs. One tensor per parameter.
  virtual Result<void> run(std::vector<interp::TensorData>& params) = 0;
  // Seconds per run over `count` runs in a row.
  virtual Result<double> time(int count) = 0;
  virtual const codegen::Artifact& artifact() const = 0;
};

// How a kernel is compiled.
struct CodeRequest {
  std::string prefix;  // of the kernels' names
  std::string nvrtc;   // "" = the system's
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual bool is_device() const = 0;
  // Kernels run in software: sizes are small, times say nothing.
  virtual bool is_small() const = 0;
  virtual std::string machine() const = 0;
  virtual const target::Target& target() const = 0;
  virtual std::vector<Row> facts() const = 0;
  virtual std::string peer_name() const = 0;  // of time_peer; "" = none
  // Bytes read and written per second by a device-to-device copy.
  virtual Result<double> copy_rate() = 0;
  // All parameters are f32; the last one is the output.
  virtual Result<std::unique_ptr<Session>> open(const ir::Kernel& kernel, const codegen::Artifact& artifact) = 0;

  // Code that this backend runs, of a kernel at Stage::kLowered. On a device a wait for a barrier traps after two
  // seconds. Safe to call from several threads at once.
  virtual Result<codegen::Artifact> compile(const ir::Kernel& lowered, const CodeRequest& request) const = 0;
  // Code made by loadable(), of any parameters. On a device it is machine code; in a dry run PTX, run by a machine for
  // it, whose findings (races, accesses beyond a buffer) are errors.
  virtual Result<std::unique_ptr<Program>> load(codegen::Artifact artifact) = 0;
  // The code that load() takes: compile()'s on a device, PTX in a dry run. Safe to call from several threads at once.
  virtual Result<codegen::Artifact> loadable(const ir::Kernel& lowered, const CodeRequest& request) const {
    return compile(lowered, request);
  }
  // A stream for libraries to measure beside, and the time of what they enqueue on it; nullptr: none.
  virtual runtime::CudaDevice* device() { return nullptr; }

  // cublas, driver: paths of the libraries, "" = the system's.
  static Result<std::unique_ptr<Backend>> device(int ordinal, const std::string& cublas, const std::string& driver);
  static Result<std::unique_ptr<Backend>> dry_run(const std::string& target_name);
};

}  // namespace tcc::gpu_check
