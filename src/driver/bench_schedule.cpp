// One schedule of the user's: read, replayed, run through the tuner's own checks and timed.
#include <fmt/ranges.h>

#include <algorithm>

#include "tcc/backend/backend.h"
#include "tcc/driver/library.h"
#include "tcc/schedule/metaschedule.h"
#include "tcc/search/search.h"

namespace tcc::driver {
namespace {

Result<schedule::Trace> read_trace(const std::string& text, const std::string& file, const task::Task& task,
                                   std::vector<std::string>& notes) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return schedule::trace_from_json(text, file);
  if (!schedule::looks_like_metaschedule(text)) return schedule::parse_trace(text, file);
  TCC_TRY(schedule::ImportedTrace imported, schedule::trace_from_metaschedule(text, file));
  auto fitted = schedule::fit_to(imported, task.kernel, std::make_shared<Arena>());
  if (!fitted)
    return input_error("{}: {}: {}: {}", file, task.workload, ir::reject_reason_name(fitted.error().reason),
                       fitted.error().text);
  notes = std::move(imported.notes);
  return std::move(*fitted);
}

constexpr double kBudgetSeconds = 0.5;

// Replay mends tiles that do not divide their loop. Where a person wrote the schedule that is an error, because another
// program would be timed; a record's schedule is taken as its record was, with a note.
Result<void> check_decisions(const schedule::Trace& trace, const task::Task& task, const std::string& file,
                             bool written, std::vector<std::string>& notes) {
  if (trace.instructions.empty()) notes.push_back(fmt::format("{} has no steps: the plain loops are timed", file));
  std::vector<int64_t> used;
  if (!schedule::replay(trace, trace.decisions, task.kernel, std::make_shared<Arena>(), &used)) return {};  // see below
  for (size_t i = 0; i < trace.instructions.size(); ++i) {
    const schedule::Instruction& in = trace.instructions[i];
    if (in.decision < 0) continue;
    const auto part = [&](const std::vector<int64_t>& all) {
      return std::span(all).subspan(static_cast<size_t>(in.decision), static_cast<size_t>(in.decision_length));
    };
    if (std::ranges::equal(part(trace.decisions), part(used))) continue;
    const std::string what = fmt::format("{}: instruction {} ({}): the decision <{}> does not fit the loop", file, i,
                                         schedule::op_name(in.op), fmt::join(part(trace.decisions), ", "));
    const std::string fits = fmt::format("<{}>", fmt::join(part(used), ", "));
    if (written) return make_error(ErrorClass::kInput, what, "the nearest that fits is " + fits);
    notes.push_back(fmt::format("{}; {} is timed, as when it was recorded", what, fits));
  }
  return {};
}

Result<ScheduleTime> time_trace(const schedule::Trace& trace, const task::Task& task, const target::Target& target,
                                int threads, const std::string& cuda_driver) {
  ScheduleTime out;
  TCC_TRY(search::Chosen program, search::program_of_trace(trace, task, target));
  measure::Candidate candidate;
  candidate.nest_hash = program.nest_hash;
  candidate.kernel = program.lowered;
  auto machine = backend::backend_of(target).open(
      target, {.threads = threads, .cuda_driver = cuda_driver, .budget_seconds = kBudgetSeconds});
  if (!machine)
    return tl::make_unexpected(std::move(machine).error().with_context("the schedule fits, but cannot be timed"));
  measure::Measurer& measurer = *(*machine)->measurer;
  TCC_TRY(auto prepared, measurer.prepare(task.kernel, target));
  candidate.task = prepared.get();
  TCC_TRY(const std::vector<measure::Measurement> measured, measurer.measure({&candidate, 1}));
  const measure::Measurement& m = measured.at(0);
  out.workload = task.workload;
  out.status = record::status_name(m.status);
  out.failure = m.failure;
  out.flops = task.flops;
  out.median = m.median, out.low = m.low, out.high = m.high;
  out.max_error = m.max_error;
  return out;
}

}  // namespace

Result<ScheduleTime> bench_schedule(const task::Task& task, const std::string& trace, const std::string& file,
                                    const target::Target& target, int threads, const std::string& cuda_driver) {
  std::vector<std::string> notes;
  TCC_TRY(const schedule::Trace parsed, read_trace(trace, file, task, notes));
  const size_t first = trace.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && (trace[first] == '{' || trace[first] == '[');
  TCC_TRY_VOID(check_decisions(parsed, task, file, !json, notes));
  Result<ScheduleTime> timed = time_trace(parsed, task, target, threads, cuda_driver);
  if (!timed) return tl::make_unexpected(std::move(timed).error().with_context(file));
  timed->notes = std::move(notes);
  return timed;
}

}  // namespace tcc::driver
