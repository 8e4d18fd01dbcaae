// What the command line said, before anything is looked up.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::cli {

struct Common {
  bool json = false, quiet = false;
  int verbose = 0;
};

struct ModelArguments {
  std::string model;
  std::vector<std::string> shapes, dims, frozen;  // NAME=1x3x224x224, NAME=8, NAME=@FILE
  bool external_symlinks = false;
  std::optional<uint64_t> reseed;
  int64_t zoo_batch = 1, zoo_image = 224, zoo_sequence = 128;
  uint64_t zoo_seed = 1;
  std::string layouts = "plain";
  int64_t winograd = 0;
};

struct Arguments {
  Common common;
  ModelArguments model;
  std::string target = "host", target_file;
  std::string db;
  std::vector<std::string> also, fallback;  // further files of records, read only
  int64_t threads = 0;                      // 0 = all

  // tune
  int64_t trials = 0, trials_per_task = 0;
  std::optional<std::string> time;
  uint64_t seed = 1;
  std::string strategy = "evolutionary", task_scheduler = "gradient";
  bool fresh = false;
  bool no_prior = false;
  std::vector<std::string> modules;
  std::string tasks;  // "list", or which

  // build
  std::string output, id, emit, linker;
  bool require_tuned = false;
  bool allow_jit = false;
  std::string cuda_driver;  // tune, run, verify, bench
  std::string cupti;        // tune, bench

  // verify, bench
  std::string original;  // --model
  double tolerance = 1e-3;
  bool emulate = false;
  double seconds = 2;
  bool per_kernel = false;
  std::string schedule;              // --schedule FILE
  std::vector<std::string> compare;  // --compare A.json B.json

  // run
  std::vector<std::string> inputs, saves;  // NAME=FILE
  std::string inputs_npz;
  bool random = false;

  // db
  std::string db_action;
  std::vector<std::string> files;
  int64_t keep = 16;

  std::string config;  // --config, already taken into account

  // completion, man
  std::string shell, page, folder;

  // show, targets
  std::string task, name;
  bool probe = false, refresh = false;
  bool trace_only = false;
};

using Command = std::function<Result<int>(const Arguments&)>;
struct ParsedLine {
  int exit_code = 0;  // when there is no command: help was asked for, or the line is wrong
  Command command;
  Arguments arguments;
};
ParsedLine parse_command_line(int argc, char** argv);

Result<int> run_tune(const Arguments& arguments);
Result<int> run_build(const Arguments& arguments);
Result<int> run_verify(const Arguments& arguments);
Result<int> run_emulation(const Arguments& arguments);  // verify --emulate
Result<int> run_bench(const Arguments& arguments);
Result<int> run_run(const Arguments& arguments);
Result<int> run_explain(const Arguments& arguments);
Result<int> run_completion(const Arguments& arguments);
Result<int> run_man(const Arguments& arguments);
Result<int> run_db(const Arguments& arguments);
Result<int> run_show(const Arguments& arguments);
Result<int> run_inspect(const Arguments& arguments);
Result<int> run_targets(const Arguments& arguments);
Result<int> run_ops(const Arguments& arguments);
Result<int> run_zoo(const Arguments& arguments);

}  // namespace tcc::cli
