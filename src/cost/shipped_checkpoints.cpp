#include "tcc/cost/shipped_checkpoints.h"

#include <vector>

// The rows of checkpoints.inc come from cmake/rooms/cost.cmake: TCC_CHECKPOINT(target, network, symbol).
#define TCC_CHECKPOINT(target, network, symbol) extern "C" const char symbol##_begin[], symbol##_end[];
#include "checkpoints.inc"
#undef TCC_CHECKPOINT

namespace tcc::cost {

std::span<const ShippedCheckpoint> shipped_checkpoints() {
  static const std::vector<ShippedCheckpoint> all = {
#define TCC_CHECKPOINT(target, network, symbol) \
  {target, network, {symbol##_begin, static_cast<size_t>(symbol##_end - symbol##_begin)}},
#include "checkpoints.inc"
#undef TCC_CHECKPOINT
  };
  return all;
}

const ShippedCheckpoint* find_shipped_checkpoint(std::string_view network, const features::Table& trace) {
  const std::string_view target = &trace == &features::kTraceGpu ? "cuda" : "cpu";
  for (const ShippedCheckpoint& c : shipped_checkpoints())
    if (c.network == network && c.target == target) return &c;
  return nullptr;
}

}  // namespace tcc::cost
