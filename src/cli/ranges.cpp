#include "cli/ranges.h"

#include "cli/json.h"
#include "tcc/support/text.h"

namespace tcc::cli {

std::string range_text(const driver::TensorRange& r) {
  std::string text = fmt::format("{} {} {}  from {:.4g} to {:.4g}, mean {:.4g}", sanitize(r.name), r.type, r.shape,
                                 r.low, r.high, r.mean);
  if (r.nans > 0) text += fmt::format("; {} NaN", r.nans);
  if (r.infinite > 0) text += fmt::format("; {} infinite", r.infinite);
  return text;
}
nlohmann::ordered_json range_json(const driver::TensorRange& r) {
  return TCC_JSON(r, name, type, shape, low, high, mean, nans, infinite);
}

}  // namespace tcc::cli
