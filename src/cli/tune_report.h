// What `tcc tune` prints of a run, for people and programs. Private to the room.
#pragma once

#include <optional>

#include "cli/tune_options.h"
#include "cli/value_curve.h"
#include "tcc/driver/gain.h"
#include "tcc/driver/in_model.h"

namespace tcc::cli {

// Tasks whose best time other programs disturbed.
int64_t disturbed_tasks(const driver::TuneReport& report);

// The summary, on stdout: tables or an event.
void print_tune_report(const TuneArguments& a, const driver::TuneReport& report, const ValueCurve& curve,
                       const driver::TuneRequest& request, const driver::Program& program,
                       const std::optional<driver::InModel>& in_model, const std::optional<driver::Gain>& gain);

// One line, or one event: from now on `build` has a program for every task.
void print_library(const TuneArguments& a, const driver::FirstLibrary& library);

// Notes and warnings on what went wrong, on stderr.
void print_tune_remarks(const TuneArguments& a, const driver::TuneReport& report);

}  // namespace tcc::cli
