#include "tcc/record/record.h"

#include <fmt/format.h>

namespace tcc::record {

std::string hash_text(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace tcc::record
