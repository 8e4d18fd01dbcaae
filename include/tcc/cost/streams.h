// How fast a CPU's second-level cache is filled by tiles and whole operands.
#pragma once

namespace tcc::cost {

// They stream: what that cache misses arrives at this multiple of CoreModel::l2_bytes_per_cycle, which the rule model,
// that counts it once more for each buffer, was set to.
inline constexpr double kStreams = 2;

}  // namespace tcc::cost
