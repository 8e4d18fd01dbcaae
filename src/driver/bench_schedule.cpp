// One schedule of the user's: read, replayed, run through the tuner's own checks and timed.
#include "tcc/driver/gpu_target.h"
#include "tcc/driver/library.h"
#include "tcc/measure/gpu.h"
#include "tcc/schedule/metaschedule.h"
#include "tcc/search/search.h"

namespace tcc::driver {
namespace {

Result<schedule::Trace> read_trace(const std::string& text, const task::Task& task, std::vector<std::string>& notes) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return schedule::trace_from_json(text);
  if (!schedule::looks_like_metaschedule(text)) return schedule::parse_trace(text);
  TCC_TRY(schedule::ImportedTrace imported, schedule::trace_from_metaschedule(text));
  auto fitted = schedule::fit_to(imported, task.kernel, std::make_shared<Arena>());
  if (!fitted)
    return input_error("{}: {}: {}", task.workload, ir::reject_reason_name(fitted.error().reason), fitted.error().text);
  notes = std::move(imported.notes);
  return std::move(*fitted);
}

Result<measure::Measurement> measure_on_gpu(const task::Task& task, const target::Target& target,
                                            const measure::Candidate& program, const std::string& cuda_driver) {
  measure::HostMeasureOptions reference_options;
  reference_options.threads = 0;
  TCC_TRY(auto references, measure::IsolatedHostMeasurer::create(reference_options));
  measure::GpuMeasureOptions options;
  options.driver_library = cuda_driver;
  options.device = installed_gpu_number(target.name).value_or(0);
  options.budget_seconds = 0.5;
  TCC_TRY(auto measurer, measure::GpuMeasurer::create(*references, options));
  const measure::GpuDevice& device = measurer->device();
  if (target::sm_name(device.target) != target::sm_name(target))
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("the schedule fits, but cannot be timed: the GPU here, {}, is {} and '{}' is {}",
                                  device.name, target::sm_name(device.target), target.name, target::sm_name(target)),
                      "--target cuda times on the GPU that is here");
  TCC_TRY(auto prepared, measurer->prepare(task.kernel, target));
  measure::Candidate candidate = program;
  candidate.task = prepared.get();
  TCC_TRY(std::vector<measure::Measurement> measured, measurer->measure({&candidate, 1}));
  return std::move(measured.at(0));
}

Result<measure::Measurement> measure_on_cpu(const task::Task& task, const target::Target& target,
                                            const measure::Candidate& program, int threads) {
  measure::HostMeasureOptions options;
  options.threads = threads;
  options.budget_seconds = 0.5;
  TCC_TRY(auto measurer, measure::IsolatedHostMeasurer::create(options));
  TCC_TRY(auto prepared, measure::MeasureTask::create(*measurer, task.kernel, target, {}));
  measure::Candidate candidate = program;
  candidate.task = prepared.get();
  TCC_TRY(std::vector<measure::Measurement> measured, measurer->measure({&candidate, 1}));
  return std::move(measured.at(0));
}

}  // namespace

Result<ScheduleTime> bench_schedule(const task::Task& task, const std::string& trace, const target::Target& target,
                                    int threads, const std::string& cuda_driver) {
  ScheduleTime out;
  TCC_TRY(schedule::Trace parsed, read_trace(trace, task, out.notes));
  TCC_TRY(search::Chosen program, search::program_of_trace(parsed, task, target));
  measure::Candidate candidate;
  candidate.nest = program.nest;
  candidate.kernel = program.lowered;
  TCC_TRY(const measure::Measurement m, target.is_cuda() ? measure_on_gpu(task, target, candidate, cuda_driver)
                                                         : measure_on_cpu(task, target, candidate, threads));
  out.workload = task.workload;
  out.status = record::status_name(m.status);
  out.failure = m.failure;
  out.flops = task.flops;
  out.median = m.median, out.low = m.low, out.high = m.high;
  out.max_error = m.max_error;
  return out;
}

}  // namespace tcc::driver
