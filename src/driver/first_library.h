// Effort 0: a program for every task of a network that has none, before anything is measured. Private to the room.
#pragma once

#include "tcc/driver/tune.h"

namespace tcc::driver {

// Chooses and compiles the default schedule of each task that nothing usable is stored for, or of each task where
// `anew`, and stores it as a record that nobody has timed. What fails for one task is in its FirstProgram. Errors: the
// store cannot be written.
Result<FirstLibrary> make_first_library(const Program& program, record::Store& store, const TuneRequest& request,
                                        ThreadPool& pool, bool anew);

}  // namespace tcc::driver
