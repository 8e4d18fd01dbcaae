// Samples are means over enough back to back runs to stand clear of the clock. They come in groups, each between two
// runs of a calibration loop of fixed work: when that loop takes 5 % longer than its best time ever seen, the core was
// shared or throttled and the group is doubtful. A sample in which a thread was preempted is doubtful too. Doubtful
// samples count only where nothing else was to be had.
#include "measure/timing.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tcc/measure/measurement.h"

namespace tcc::measure {
namespace {

constexpr double kSampleSeconds = 100e-6;
constexpr double kWarmSeconds = 1e-3;
constexpr double kLongRunSeconds = 10e-3;
constexpr double kGroupSeconds = 5e-3;
constexpr int64_t kGroup = 8;
constexpr int64_t kMinimalSamples = 9;  // fewer give no 95 % interval that is not the whole range
constexpr double kInterval = 0.02;
constexpr double kCalibrationSlack = 1.05;

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// A chain of dependent integer operations: its time follows the core's clock and nothing else.
double calibrate() {
  double start = now();
  uint64_t x = 1;
  for (int i = 0; i < 25000; ++i) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    asm volatile("" : "+r"(x));
  }
  return now() - start;
}

int64_t preemptions() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

double sample(const std::function<void()>& run, int64_t repeats) {
  double start = now();
  for (int64_t i = 0; i < repeats; ++i) run();
  return (now() - start) / static_cast<double>(repeats);
}

// Brings caches, branch predictors and the clock up; returns the time of one run.
double warm_up(const std::function<void()>& run) {
  double start = now(), last = 0;
  do last = sample(run, 1);
  while (now() - start < kWarmSeconds);
  return last;
}

int64_t repeats_for(double seconds) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(kSampleSeconds / std::max(seconds, 1e-8))), 1, 100000);
}

}  // namespace

void time_program(const std::function<void()>& run, double last_run_seconds, double budget_seconds,
                  double best_calibration, WorkerResult& result) {
  std::vector<double> kept, doubtful, calibrations, sorted;
  // The checks have warmed a long run up already, and another one would cost as much as a sample.
  double one = last_run_seconds > kLongRunSeconds ? last_run_seconds : warm_up(run);
  int64_t repeats = repeats_for(one);
  double per_sample = one * static_cast<double>(repeats);
  auto group = std::clamp<int64_t>(static_cast<int64_t>(kGroupSeconds / per_sample), 1, kGroup);
  double best = best_calibration > 0 ? best_calibration : calibrate();
  double start = now();
  double before = calibrate();
  while (static_cast<int64_t>(kept.size() + doubtful.size()) + group <= kMaxSamples) {
    std::vector<std::pair<double, bool>> fresh;
    for (int64_t i = 0; i < group; ++i) {
      int64_t switches = preemptions();
      double seconds = sample(run, repeats);
      fresh.emplace_back(seconds, preemptions() == switches);
    }
    double after = calibrate();
    calibrations.push_back(after);
    best = std::min({best, before, after});
    bool steady = std::max(before, after) <= best * kCalibrationSlack;
    before = after;
    for (auto [seconds, undisturbed] : fresh) (steady && undisturbed ? kept : doubtful).push_back(seconds);
    if (static_cast<int64_t>(kept.size()) >= kMinimalSamples) {
      sorted = kept;
      std::sort(sorted.begin(), sorted.end());
      Interval interval = median_interval(sorted);
      result.converged = interval.high - interval.low <= kInterval * interval.median;
      if (result.converged) break;
    }
    if (now() - start > budget_seconds) break;
  }
  result.dropped = static_cast<int64_t>(doubtful.size());
  if (static_cast<int64_t>(kept.size()) < kMinimalSamples) {
    kept.insert(kept.end(), doubtful.begin(), doubtful.end());
    result.dropped = 0;
  }
  result.repeats = repeats;
  result.num_samples = static_cast<int64_t>(kept.size());
  std::copy(kept.begin(), kept.end(), result.samples.begin());
  std::sort(calibrations.begin(), calibrations.end());
  result.calibration = calibrations[calibrations.size() / 2];
  result.best_calibration = best;
}

void time_pair(const std::function<void()>& run_a, const std::function<void()>& run_b, double budget_seconds,
               WorkerResult& result) {
  double one_a = warm_up(run_a), one_b = warm_up(run_b);
  result.repeats = repeats_for(one_a);
  result.repeats_b = repeats_for(one_b);
  double start = now();
  int64_t count = 0;
  bool a_first = true;
  // Slow programs get up to ten times the budget for the pairs that a verdict needs.
  auto in_time = [&] {
    double elapsed = now() - start;
    return elapsed < budget_seconds || (count < kMinimalPairs && elapsed < 10 * budget_seconds);
  };
  while (count < kMaxSamples && (count == 0 || in_time())) {
    int64_t switches = preemptions();
    double a = 0, b = 0;
    if (a_first) a = sample(run_a, result.repeats);
    b = sample(run_b, result.repeats_b);
    if (!a_first) a = sample(run_a, result.repeats);
    a_first = !a_first;
    bool disturbed = preemptions() != switches;
    // On a machine that preempts all the time the disturbed pairs are all there is.
    if (disturbed && result.dropped < 4 * (count + 4)) {
      ++result.dropped;
      continue;
    }
    result.samples[static_cast<size_t>(count)] = a;
    result.samples_b[static_cast<size_t>(count)] = b;
    ++count;
  }
  result.num_samples = count;
}

}  // namespace tcc::measure
