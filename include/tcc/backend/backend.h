// What differs between the kinds of targets, as one value each: `cpu` and `cuda`. Code that asks backend_of() works for
// every kind; nothing else asks of which kind a target is.
//
// A new kind of target: a file in each of lower, space, cost, codegen and measure, a file in this room that gathers
// them, and a row of the list in backends.cpp.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/codegen/artifact.h"
#include "tcc/cost/cost_model.h"
#include "tcc/cost/launch_model.h"
#include "tcc/features/sample.h"
#include "tcc/lower/pass.h"
#include "tcc/measure/measurement.h"
#include "tcc/package/package.h"
#include "tcc/schedule/mutation.h"
#include "tcc/space/space.h"
#include "tcc/support/parallel.h"
#include "tcc/target/precision.h"
#include "tcc/target/target.h"

namespace tcc::backend {

struct CompileOptions {
  std::string prefix = "kernel";  // symbols are tcc_<prefix>_<launch number>; [A-Za-z0-9_]
  bool want_source = false;       // Artifact::source holds a text for people
};

struct OpenOptions {
  int64_t threads = 1;                   // that programs run on, where they run on the host's
  bool cold_weights = false;             // on the host: see measure::HostMeasureOptions
  std::optional<target::Target> device;  // what records say of this machine; nullopt: nominal rates
  std::string cuda_driver, cupti;        // libraries; "" = the system's
  double budget_seconds = 0.1;           // of timing one program
  bool sandbox = false;                  // programs of others: see measure::HostMeasureOptions
  int64_t memory_limit_bytes = 0;        // of a measuring process on the host; 0 = as measure::HostMeasureOptions
  ThreadPool* compile_pool = nullptr;    // nullptr = the calling thread compiles
};

// A machine that runs programs of a target.
struct Machine {
  std::string name;                               // of a device beside the host; "" = the host itself
  std::unique_ptr<measure::Measurer> references;  // runs the naive kernels for a device; nullptr: the measurer does
  std::unique_ptr<measure::Measurer> measurer;

  std::vector<std::string> notes() const;  // sentences for the user
};

// What a built library holds of a kind of target.
struct Payload {
  // What --emit may name.
  std::span<const std::string_view> texts;
  bool several_targets = false;  // one library may hold code for several targets
  // Loads see what the kernel has stored before, so that its output may take an input's place (analysis/overwrites.h).
  bool overwrites_inputs = false;
  // Adds the texts of one kernel that `emit` asks for.
  Result<void> (*add_texts)(const ir::Kernel& lowered, const target::Target&, const CompileOptions&,
                            const package::Emit& emit, package::TaskCode& code) = nullptr;  // nullptr: no texts
  // Writes the library: `code` has one entry for each target, and one more for portable code.
  Result<package::PackageReport> (*write)(package::PackagePlan plan, std::vector<package::ArchitectureCode> code,
                                          const package::PackageOptions&) = nullptr;

  // The next three make code that devices newer than the target compile for themselves; nullptr: the kind has none.
  // Of several targets, the one whose kernels most devices can run.
  size_t (*most_portable)(std::span<const target::Target>) = nullptr;
  target::Target (*portable_target)(const target::Target&) = nullptr;
  // Errors: the kernel uses what only that very target has.
  Result<codegen::Artifact> (*compile_portable)(const ir::Kernel& lowered, const target::Target&,
                                                const CompileOptions&) = nullptr;
};

struct Backend {
  target::TargetKind kind = target::TargetKind::kCpu;

  // --- design spaces and lowering
  const space::ModuleList* modules = nullptr;
  const lower::Pipeline& (*pipeline)() = nullptr;  // passes and limits

  // Has the target instructions that multiply in this precision? Every target has f32.
  bool (*multiplies)(const target::Target&, target::Precision) = [](const target::Target&, target::Precision p) {
    return p == target::Precision::kF32;
  };

  // --- search
  schedule::MutatorWeights mutators = {};
  // Generations that the cost model breeds from the drafts where Drafting::verify_generations is below 0: 0 (Pruner's
  // paper) or 1 (its released code).
  int64_t verify_generations = 0;
  // Ranks programs before anything is measured or learned.
  std::unique_ptr<cost::CostModel> (*prior)(const target::Target&) = nullptr;
  // Of cost::model_kinds(), each with the checkpoint that ships: ranks the programs of default schedules; searches.
  std::string_view default_model = "prior", search_model = cost::kDefaultModel;
  const features::Table* trace_table = &features::kTraceCpu;  // the steps of its schedules, for learned models
  // What the prior expects of a program at Stage::Nest once the compiler has said how many registers and how much
  // shared memory its launches take; nullptr: compiling tells the prior nothing.
  double (*compiled_seconds)(const ir::Kernel& nest, const target::Target&, const codegen::Artifact&) = nullptr;
  // What a model says of each launch of such a program, for reports; nullptr: nothing.
  std::vector<cost::LaunchModel> (*launch_models)(const ir::Kernel& nest, const ir::Kernel& lowered,
                                                  const target::Target&, const codegen::Artifact&) = nullptr;
  bool predicts = false;          // the prior's scores mean seconds: programs are predicted where nothing can run
  bool by_threads = false;        // programs run on a number of the host's threads, which records name
  bool runs_unscheduled = false;  // plain loops run on it: speed-ups are measured against them
  // Adjacent channels of a blocked layout, at most where convolutions multiply bytes; nullptr: tensors keep the model's
  // layout.
  int64_t (*channel_block)(const target::Target&, bool bytes) = nullptr;
  double trials_per_second = 4;  // that a limit of time is sure to allow: large kernels on two cores (tuned)
  int64_t measuring_cores = 0;   // of the host that are busy while a program is timed
  // The default schedule of a task is the prior's best of a population of draws and of further generations.
  int64_t default_draws = 64, default_generations = 0;

  // --- code
  Result<codegen::Artifact> (*compile)(const ir::Kernel& lowered, const target::Target&,
                                       const CompileOptions&) = nullptr;

  const Payload* payload = nullptr;

  // --- machines
  // What records call the instruction set.
  std::string (*isa)(const target::Target&) = nullptr;
  // Whether this program can make code for the target and, unless it `predicts`, this machine can run it.
  Result<void> (*check_tunable)(const target::Target&) = [](const target::Target&) { return Result<void>(); };
  // Whether this program makes code for the target that loads there.
  Result<void> (*check_loadable)(const target::Target&) = [](const target::Target&) { return Result<void>(); };
  // The program as text that another compiler takes, in Artifact::source; nullptr: the kind has no such text.
  Result<codegen::Artifact> (*print)(const ir::Kernel& lowered, const target::Target&, const CompileOptions&) = nullptr;
  // Whether the target's name means a device of this machine rather than a kind of device.
  bool (*is_this_machine)(const target::Target&) = [](const target::Target&) { return true; };
  // Whether this machine's CPU runs programs of the target.
  bool (*runs_on_host)(const target::Target&) = [](const target::Target&) { return false; };
  // Errors: this machine does not run programs of the target, and why.
  Result<std::unique_ptr<Machine>> (*open)(const target::Target&, const OpenOptions&) = nullptr;
};

extern const Backend kCpu, kCuda;
// The kind of a backend that is not part of tcc. Further ones take the numbers after it.
inline constexpr auto kOtherKind = static_cast<target::TargetKind>(2);

// Every target has one: an unknown kind is a bug.
const Backend& backend_of(const target::Target& target);
// One more row of the list, which must outlive all use of it. Call it from one thread, before its kind is used.
void add_backend(const Backend& backend);

// The number of the installed GPU that a target's name means: 0 for "cuda", N for "cuda:N"; nothing for other names.
std::optional<int> installed_gpu_number(std::string_view name);

}  // namespace tcc::backend
