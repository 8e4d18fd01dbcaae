// Tuning a model's tasks on this machine: on its CPU or its GPU. For a GPU that is not here programs are predicted.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tcc/driver/compile.h"
#include "tcc/search/search.h"

namespace tcc::driver {

struct TuneRequest {
  target::Target target;
  std::optional<target::Target> device;  // what records say of this machine, with measured rates; nullopt: nominal ones
  std::string cuda_driver;               // its library; "" = the system's
  std::string cupti;                     // likewise, see measure::GpuMeasureOptions
  search::TuneOptions options;
  std::vector<size_t> tasks;                              // which, by index; empty = all
  const record::Database* others = nullptr;               // see search::Environment; must outlive the run
  bool prior = true;                                      // CPUs: begin with search::shipped_prior()
  std::function<bool()> stop;                             // may be empty
  std::function<void(const search::Progress&)> progress;  // may be empty
};

struct TunedTask {
  search::TaskResult result;  // best_seconds counts the unscheduled program in
  double flops = 0;
  double baseline_seconds = 0;  // one run of the unscheduled program, measured; 0 = it could not be measured
  std::string baseline_failure;
};

struct TuneReport {
  std::vector<TunedTask> tasks;
  search::Counts counts;  // over all tasks
  int64_t trials = 0;
  double seconds = 0;
  bool stopped = false, resumed = false;
  bool predicted = false;       // nothing was run: times are an analytical model's
  bool source_only = false;     // nothing was compiled either: the compiler here does not know the target
  double baseline_seconds = 0;  // one run of the model, sums over tasks by weight; 0 unless every task is known
  double best_seconds = 0;
  std::vector<std::string> notes;  // about the machine, for the user
};

// "0-3,7", or keys (see find_task): the indices, each once, in order.
Result<std::vector<size_t>> parse_tasks(const Program& program, const std::string& spec);

// Sets the design spaces by text: "default", "wide", or names of the target's modules with commas between them. Error:
// neither, with the nearest name.
Result<void> set_space(const std::string& text, const target::Target& target, space::SpaceOptions& options);

// The target with a simulated GPU of this seed in place of a device. Error: the target is not a GPU.
Result<target::Target> simulated_target(target::Target target, int64_t seed);

// Whether tune_program can begin on a target: of a CPU, code for it can be made and run here. GPUs may be elsewhere.
Result<void> check_tunable(const target::Target& target);

// Where nothing can be run the analytical model ranks all there is: `others` is of no use to it, which a note says. The
// report speaks of the tasks that were asked for. Errors: a target that cannot be measured here, no worker, a store
// that cannot be written.
Result<TuneReport> tune_program(const Program& program, record::Store& store, const TuneRequest& request);

}  // namespace tcc::driver
