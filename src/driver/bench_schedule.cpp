// One schedule of the user's: read, replayed, run through the tuner's own checks and timed.
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
  Result<ScheduleTime> timed = time_trace(parsed, task, target, threads, cuda_driver);
  if (!timed) return tl::make_unexpected(std::move(timed).error().with_context(file));
  timed->notes = std::move(notes);
  return timed;
}

}  // namespace tcc::driver
