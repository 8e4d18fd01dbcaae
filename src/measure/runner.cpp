#include "measure/runner.h"

#include <cstring>
#include <vector>

#include "tcc/support/files.h"

namespace tcc::measure {
namespace {

// True when the program passed on every data set.
Result<bool> run_checked(LoadedProgram& program, const TaskDescription& task, WorkerResult& result) {
  for (int64_t set = 0; set < task.num_sets; ++set) {
    result.set = static_cast<int32_t>(set);
    TCC_TRY_VOID(program.prepare(set));
    const Stopwatch watch;
    TCC_TRY_VOID(program.run());
    result.last_run_seconds = watch.seconds();
    TCC_TRY(const bool right, program.check(set, result));
    if (!right) return false;
    if (set == 0) result.exact_passed = task.exact;
  }
  return true;
}

}  // namespace

Result<void> Runner::run_reference(const TaskDescription&, JobHeader&) {
  return environment_error("this process does not compute references");
}

Result<void> run_job(JobHeader& job, const std::byte* data, Runner& runner) {
  int64_t description_bytes = 0;
  std::memcpy(&description_bytes, data, sizeof description_bytes);
  Reader task_reader(
      {reinterpret_cast<const char*>(data) + sizeof description_bytes, static_cast<size_t>(description_bytes)});
  const TaskDescription task = get_task(task_reader);
  Reader reader({reinterpret_cast<const char*>(&job) + job.payload_offset, static_cast<size_t>(job.payload_bytes)});
  std::vector<codegen::Artifact> artifacts;
  for (int i = 0; i < job.num_artifacts; ++i) artifacts.push_back(get_artifact(reader));
  if (!task_reader.ok() || !reader.ok()) return environment_error("a damaged job reached the measuring process");

  WorkerResult& result = job.result;
  std::vector<LoadedProgram*> programs;
  for (const codegen::Artifact& artifact : artifacts) {
    TCC_TRY(LoadedProgram * program, runner.load(artifact, task, data, result));
    if (program == nullptr) return {};
    programs.push_back(program);
  }
  result.phase = Phase::kChecking;
  if (job.kind == JobKind::kReference) return runner.run_reference(task, job);
  for (LoadedProgram* program : programs) {
    TCC_TRY(const bool passed, run_checked(*program, task, result));
    if (!passed) return {};
  }
  if (job.kind == JobKind::kCheck) return {};
  result.phase = Phase::kTiming;
  return job.kind == JobKind::kPaired ? runner.time_pair(job, result) : runner.time(job, result);
}

}  // namespace tcc::measure
