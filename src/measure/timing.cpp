// Samples are means over enough back to back runs to stand clear of the clock. They come in groups, each between two
// runs of a calibration loop of fixed work: when that loop takes 5 % longer than its best time ever seen, the core was
// shared or throttled and the group is doubtful; so it is when the hypervisor gave the CPU to others meanwhile. A
// sample in which a thread was preempted is doubtful too. Doubtful samples count only where nothing else was to be had.
//
// A program whose first samples are all far behind the best known one is not timed further: that it loses is sure, and
// by how much is of no interest.
#include "measure/timing.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
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

// Follows the time that the hypervisor takes away, where the system tells.
class StealClock {
 public:
  explicit StealClock(std::span<const int32_t> cpus) : cpus_(cpus) {
    if (cpus.empty()) return;
    fd_ = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    text_.resize(4096 + 160 * (1 + static_cast<size_t>(*std::max_element(cpus.begin(), cpus.end()))));
    last_ = read();
  }
  ~StealClock() {
    if (fd_ >= 0) close(fd_);
  }
  StealClock(const StealClock&) = delete;
  StealClock& operator=(const StealClock&) = delete;

  // Was any taken since the last call?
  bool advanced() {
    int64_t before = last_;
    last_ = read();
    return last_ != before;
  }

 private:
  int64_t read() {
    if (fd_ < 0) return 0;
    ssize_t got = pread(fd_, text_.data(), text_.size(), 0);
    return got > 0 ? stolen_ticks({text_.data(), static_cast<size_t>(got)}, cpus_) : 0;
  }

  std::span<const int32_t> cpus_;
  std::string text_;
  int fd_ = -1;
  int64_t last_ = 0;
};

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

// The samples of one program, told apart by whether anything disturbed them.
struct Samples {
  std::vector<double> kept, doubtful;
  int64_t count() const { return static_cast<int64_t>(kept.size() + doubtful.size()); }

  bool converged() const {
    if (static_cast<int64_t>(kept.size()) < kMinimalSamples) return false;
    std::vector<double> sorted = kept;
    std::sort(sorted.begin(), sorted.end());
    Interval interval = median_interval(sorted);
    return interval.high - interval.low <= kInterval * interval.median;
  }
  // Disturbed samples say nothing here: each of the first must be undisturbed and far behind.
  bool clearly_slower(double best) const {
    if (best <= 0 || static_cast<int64_t>(kept.size()) < kFirstSamples) return false;
    return *std::min_element(kept.begin(), kept.end()) > kClearlySlower * best;
  }
  void give(WorkerResult& result, bool few_are_enough) {
    result.dropped = static_cast<int64_t>(doubtful.size());
    if (!few_are_enough && static_cast<int64_t>(kept.size()) < kMinimalSamples) {
      kept.insert(kept.end(), doubtful.begin(), doubtful.end());
      result.dropped = 0;
    }
    result.num_samples = static_cast<int64_t>(kept.size());
    std::copy(kept.begin(), kept.end(), result.samples.begin());
  }
};

}  // namespace

int64_t stolen_ticks(std::string_view stat, std::span<const int32_t> cpus) {
  constexpr int kStealField = 8;  // user nice system idle iowait irq softirq steal
  int64_t sum = 0;
  while (stat.starts_with("cpu")) {
    size_t end = std::min(stat.find('\n'), stat.size());
    std::string_view line = stat.substr(3, end - 3);
    stat.remove_prefix(std::min(end + 1, stat.size()));
    int64_t field[kStealField + 1] = {-1};
    const char *at = line.data(), *line_end = at + line.size();
    int count = 0;
    for (; count <= kStealField; ++count) {
      while (at < line_end && *at == ' ') ++at;
      auto [next, error] = std::from_chars(at, line_end, field[count]);
      if (error != std::errc()) break;
      at = next;
    }
    bool of_one = !line.starts_with(" ");  // the first line is of all CPUs together
    bool wanted = of_one && std::find(cpus.begin(), cpus.end(), field[0]) != cpus.end();
    if (wanted && count > kStealField) sum += field[kStealField];
  }
  return sum;
}

void time_program(const std::function<void()>& run, const TimingPlan& plan, WorkerResult& result) {
  // The checks have warmed a long run up already, and another one would cost as much as a sample.
  double one = plan.last_run_seconds > kLongRunSeconds ? plan.last_run_seconds : warm_up(run);
  result.repeats = repeats_for(one);
  double per_sample = one * static_cast<double>(result.repeats);
  auto full_group = std::clamp<int64_t>(static_cast<int64_t>(kGroupSeconds / per_sample), 1, kGroup);
  int64_t group = plan.best_seconds > 0 ? std::min(full_group, kFirstSamples) : full_group;
  Samples samples;
  std::vector<double> calibrations;
  StealClock steal(plan.cpus);
  double best = plan.best_calibration > 0 ? plan.best_calibration : calibrate();
  double start = now();
  double before = calibrate();
  while (samples.count() + group <= kMaxSamples) {
    std::vector<std::pair<double, bool>> fresh;
    for (int64_t i = 0; i < group; ++i) {
      int64_t switches = preemptions();
      double seconds = sample(run, result.repeats);
      fresh.emplace_back(seconds, preemptions() == switches);
    }
    double after = calibrate();
    calibrations.push_back(after);
    best = std::min({best, before, after});
    bool steady = std::max(before, after) <= best * kCalibrationSlack && !steal.advanced();
    before = after;
    for (auto [seconds, undisturbed] : fresh)
      (steady && undisturbed ? samples.kept : samples.doubtful).push_back(seconds);
    result.converged = samples.converged();
    result.cut_short = !result.converged && samples.clearly_slower(plan.best_seconds);
    if (result.converged || result.cut_short || now() - start > plan.budget_seconds) break;
    group = full_group;
  }
  samples.give(result, result.cut_short != 0);
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
