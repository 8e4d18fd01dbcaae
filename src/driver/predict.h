// Tuning for a GPU that is not here. Private to the room.
#pragma once

#include "tcc/driver/tune.h"

namespace tcc::driver {

// Draws and mutates programs of each task's spaces, ranks them by the analytical model, compiles the first few with
// NVRTC and stores those that compile as predictions. Nothing is run, so nothing is checked or timed: the report says
// so. Errors: NVRTC is missing or does not compile the architecture; a store that cannot be written.
Result<TuneReport> predict_program(const Program& program, record::Store& store, const TuneRequest& request);

}  // namespace tcc::driver
