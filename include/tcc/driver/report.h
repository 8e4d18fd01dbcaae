// What a report page shows of a model or of a file of records, as data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tcc/cost/launch_model.h"
#include "tcc/driver/explain.h"
#include "tcc/record/store.h"

namespace tcc::driver {

// One measured program.
struct ReportTrial {
  int64_t record = 0, unix_time = 0;
  int64_t form = 0;  // its place in ReportedTask::forms
  std::string status;
  double seconds = 0;    // 0: it has no valid time
  double predicted = 0;  // seconds that a model expects, see ReportedTask; 0: not computed
};

// A form of a task (driver/forms.h).
struct ReportedForm {
  std::string form, key;  // as form_of()
  bool built = false;     // the one that `build` takes
  int64_t trials = 0;
  double best_seconds = 0;  // of the program that `build` would take of it; 0: none was measured
};

// Trials and failures are those of all forms. All else is about the form that is built.
struct ReportedTask {
  int64_t number = 0, weight = 1;
  double bytes = 0;                     // of the parameters, each once
  double default_seconds = 0;           // measured, of the schedule that is taken without tuning; 0: not known
  double plain_seconds = 0;             // measured, of the unscheduled loops; 0: not known
  int64_t threads = 0;                  // that the trials ran on
  Explanation explanation;              // without draws from the design spaces
  std::string nest, schedule, program;  // as TaskDetails: plain loops, the schedule's steps, the lowered kernel
  std::string code;                     // assembly, or the source for a GPU's compiler
  // What a model says of each launch, where the target has one and its compiler is here: registers are the compiler's.
  std::vector<cost::LaunchModel> launch_models;
  std::string code_note;  // why `code` is empty or is not whole; "" otherwise
  // The direct one first. Empty without records, and in a file of records, where each form is a task.
  std::vector<ReportedForm> forms;
  // Oldest first. Of at most kPredictedTrials of them, spread evenly, `predicted` is computed: by the target's
  // analytical model, else by the draft model (tcc/cost/draft.h).
  std::vector<ReportTrial> trials;
  std::vector<RecordedFailure> failures;  // by status, "ok" too
  std::string platform, tool_version;     // of the newest trial, as in its record
};
inline constexpr int64_t kPredictedTrials = 32;

// A program of a model with all its tasks, in their order, by `pool`. `source` and `facts` as for explain_task().
// Errors: those of choosing a program.
Result<std::vector<ReportedTask>> report_program(const Program& program, const record::Database* store,
                                                 const target::Target& target, int64_t threads,
                                                 const ModelSource* source, const MachineFacts* facts,
                                                 ThreadPool* pool);

// A file of records: one entry for each task, target, platform and number of threads, ordered by workload. Nothing is
// known of the model: only the record's own data is filled in, and in `explanation` the key, the workload and the time.
struct StoredTask {
  std::string target, platform;
  ReportedTask task;
};
Result<std::vector<StoredTask>> report_store(const record::Store& store);

}  // namespace tcc::driver
