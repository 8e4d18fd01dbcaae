// From words on the command line to things: models, targets, the record store.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cli/arguments.h"
#include "tcc/driver/compile.h"

namespace tcc::cli {

// "90s", "10m", "1h30m", "600" (seconds).
Result<double> parse_duration(const std::string& text);
// The number of a record; `flag` for messages.
Result<int64_t> parse_record(const char* flag, const std::string& text);
// "NAME=FILE", repeated; `flag` for messages.
Result<std::map<std::string, std::string>> parse_files(const char* flag, const std::vector<std::string>& words);
// --freeze NAME=@FILE
Result<std::map<std::string, std::string>> parse_frozen(const ModelArguments& arguments);
Result<driver::ModelSource> parse_model(const ModelArguments& arguments);
// For several models at once: sizes of the zoo that one of them lacks are left out of its arguments. Errors (usage): a
// size that all of them lack.
Result<std::vector<ModelArguments>> arguments_of_each(const ModelArguments& all,
                                                      const std::vector<std::string>& models);
Result<driver::Model> open_model(const ModelArguments& arguments);
// --target-file, else --target.
Result<target::Target> open_target(const TargetArguments& arguments);
// The same, where --target may name several GPUs.
Result<std::vector<target::Target>> open_targets(const TargetArguments& arguments);

// --db, else $XDG_DATA_HOME/tcc/records.db, else $HOME/.local/share/tcc/records.db.
Result<std::string> store_path(const std::string& db);
// Files of records that are read as one.
struct Records {
  std::vector<std::unique_ptr<record::Database>> parts;  // the files, and what joins them
  const record::Database* all = nullptr;                 // nullptr: no file of records exists
};
// The best of --db and --also for each task, and of each --fallback for tasks that the files before it lack. The
// default file need not exist; files that were named must.
Result<Records> open_records(const RecordArguments& arguments);
// The same without --db, which is written.
Result<Records> open_other_records(const RecordArguments& arguments);

// The tasks of a model on its target, and the records of them.
struct OpenTasks {
  target::Target target;
  driver::Model model;
  driver::Program program;
  Records records;
};
Result<OpenTasks> open_tasks(const TaskArguments& arguments);

// What GPUs of this machine are described from: the driver that was named, and what was calibrated here before.
driver::GpuSources gpu_sources(const TargetArguments& arguments);

// $XDG_CACHE_HOME/tcc, else $HOME/.cache/tcc, else "".
std::string cache_folder();

// This machine with the rates that records name, where there is a place to keep them: measured on the first run, once.
std::optional<target::Target> measured_device(bool quiet);

// Measures this machine again where a program reached `rate` operations a second, more than the f32 peak that was
// measured before, and tells the user. Does nothing without a cache folder.
void remeasure_device(double rate, bool quiet);

// --threads, or all processors of this machine.
int64_t threads_or_all(int64_t threads);

// A library on disk: the one that was named, or one built from the model that was named, in a folder that is removed
// with this object.
struct LibraryOnDisk {
  std::string path;
  std::shared_ptr<void> folder;
};
// The sizes that --dim gives dimensions of a library, as NAME=8; none where a model is named. Errors (usage): a word of
// another form.
Result<std::map<std::string, int64_t>> library_sizes(const ModelArguments& arguments);
// Errors besides those of opening and building: an option that changes nothing about a library. `takes_frozen`: the
// values of --freeze are looked at.
Result<LibraryOnDisk> find_library(const LibraryArguments& arguments, bool quiet, bool takes_frozen = false);

}  // namespace tcc::cli
