// Timing inside the child.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "measure/wire.h"

namespace tcc::measure {

struct TimingPlan {
  double last_run_seconds = 0;  // of the run just before
  double budget_seconds = 0.1;
  double best_calibration = 0;    // 0: none yet
  double best_seconds = 0;        // of the task's programs so far; 0: none
  std::span<const int32_t> cpus;  // that the program runs on; empty: stolen time is not looked at
};

// Times `run` into the result: samples, dropped, converged, cut_short, calibration.
void time_program(const std::function<void()>& run, const TimingPlan& plan, WorkerResult& result);

// A program is clearly slower than the best when the fastest of its first samples is this many times the best's time.
inline constexpr double kClearlySlower = 1.3;
inline constexpr int64_t kFirstSamples = 3;

// Fewer pairs cannot give an interval of 99 %.
inline constexpr int64_t kMinimalPairs = 8;

// Times two programs in turns, A B B A, into samples and samples_b; pairs disturbed by preemption are dropped.
void time_pair(const std::function<void()>& run_a, const std::function<void()>& run_b, double budget_seconds,
               WorkerResult& result);

// Clock ticks that the hypervisor gave to others, summed over `cpus`; from the text of /proc/stat. 0 where it says
// nothing.
int64_t stolen_ticks(std::string_view stat, std::span<const int32_t> cpus);

}  // namespace tcc::measure
