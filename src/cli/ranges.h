// The range of a tensor's values as people and programs read it. Private to the room.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tcc/driver/library.h"

namespace tcc::cli {

// "x f32 1x3x4  from 0 to 1, mean 0.5"
std::string range_text(const driver::TensorRange& range);
nlohmann::ordered_json range_json(const driver::TensorRange& range);

}  // namespace tcc::cli
