// Timing inside the child.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "measure/quiet.h"
#include "measure/wire.h"

namespace tcc::measure {

struct TimingPlan {
  double last_run_seconds = 0;  // of the run just before
  double budget_seconds = 0.1;
  double patience_seconds = 0;    // at most so long for a program that may be the best, while the machine is not quiet
  double best_seconds = 0;        // of the task's programs so far; 0: none
  QuietTimes quiet;               // of this machine
  std::span<const int32_t> cpus;  // that the program runs on; empty: stolen time is not looked at
  std::function<void(void (*)())> everywhere;  // see QuietWatch
};

// Times `run` into the result: samples, dropped, disturbed, converged, cut_short, calibration.
void time_program(const std::function<void()>& run, const TimingPlan& plan, WorkerResult& result);

// Fewer pairs cannot give an interval of 99 %.
inline constexpr int64_t kMinimalPairs = 8;

// Times two programs in turns, A B B A, into samples and samples_b. Pairs that something disturbed are dropped while
// there are others, and while patience lasts.
void time_pair(const std::function<void()>& run_a, const std::function<void()>& run_b, const TimingPlan& plan,
               WorkerResult& result);

// Clock ticks that the hypervisor gave to others, summed over `cpus`; from the text of /proc/stat. 0 where it says
// nothing.
int64_t stolen_ticks(std::string_view stat, std::span<const int32_t> cpus);

}  // namespace tcc::measure
