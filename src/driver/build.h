// From the tasks of a model to the code that its library holds, for one target or several. Private to the room.
#pragma once

#include <vector>

#include "tcc/driver/compile.h"
#include "tcc/search/search.h"

namespace tcc::driver {

// make_program where nothing is compiled: the target need not have instructions of the model's precision.
Result<Program> cut_into_tasks(const Model& model, const target::Target& target, const FormRecords& records = {});

// Constants folded, patterns, precision, one Winograd form and layouts, as the source asks for them.
Result<void> optimize_graph(graph::Graph& graph, const ModelSource& source, const target::Target& target);
task::TaskOptions task_options(const ModelSource& source, const target::Target& target);

// The program of every task for every target, compiled: target by target, tasks in order. Errors: a task that has no
// program for a target, which is named; no compiler for a target.
Result<std::vector<search::ChosenArtifact>> choose_kernels(const Program& program, const BuildOptions& options);

// What to report of them; seconds lost without tuning are estimated where options ask for it.
Result<std::vector<KernelChoice>> describe_kernels(const Program& program, const BuildOptions& options,
                                                   const std::vector<search::ChosenArtifact>& kernels);

// The same as what a library is made of, with the texts that options.emit names: one entry for each target, then, with
// options.allow_jit, the portable code of one of them.
// What the kernels of each group need, for any of the targets, and allow for all of them.
std::vector<graph::GroupMemory> memory_of_groups(const Program& program, const BuildOptions& options,
                                                 const std::vector<search::ChosenArtifact>& kernels);
Result<std::vector<package::ArchitectureCode>> package_kernels(const Program& program, const BuildOptions& options,
                                                               std::vector<search::ChosenArtifact> kernels);

}  // namespace tcc::driver
