#include "cli/counts.h"

#include <fmt/format.h>
#include "cli/json.h"

#include <vector>

#include "tcc/support/text.h"

namespace tcc::cli {

nlohmann::ordered_json counts_json(const record::Counts& c) {
  const auto value = [](double v) { return v >= 0 ? Json(v) : Json(); };
  return {
      {"dram_bytes", value(c.dram_bytes)}, {"tensor_share", value(c.tensor_share)}, {"occupancy", value(c.occupancy)}};
}
std::string counts_text(const record::Counts& c, double seconds) {
  std::vector<std::string> parts;
  if (c.dram_bytes >= 0) {
    parts.push_back(format_bytes(c.dram_bytes) + " of device memory");
    if (seconds > 0) parts.back() += fmt::format(" ({:.1f} GB/s)", c.dram_bytes / seconds / 1e9);
  }
  if (c.tensor_share >= 0) parts.push_back(fmt::format("tensor cores busy {:.0f}%", 100 * c.tensor_share));
  if (c.occupancy >= 0) parts.push_back(fmt::format("occupancy {:.0f}%", 100 * c.occupancy));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace tcc::cli
