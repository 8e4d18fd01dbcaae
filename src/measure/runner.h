// What differs between processors inside the process that runs programs. One runner serves one job.
#pragma once

#include "measure/wire.h"
#include "tcc/codegen/artifact.h"
#include "tcc/support/result.h"

namespace tcc::measure {

// A loaded program with its parameters between guards.
class LoadedProgram {
 public:
  virtual ~LoadedProgram() = default;
  // Puts the inputs of a data set in their physical place and poisons everything else.
  virtual Result<void> prepare(int64_t set) = 0;
  // Runs once, to the end.
  virtual Result<void> run() = 0;
  // Looks at everything that the run may have done wrong. False: the result says what.
  virtual Result<bool> check(int64_t set, WorkerResult& result) = 0;
};

class Runner {
 public:
  virtual ~Runner() = default;
  // Loads one more of the job's programs. Of a pair the second uses the buffers of the first where they are the same,
  // so that the two differ in code only. nullptr: the result says why.
  virtual Result<LoadedProgram*> load(const codegen::Artifact& artifact, const TaskDescription& task,
                                      const std::byte* data, WorkerResult& result) = 0;
  // kReference: runs the programs and hands their outputs back. The default refuses.
  virtual Result<void> run_reference(const TaskDescription& task, JobHeader& job);
  // Times the program, or the pair, that has passed its checks.
  virtual Result<void> time(const JobHeader& job, WorkerResult& result) = 0;
  virtual Result<void> time_pair(const JobHeader& job, WorkerResult& result) = 0;
};

// Runs a job to its end: loads its programs, checks them on every data set, times them. `data`: the task's memory.
Result<void> run_job(JobHeader& job, const std::byte* data, Runner& runner);

}  // namespace tcc::measure
