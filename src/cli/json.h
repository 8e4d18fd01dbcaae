// JSON for `--json`. Private to the room.
#pragma once

#include <nlohmann/json.hpp>

namespace tcc::cli {

using Json = nlohmann::ordered_json;

// An object with these members of a struct, each under its own name.
#define TCC_JSON_FIELD(member) {#member, tcc_from.member},
#define TCC_JSON(from, ...)                                                              \
  [](const auto& tcc_from) {                                                             \
    return Json{NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(TCC_JSON_FIELD, __VA_ARGS__))}; \
  }(from)

}  // namespace tcc::cli
