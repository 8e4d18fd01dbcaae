// From a model to a library, as one straight list.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tcc/driver/gpu_target.h"
#include "tcc/driver/model.h"
#include "tcc/graph/passes.h"
#include "tcc/package/package.h"
#include "tcc/record/store.h"
#include "tcc/search/search.h"
#include "tcc/target/target.h"
#include "tcc/task/task.h"

namespace tcc::driver {

std::string tool_version();

// One of several computations that give the same: a convolution, directly or by Winograd tiles of winograd x winograd
// outputs (graph/winograd.h).
struct TaskForm {
  int64_t winograd = 0;  // 0: direct
  task::Task task;
  double estimate = 1;  // of its speed over that of the direct form (graph::winograd_gain)
};
// A form that a task does not take, because its rounding errors may be larger than graph::kWinogradTolerance.
struct RefusedForm {
  std::string workload;
  int64_t winograd = 0;
  double error = 0;  // graph::winograd_error
};

// A model cut into tasks.
struct Program {
  graph::Graph graph;  // optimized
  std::vector<graph::FusionGroup> groups;
  task::TaskList tasks;
  // Of each task the forms that it may have, the direct one first; `tasks` has the chosen one. Empty: it has one only.
  std::vector<std::vector<TaskForm>> forms;
  std::vector<RefusedForm> refused_forms;
  double flops = 0;                             // of one run; of several sizes, at the largest
  std::optional<package::DynamicPlan> dynamic;  // of a model with dimensions of several sizes
};
// Errors: the target has no instructions that multiply in the precision. The nearest precision that it has is in the
// hint.
Result<void> check_precision(target::Precision precision, const target::Target& target);
// What decides the forms of tasks: measurements on that many threads. A task without any keeps its direct form, unless
// `estimated` asks for the one that an estimate puts far ahead.
struct FormRecords {
  const record::Database* store = nullptr;
  int64_t threads = 1;
  bool estimated = false;
};
// The target gives the width of channel blocks where model.source asks for them. Errors: those of check_precision, too.
Result<Program> make_program(const Model& model, const target::Target& target = target::host_target(),
                             const FormRecords& records = {});

struct BuildOptions {
  std::string folder;
  std::string id;                       // "" = from the model's name
  std::vector<target::Target> targets;  // one, or several GPUs of different architectures
  bool allow_jit = false;               // for GPUs: also PTX of the oldest one, which drivers compile for newer ones
  const record::Database* store = nullptr;  // nullptr: nothing is tuned
  int64_t threads = 1;                      // records measured with that many are preferred
  search::Defaults defaults = {};           // of tasks without a usable record
  bool require_tuned = false;
  bool estimate_slowdowns = false;  // of kernels that are not tuned: they are run for some milliseconds each
  package::Emit emit;
  std::string linker;
};

struct KernelChoice {
  std::string key, workload;
  task::GroupNodes nodes;  // of the model
  int64_t weight = 1;
  bool tuned = false;
  double seconds = 0;   // measured time of one run, or predicted (see origin); 0 when untuned
  std::string note;     // why it is not tuned, or that it was on another number of threads
  double slowdown = 0;  // expected time over that of a tuned kernel; 0 = tuned, or not estimated
  std::string target;
  package::Origin origin = package::Origin::kDefault;
  search::Source source = search::Source::kUnscheduled;  // with `reason` and `passed_over` as search::Chosen
  std::string reason;
  std::vector<std::string> passed_over;
  bool calibrated = false;  // numbers of the target's analytical model are fitted to the device
};

struct BuildReport {
  package::PackageReport package;
  std::string id;
  std::vector<KernelChoice> kernels;  // one per task; of several GPUs, target by target
  std::vector<RefusedForm> refused_forms;
};

// "a100,h100": different architectures of GPUs, or one target. Errors: an unknown name, a CPU among several, two
// targets of one architecture.
Result<std::vector<target::Target>> find_targets(const std::string& names, const GpuSources& sources);

// Errors besides those of the steps: with require_tuned, a kernel without a usable record, or one whose best record no
// longer gives its program (all are named).
Result<BuildReport> build_model(const Model& model, const BuildOptions& options);

}  // namespace tcc::driver
