// Schedules found elsewhere: traces in the JSON form of MetaSchedule (Shao et al., NeurIPS 2022; TVM's tir.Trace).
#pragma once

#include "tcc/schedule/trace.h"

namespace tcc::schedule {

struct ImportedTrace {
  Trace trace;
  std::vector<std::string> notes;  // what was left out because it does not change the program, one line each
};

// True for a JSON array: the form is [instructions, decisions].
bool looks_like_metaschedule(std::string_view text);
// Instructions up to enter_postproc. An error names the instruction, counted from 0, and what of it has no counterpart.
Result<ImportedTrace> trace_from_metaschedule(std::string_view text, std::string_view file = "<trace>");

}  // namespace tcc::schedule
