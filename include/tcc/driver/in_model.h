// Which of a task's fastest programs, of all its forms, is fastest between its neighbors. A program that is timed alone
// finds its weights and its inputs in the caches; in a model they are where the programs before it left them, and
// weights are in memory.
#pragma once

#include <functional>
#include <optional>

#include "tcc/driver/tune.h"

namespace tcc::driver {

struct InModelOptions {
  target::Target target;                       // a CPU of this machine
  record::Store* store = nullptr;              // of the tuning; it is told which programs won
  const record::Database* database = nullptr;  // what `build` would read
  int64_t threads = 1;
  double seconds = 10;              // of building and timing, at most, about
  std::function<bool()> stop = {};  // true: end without a choice; may be empty
};

struct InModel {
  int64_t libraries = 0;  // that were timed in turns
  int64_t rounds = 0;     // of turns
  int64_t changed = 0;    // tasks whose present program lost to another one
  double seconds = 0;     // wall time of all this
};

// Builds the model with the best program of each tuned task, and again with its second, third ... where these were
// nearly as fast; the one that is built without tuning and the best ones of its other forms come first. Times all tasks
// of these libraries in turns, inside of runs. A program that is clearly faster there becomes the task's confirmed best
// in the store, its form the one that is built, and its time alone the one in `report`. Call it from a process without
// other threads. Nothing where no task has another program in reach, the time does not suffice for turns of two
// libraries, or options.stop ended it. Errors: those of building, of running, and of the store.
Result<std::optional<InModel>> choose_in_model(const Model& model, const InModelOptions& options, TuneReport& report);

// Wall time that choose_in_model should have after tuning for so long.
double in_model_seconds(double command_seconds);

}  // namespace tcc::driver
