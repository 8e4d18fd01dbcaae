// One CUDA device in this process, through the driver that rt opens at run time: facts, memory, modules, launches,
// event timing. All calls come from one thread. A process that has opened a device must not fork afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tcc/codegen/artifact.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::runtime {

struct CudaDeviceFacts {
  std::string name;        // "NVIDIA H200"
  std::string uuid;        // hexadecimal
  int driver_version = 0;  // 13000 = 13.0
  int64_t sm_arch = 0;     // 90
  int64_t sm_count = 0;
  int64_t clock_khz = 0;  // highest, as the driver reports it
  int64_t memory_clock_khz = 0;
  int64_t memory_bus_bits = 0;
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  int64_t shared_per_block_optin = 0;
  int64_t shared_per_sm = 0;
  int64_t registers_per_sm = 0;
  int64_t threads_per_sm = 0;
  bool ecc = false;
  bool takes_ptx_only = false;  // an emulated device, which says so by an attribute of its own
};

class CudaDevice;

// Device memory; freed with the object, which must not outlive its device.
class CudaBuffer {
 public:
  CudaBuffer() = default;
  CudaBuffer(CudaBuffer&& other) noexcept;
  CudaBuffer& operator=(CudaBuffer&& other) noexcept;
  ~CudaBuffer();
  uint64_t address() const { return address_; }
  int64_t bytes() const { return bytes_; }

 private:
  friend class CudaDevice;
  CudaDevice* device_ = nullptr;
  uint64_t address_ = 0;
  int64_t bytes_ = 0;
};

// Device memory for running code that may be wrong: a known pattern on both sides of the data.
class GuardedCudaBuffer {
 public:
  static Result<GuardedCudaBuffer> allocate(CudaDevice& device, int64_t bytes);
  uint64_t address() const { return memory_.address() + kGuardBytes; }
  int64_t bytes() const { return bytes_; }
  // Did anything write beside the data, as far as the pattern reaches?
  Result<bool> margins_intact() const;

  static constexpr int64_t kGuardBytes = 4096;

 private:
  int64_t upper_bytes() const { return memory_.bytes() - kGuardBytes - bytes_; }
  CudaBuffer memory_;
  CudaDevice* device_ = nullptr;
  int64_t bytes_ = 0;
};

// Launches recorded as one graph.
class CudaGraph {
 public:
  virtual ~CudaGraph() = default;
  virtual Result<void> launch() = 0;
};

// A loaded artifact: its launches over its buffers, workspace included, which is between guards.
class CudaKernel {
 public:
  virtual ~CudaKernel() = default;
  // Enqueues every launch. Parameters in the order of Artifact::buffers without the workspace.
  virtual Result<void> launch(std::span<const uint64_t> parameters) = 0;
  // Resident blocks per multiprocessor of the first launch.
  virtual Result<int> occupancy() const = 0;
  virtual Result<void> fill_workspace(uint8_t value) = 0;  // enqueued
  virtual std::span<const GuardedCudaBuffer> workspace() const = 0;
};

class CudaDevice {
 public:
  // Retains the device's primary context and makes a stream. driver_library "": the system's. Errors (environment): no
  // driver, no such device.
  static Result<std::unique_ptr<CudaDevice>> open(int ordinal = 0, const std::string& driver_library = {});
  virtual ~CudaDevice() = default;

  virtual const CudaDeviceFacts& facts() const = 0;
  // What the device is as a target: limits of its capability, sizes and nominal rates from its attributes.
  virtual const target::Target& target() const = 0;
  virtual void* stream() const = 0;   // CUstream
  virtual void* context() const = 0;  // CUcontext

  virtual Result<CudaBuffer> allocate(int64_t bytes) = 0;
  virtual Result<void> upload(const CudaBuffer& to, std::span<const std::byte> from) = 0;
  virtual Result<void> download(std::span<std::byte> to, const CudaBuffer& from) = 0;
  virtual Result<void> fill(const CudaBuffer& to, uint8_t value) = 0;
  virtual Result<void> copy(const CudaBuffer& to, const CudaBuffer& from, int64_t bytes) = 0;  // enqueued
  virtual Result<void> synchronise() = 0;
  // The same at addresses inside buffers.
  virtual Result<void> upload_at(uint64_t to, std::span<const std::byte> from) = 0;
  virtual Result<void> download_at(std::span<std::byte> to, uint64_t from) = 0;
  virtual Result<void> fill_at(uint64_t to, int64_t bytes, uint8_t value) = 0;  // enqueued
  virtual Result<void> copy_at(uint64_t to, uint64_t from, int64_t bytes) = 0;  // enqueued
  virtual Result<int64_t> free_bytes() = 0;

  // The driver's number for what failed last on this device, 0 for nothing; and whether the device has given up on this
  // process since: every further call fails, and only a new process helps.
  virtual int last_error() const = 0;
  virtual bool lost() const = 0;

  // Errors: not device code, code of another architecture, no memory for the workspace.
  virtual Result<std::unique_ptr<CudaKernel>> load(const codegen::Artifact& artifact) = 0;

  // Seconds that `enqueue` called `count` times in a row takes on the stream, by events around all of them.
  virtual Result<double> time(int count, const std::function<Result<void>()>& enqueue) = 0;
  // What `enqueue` enqueues, as a graph; nullptr where the driver has no graphs.
  virtual Result<std::unique_ptr<CudaGraph>> record(const std::function<Result<void>()>& enqueue) = 0;

 protected:
  friend class CudaBuffer;
  virtual void release(uint64_t address) = 0;
  static CudaBuffer make_buffer(CudaDevice* device, uint64_t address, int64_t bytes);
};

}  // namespace tcc::runtime
