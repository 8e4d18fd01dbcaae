// Tuning a model's tasks on this machine: on its CPU or its GPU. For a GPU that is not here programs are predicted.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tcc/driver/compile.h"
#include "tcc/driver/fleet.h"
#include "tcc/search/search.h"

namespace tcc::driver {

// How much is spent on programs. 0: constructed, or the cost model's first pick, nothing measured. 1: a few programs of
// each task are measured. 2: as many as the options say.
enum class Effort : uint8_t { kConstruct = 0, kFew = 1, kFull = 2 };
std::vector<std::string> effort_names();
// Error (usage): none of "0", "1" and "2".
Result<Effort> parse_effort(const std::string& text);
// The limits of efforts 1 and 2 where the user gives no number of trials: options.trials_per_task, else a few or 64 of
// each task, and at most 10 minutes.
void set_limits(search::TuneOptions& options, Effort effort, int64_t tasks);
// The tasks, by index, that nothing was measured of on a machine of this kind, on this number of threads.
Result<std::vector<size_t>> unmeasured_tasks(const Program& program, const target::Target& target, int64_t threads,
                                             const record::Database& store);

// What there is before anything is measured: from the first seconds of a run on, `build` has a program for every task.
struct FirstProgram {
  std::string key, workload;
  int64_t weight = 1;
  search::Source source = search::Source::kPicked;  // kMeasured, kPredicted, kConstructed where a record was there
  double seconds = 0;                               // measured or predicted; 0: not known
  std::string reason = {};                          // see search::Chosen
  std::string failure = {};                         // why it has no program; "": it has one
  bool made = false;                                // by this run: the default schedule, whatever was in the store
};
struct FirstLibrary {
  std::vector<FirstProgram> programs;  // of the tasks of the request
  int64_t made = 0;                    // of them by this run; the others were in the store
  int64_t unknown = 0;                 // without predicted seconds
  double predicted_seconds = 0;        // one run of the model, of those that are known
  double seconds = 0;                  // wall time that it took
};

struct TuneRequest {
  target::Target target;
  std::optional<target::Target> device;  // what records say of this machine, with measured rates; nullopt: nominal ones
  std::string cuda_driver;               // its library; "" = the system's
  std::string cupti;                     // likewise, see measure::GpuMeasureOptions
  std::optional<FleetRequest> fleet;     // its workers measure; nullopt: this machine does
  search::TuneOptions options;
  std::vector<size_t> tasks;                 // which, by index; empty = all
  const record::Database* others = nullptr;  // see search::Environment; must outlive the run
  Effort effort = Effort::kFull;  // kConstruct: `options` give the threads, the space and the seed, no limits
  bool baseline = false;          // also time the unscheduled loops, where they run
  // Where processes that measure on this machine notice each other (tcc/driver/tuners.h); "" = they do not.
  std::string measuring_folder;
  // Seconds that the caller needs when tuning has ended; progress counts them in. `build_seconds`: of one build of the
  // model. Empty: none.
  std::function<double(double command_seconds, double build_seconds)> afterwards;
  std::function<bool()> stop;                              // may be empty
  std::function<void(const search::Progress&)> progress;   // may be empty
  std::function<void(const FirstLibrary&)> first_library;  // called once, before the search; may be empty
};

// What became of one form of a task.
struct TunedForm {
  std::string form, key;  // as form_of()
  int64_t trials = 0;
  double best_seconds = 0;
  double flops = 0;
  bool beaten = false;  // another form was so much faster that it got no more trials
};

struct TunedTask {
  // Of the fastest form; trials and counts of all. best_seconds counts the unscheduled program in, where it was timed.
  search::TaskResult result;
  std::vector<TunedForm> forms;  // the direct one first; empty: the task has one form only
  double flops = 0;
  search::Source source = search::Source::kMeasured;  // of what effort 0 chose
  double baseline_seconds = 0;   // one run of the unscheduled program, measured; 0 = it was not, or could not be
  std::string baseline_failure;  // why it could not be; "" otherwise
};

struct TuneReport {
  std::vector<TunedTask> tasks;
  search::Counts counts;  // over all tasks
  int64_t trials = 0;
  double seconds = 0;
  search::PhaseSeconds phases;  // of `seconds`
  bool stopped = false, resumed = false;
  bool predicted = false;       // nothing was run: times are a model's
  bool source_only = false;     // nothing was compiled either: the compiler here does not know the target
  double baseline_seconds = 0;  // one run of the model, sums over tasks by weight; 0 unless every task is known
  double best_seconds = 0;
  // Of the machine while it was measured: its load (processes that ran or could have, of the last minute; 0 = not
  // known), and the other processes that measured on it at some time.
  double load = 0;
  std::vector<int64_t> others;
  double build_seconds = 0;        // that a build of the model takes, about
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
