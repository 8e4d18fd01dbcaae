// What the target's model says of the launches of chosen programs. Private to the room.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tcc/codegen/artifact.h"
#include "tcc/cost/launch_model.h"
#include "tcc/search/search.h"

namespace tcc::driver {

// The program of a trace at Stage::Nest; nullopt: it does not replay, for example as a record of another version.
std::optional<ir::Kernel> nest_of_trace(const std::string& json, const task::Task& task, const target::Target& target);

// Empty: the kind of target has no such model, or the program no longer replays.
std::vector<cost::LaunchModel> launch_models_of(const search::Chosen& program, const codegen::Artifact& artifact,
                                                const task::Task& task, const target::Target& target);

}  // namespace tcc::driver
