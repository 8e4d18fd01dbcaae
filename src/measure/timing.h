// Timing inside a worker, wherever the program runs.
//
// Samples are means over enough back to back runs for the resolution of the clock. They come in groups, each between
// two looks at the machine. A group is doubtful when either look found the machine slower than it can be, or when
// something took time away meanwhile; so is a sample that was interrupted. Doubtful samples count only where there are
// no others, and then by their fastest tenth: disturbances add time and never take any away.
//
// A program whose samples are all behind the best known one is not timed further, the sooner the further behind: that
// it loses is certain, and by how much is of no interest.
#pragma once

#include <cmath>
#include <cstdint>

#include "measure/wire.h"
#include "tcc/support/result.h"

namespace tcc::measure {

inline constexpr double kSampleSeconds = 100e-6;  // at least, of one sample

// One sample: seconds of one run.
struct Sample {
  double seconds = 0;
  bool interrupted = false;  // it says nothing certain
};

// A program that is ready to be timed.
class TimedProgram {
 public:
  virtual ~TimedProgram() = default;
  virtual Result<Sample> sample() = 0;
  int64_t repeats() const { return repeats_; }
  double sample_seconds() const { return run_seconds_ * static_cast<double>(repeats_); }

 protected:
  double run_seconds_ = 0;  // of one run, roughly
  int64_t repeats_ = 1;     // runs in a sample
};

// The processor between samples.
class MachineWatch {
 public:
  struct Look {
    double slowdown = 1;       // how much slower than at best it is: 1 or above
    bool interrupted = false;  // something took time away since the look before
    double calibration = 0;    // seconds of the calibration loop
  };
  virtual ~MachineWatch() = default;
  virtual Result<Look> look() = 0;
};

// How much is spent on a trial: a program that is one among many, and is timed again if it is among the fastest.
struct TrialRules {
  double budget = 1, patience = HUGE_VAL;  // in budgets
  // Where samples take longer than this, three are enough, and a quiet moment is not waited for longer than they take.
  double long_sample_seconds = HUGE_VAL;
  // Once the machine has disturbed enough samples it is only looked at until it is quiet.
  bool pauses = false;
};

struct TimingPlan {
  double last_run_seconds = 0;  // of the run for checking just before; 0: it says nothing
  double budget_seconds = 0.1;
  double patience_seconds = 0;  // at most, for a program that may be the best, while the machine is not quiet
  double best_seconds = 0;      // of the task's programs so far; 0: none
  TrialRules trial;
};

// What the job says; what only runners know is left out.
inline TimingPlan plan_of(const JobHeader& job) {
  TimingPlan plan;
  plan.last_run_seconds = job.result.last_run_seconds;
  plan.budget_seconds = job.budget_seconds;
  plan.patience_seconds = job.patience_seconds;
  plan.best_seconds = job.best_seconds;
  return plan;
}

// Into the result: repeats, samples, dropped, disturbed, converged, cut_short, calibration.
Result<void> time_program(TimedProgram& program, MachineWatch& machine, const TimingPlan& plan, WorkerResult& result);

// Fewer pairs cannot give an interval of 99 %.
inline constexpr int64_t kMinimalPairs = 8;
// Slow programs get up to this many budgets for the pairs that a verdict needs.
inline constexpr double kMaxPairBudgets = 10;

// Times two programs in turns, A B B A, into samples and samples_b. Drops pairs that something disturbed while there
// are others and patience lasts.
Result<void> time_pair(TimedProgram& a, TimedProgram& b, MachineWatch& machine, const TimingPlan& plan,
                       WorkerResult& result);

}  // namespace tcc::measure
