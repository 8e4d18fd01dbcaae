// The checkpoints that are part of this binary: models/<kind of target>-<network>.tccnet. Each was trained on pools of
// models/pools, by the command that models/README.md names. `tcc model info FILE` prints its card.
#pragma once

#include <span>
#include <string_view>

#include "tcc/features/sample.h"

namespace tcc::cost {

struct ShippedCheckpoint {
  std::string_view target;   // "cpu" or "cuda"
  std::string_view network;  // of network_kinds()
  std::string_view bytes;    // for nn::parse_checkpoint
};
std::span<const ShippedCheckpoint> shipped_checkpoints();
// For targets whose schedules have the steps of `trace`. nullptr: none ships.
const ShippedCheckpoint* find_shipped_checkpoint(std::string_view network, const features::Table& trace);

}  // namespace tcc::cost
