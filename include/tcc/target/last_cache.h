// How much of the last cache a process can count on.
#pragma once

#include <algorithm>

#include "tcc/target/target.h"

namespace tcc::target {

// Bytes of the last cache that data stay in until they are used again. A virtual machine is told the cache of the whole
// processor, which other machines on it use, too: of 480 MiB, two cores of an Intel Xeon kept 32 MiB (2026-11-28). Few
// processors have as much as this for each core that shares it, so a machine of one's own loses nothing.
inline int64_t last_cache_bytes(const CpuInfo& cpu) {
  constexpr int64_t kMostOfCore = int64_t{16} << 20;
  return std::max(cpu.l2_bytes, std::min(cpu.l3_bytes, kMostOfCore * std::max<int64_t>(cpu.cores, 1)));
}

}  // namespace tcc::target
