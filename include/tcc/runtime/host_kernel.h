// Runs host artifacts in this process: links the object, owns its workspace, sends its launches through rt's pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tcc/codegen/artifact.h"
#include "tcc/runtime/guarded_buffer.h"
#include "tcc/support/result.h"

struct tcc_rt_pool;

namespace tcc::runtime {

// rt's fork-join pool. Not for use by two threads at a time.
class HostPool {
 public:
  // threads: the caller's included; 0 = all CPUs this process may use. pin: bind the workers to CPUs.
  static Result<std::shared_ptr<HostPool>> create(int threads, bool pin = false);
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;
  int threads() const;
  tcc_rt_pool* handle() const { return pool_; }

 private:
  explicit HostPool(tcc_rt_pool* pool) : pool_(pool) {}
  tcc_rt_pool* pool_;
};

class HostKernel {
 public:
  // Links the artifact's object and allocates its workspace (guarded). Errors: the object does not link, lacks a
  // launch's symbol, or there is no memory. The artifact may go away afterwards.
  static Result<std::unique_ptr<HostKernel>> load(const codegen::Artifact& artifact, std::shared_ptr<HostPool> pool);
  ~HostKernel();

  // Parameters in the order of Artifact::buffers without the workspace (role kTemp), each of BufferInfo::bytes and
  // aligned to BufferInfo::alignment. Runs every launch, in order. Allocates nothing.
  Result<void> run(std::span<void* const> params);

  int64_t num_params() const;
  const std::vector<codegen::BufferInfo>& buffers() const;
  std::span<const GuardedBuffer> workspace() const;
  // Fills every workspace with the byte, so that reading what was not written shows.
  void poison_workspace(uint8_t value) const;

 private:
  struct State;
  explicit HostKernel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tcc::runtime
