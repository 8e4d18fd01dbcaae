// Runs a launch of generated source on the host, block after block, every thread a fiber.
//
// A warp goes on until it waits at a barrier of its block, or is done; which warp goes next, and which way through its
// lanes, is drawn by seed. Collectives of a warp act when all their lanes are at the same call; copies act when they
// are waited for. What no fiber can get past is a finding, as every access of a buffer that is not right.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulation/host_device.h"

namespace tcc::testing {

struct HostReport {
  std::vector<std::string> findings;
  bool ok() const { return findings.empty(); }
  std::string text() const;
};

// `enter` is called by every thread; it calls the kernel. lines: of the source, for findings.
void run_on_host(void (*enter)(const tcc_host_device::Region* parameters), void (*bind)(tcc_host_device::Host*),
                 const std::vector<tcc_host_device::Region>& parameters, const std::array<int64_t, 3>& grid,
                 const std::array<int64_t, 3>& block, uint64_t seed, const std::vector<std::string>& lines,
                 HostReport& report);

}  // namespace tcc::testing
