// What tuning gained, for people and programs. Private to the room.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tcc/driver/gain.h"

namespace tcc::cli {

// The latency before and after with its interval, and the tasks that gained most, by their numbers in `program`.
std::string gain_text(const driver::Gain& gain, const driver::Program& program, const driver::TuneRequest& request);
nlohmann::ordered_json gain_json(const driver::Gain& gain);

}  // namespace tcc::cli
