// Schedules found elsewhere: traces in the JSON form of MetaSchedule (Shao et al., NeurIPS 2022; TVM's tir.Trace).
#pragma once

#include <map>

#include "tcc/schedule/trace.h"

namespace tcc::schedule {

struct ImportedTrace {
  Trace trace;
  size_t scheduled = 0;            // how many of the trace's instructions come before EnterPostproc
  std::vector<int64_t> numbers;    // of the file's instruction that each of the trace comes from
  std::vector<std::string> notes;  // a line for each part that was left out because it does not change the result
  std::map<int, int64_t> extents;  // of the file's loops, where its decisions tell them, by variable of the trace
  std::map<size_t, size_t> ranks;  // of what an index map is from, by number of the trace's instruction
};

// True for a JSON array: the form is [instructions, decisions].
bool looks_like_metaschedule(std::string_view text);
// What postprocessors wrote, behind EnterPostproc, is read where all of it can be said. An error names the instruction,
// counted from 0, and what of it has no counterpart.
Result<ImportedTrace> trace_from_metaschedule(std::string_view text, std::string_view file = "<trace>");
// The trace for this kernel: replayed, its decisions repaired, without steps that give a loop the kind that it has,
// which MetaSchedule allows, and with steps that make loops as the file counts them and give threads that share a sum
// an accumulator each. Postprocessing that does not fit is left out. What differs is noted. A reject names the file's
// instruction.
Legal<Trace> fit_to(ImportedTrace& imported, const Kernel& start, const ArenaPtr& arena);

}  // namespace tcc::schedule
