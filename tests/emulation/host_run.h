// Runs a launch of generated source on the host, cluster after cluster of blocks, every thread a fiber.
//
// A warp goes on until it waits at a barrier of its block, or is done; which warp goes next, and which way through its
// lanes, is drawn by seed. Collectives of a warp act when all their lanes are at the same call; copies act when they
// are waited for, bulk copies when no thread can go on without them, products of warpgroups when they are waited for.
// What no fiber can get past is a finding, as every access of a buffer that is not right.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulation/host_device.h"
#include "tcc/codegen/artifact.h"

namespace tcc::testing {

struct HostReport {
  std::vector<std::string> findings;
  bool ok() const { return findings.empty(); }
  std::string text() const;
};

struct HostLaunch {
  void (*enter)(const tcc_host_device::Region* parameters);  // called by every thread; calls the kernel
  void (*bind)(tcc_host_device::Host*);
  const codegen::Launch& shape;
  std::span<const tcc_host_device::Region> parameters;
  std::span<const std::string> lines;  // of the source, for findings
  int64_t registers = 255;             // that a thread begins with
};

void run_on_host(const HostLaunch& launch, uint64_t seed, HostReport& report);

}  // namespace tcc::testing
