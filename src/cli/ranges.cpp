#include "cli/ranges.h"

#include <nlohmann/json.hpp>

#include "tcc/support/text.h"

namespace tcc::cli {

std::string range_text(const driver::TensorRange& r) {
  return fmt::format("{} {} {}  from {:.4g} to {:.4g}, mean {:.4g}", sanitize(r.name), r.type, r.shape, r.low, r.high,
                     r.mean);
}
nlohmann::ordered_json range_json(const driver::TensorRange& r) {
  return {{"name", r.name}, {"type", r.type}, {"shape", r.shape}, {"low", r.low}, {"high", r.high}, {"mean", r.mean}};
}

}  // namespace tcc::cli
