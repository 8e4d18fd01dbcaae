// Tasks that share an anchor: the same matrix product or convolution with another epilogue, or of another size. What
// was tuned for one tiles the other as well; the text of its trace differs where blocks are inlined. Private to the
// room.
#pragma once

#include <functional>

#include "search/task_state.h"
#include "tcc/record/database.h"

namespace tcc::search {

// Hash of the anchor block's nest alone, with the shapes and types of what it reads and writes. Whether it writes the
// task's output or a temporary says nothing, nor which of its inputs an earlier block makes.
uint64_t anchor_hash(const task::Task& task);

// The anchor's family: equal for nests that differ in integers only, as the same convolution of another size.
AnchorShape anchor_shape(const task::Task& task);

// Equal for traces that tile alike: sampling, tiling, layouts, loop kinds and instructions, without the steps that
// place producers and consumers.
uint64_t tiling_hash(const schedule::Trace& trace);

// The decisions of a relative's trace in those sketches of a task that tile as it does; the sketch that is the trace
// itself, if any, comes first.
std::vector<Seed> transfer(const schedule::Trace& trace, const std::vector<space::Sketch>& sketches);

// The same without their numbers, as literal tile sizes: equal for the traces of a module on two shapes.
uint64_t tiling_form(const schedule::Trace& trace);

// The decisions of a program of another shape in the sketches of its form, those with the nearest numbers first; a few.
std::vector<Seed> transfer_shape(const schedule::Trace& trace, const std::vector<space::Sketch>& sketches);

// Puts the best programs of relatives, then those of the nearest shapes, among the seeds of each task: those that the
// session began with where it was resumed, whatever has been measured since. Those of env.others come behind them, and
// its best of the task itself before all; a run does not change what is there, so a resumed session that finds the same
// records goes on exactly.
Result<void> seed_from_relatives(std::vector<TaskState>& states, const target::Target& target,
                                 const TuneOptions& options, const Environment& env, bool resumed);

// The fastest relative's schedule, else that of the nearest shape, brought to this task and built; the first that
// `gate` lets through. Chosen::relative names it, and Chosen::note says how it is related. Nothing: no relative is
// known, or none fits or passes; `why` says which.
Result<std::optional<Chosen>> relative_program(const task::Task& task, const target::Target& target,
                                               const record::Database& database, int64_t threads, const Gate& gate,
                                               std::string& why);

}  // namespace tcc::search
