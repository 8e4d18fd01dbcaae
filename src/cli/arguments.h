// Groups of arguments that several commands share, as the command line gave them, before anything is looked up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tcc::cli {

class Options;

// Of every command.
struct Common {
  bool json = false, quiet = false, wide = false;
  int verbose = 0;
  std::string config;  // --config, already taken into account
};

// A model, and what is fixed or replaced on the way in.
struct ModelArguments {
  std::string model;
  std::vector<std::string> shapes, dims, frozen;  // NAME=1x3x224x224, NAME=8, NAME=@FILE
  bool external_symlinks = false;
  std::optional<uint64_t> reseed;
  int64_t zoo_batch = 1, zoo_image = 224, zoo_sequence = 128, zoo_width = 100, zoo_layers = 0, zoo_past = 0,
          zoo_opset = 0;
  std::string zoo_precision = "f32";
  uint64_t zoo_seed = 1;
  std::string layouts = "plain";
  std::string winograd = "auto";
  std::string precision = "f32";
  bool fast_math = false;
  std::vector<std::string> given, zoo_given;  // options of models, and of zoo models, that the call has
};

struct TargetArguments {
  std::string name = "host", file;
  std::string cuda_driver;         // "" = the system's
  std::vector<std::string> given;  // --target, --target-file, where the call has them
};

// Files of tuning records.
struct RecordArguments {
  std::string db;                           // "" = the user's own
  std::vector<std::string> also, fallback;  // further files, read only
  std::vector<std::string> given;           // those of these options that the call has
};

// A model's tasks; or a library, or the model that is built into one for the occasion.
struct TaskArguments {
  ModelArguments model;
  TargetArguments target;
  RecordArguments records;
  int64_t threads = 0;  // 0 = all
};
using LibraryArguments = TaskArguments;

// The options of these groups.
void add_common(Options& options, Common& common);
void add_model(Options& options, ModelArguments& model, const char* what = "An ONNX file, or zoo:NAME",
               bool required = true);
void add_shapes(Options& options, ModelArguments& model);
void add_reseed(Options& options, ModelArguments& model);
void add_zoo(Options& options, ModelArguments& model);
void add_target(Options& options, TargetArguments& target, const char* what = nullptr);
void add_cuda_driver(Options& options, TargetArguments& target);
void add_cupti(Options& options, std::string& library);
void add_db(Options& options, RecordArguments& records);
void add_records(Options& options, RecordArguments& records);
// Of text for driver::set_space.
void add_space(Options& options, std::string& space);
void add_threads(Options& options, int64_t& threads, const char* what);
// All of these, for commands that look at tasks.
void add_tasks(Options& options, TaskArguments& tasks, const char* target = nullptr);
// And for those that run a library.
void add_library(Options& options, LibraryArguments& library, bool required = true);

}  // namespace tcc::cli
