// Timing inside the child.
#pragma once

#include <functional>

#include "measure/wire.h"

namespace tcc::measure {

// Times `run` into the result: samples, dropped, converged, calibration. `last_run_seconds`: of the run just before.
void time_program(const std::function<void()>& run, double last_run_seconds, double budget_seconds,
                  double best_calibration, WorkerResult& result);

// Fewer pairs cannot give an interval of 99 %.
inline constexpr int64_t kMinimalPairs = 8;

// Times two programs in turns, A B B A, into samples and samples_b; pairs disturbed by preemption are dropped.
void time_pair(const std::function<void()>& run_a, const std::function<void()>& run_b, double budget_seconds,
               WorkerResult& result);

}  // namespace tcc::measure
