// Samples are means over enough back to back runs to stand clear of the clock. They come in groups, each between two
// looks at the machine (quiet.h). A group is doubtful when either look found the machine slower than it can be, or when
// the hypervisor gave the CPU to others meanwhile; so is a sample in which a thread was preempted. After a few doubtful
// ones a quiet moment is waited for: up to the budget, and longer where the program may be the best of its task.
// Doubtful samples count only where nothing else was to be had, and then by their fastest tenth: disturbances add time
// and never take any away.
//
// A program whose samples are all behind the best known one is not timed further, the sooner the further behind: that
// it loses is sure, and by how much is of no interest.
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

#include "measure/samples.h"

namespace tcc::measure {
namespace {

constexpr double kSampleSeconds = 100e-6;
constexpr double kWarmSeconds = 1e-3;
constexpr double kLongRunSeconds = 10e-3;
constexpr double kGroupSeconds = 5e-3;
constexpr int64_t kGroup = 8;
// Of a program that is one among many, and is timed again should it be among the fastest: of long runs few samples are
// taken, and a quiet moment is not waited for longer than that.
constexpr double kLongSampleSeconds = 5e-3;
constexpr int64_t kTrialSamples = 3;
constexpr double kTrialBudget = 0.3, kTrialPatience = 0.5;  // of short runs, in budgets
// A long run for checking that took this many times the best's time, and more than the machine's slowdown explains, is
// the only sample. It found other data in the caches, which a factor of two and such a length do not leave in doubt.
constexpr double kFarSlower = 2;

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
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
  const bool trial = plan.best_seconds > 0;
  const bool brief = trial && per_sample > kLongSampleSeconds;
  const int64_t needed = brief ? kTrialSamples : kMinimalSamples;
  const double whole = plan.budget_seconds, few = kTrialSamples * per_sample;
  const double budget = !trial ? whole : brief ? std::min(whole, few) : kTrialBudget * whole;
  const double patience =
      trial ? std::min(plan.patience_seconds, brief ? few : kTrialPatience * whole) : plan.patience_seconds;
  Samples samples;
  std::vector<double> chains;
  StealClock steal(plan.cpus);
  QuietWatch machine(plan.quiet, plan.everywhere);
  double start = now(), before = machine.slowdown();
  const bool far = trial && plan.last_run_seconds > kLongRunSeconds &&
                   plan.last_run_seconds > kFarSlower * before * plan.best_seconds;
  if (far) {
    samples.add(plan.last_run_seconds, before, false);
    chains.push_back(machine.last_chain());
    result.cut_short = 1;
  }
  while (!far) {
    if (before > kQuietSlack && samples.disturbed() >= kMinimalSamples) {  // noise has no more to say
      before = machine.slowdown();
      (void)steal.advanced();
    } else {
      std::vector<std::pair<double, bool>> fresh;
      for (int64_t i = 0; i < group; ++i) {
        int64_t switches = preemptions();
        double seconds = sample(run, result.repeats);
        fresh.emplace_back(seconds, preemptions() != switches);
      }
      double after = machine.slowdown();
      chains.push_back(machine.last_chain());
      bool stolen = steal.advanced();
      for (auto [seconds, preempted] : fresh) samples.add(seconds, std::max(before, after), preempted || stolen);
      before = after;
      group = full_group;
    }
    result.converged = samples.converged();
    result.cut_short = !result.converged && samples.clearly_slower(plan.best_seconds);
    if (result.converged || result.cut_short || samples.kept() + group > kMaxSamples) break;
    if (brief && samples.kept() >= needed) break;
    const double elapsed = now() - start;
    const bool waits = samples.kept() < needed && samples.may_win(plan.best_seconds) && elapsed < patience;
    if (elapsed >= budget && !waits) break;
  }
  samples.give(result);
  std::sort(chains.begin(), chains.end());
  result.calibration = chains[chains.size() / 2];
  result.quiet = machine.best();
}

void time_pair(const std::function<void()>& run_a, const std::function<void()>& run_b, const TimingPlan& plan,
               WorkerResult& result) {
  double one_a = warm_up(run_a), one_b = warm_up(run_b);
  result.repeats = repeats_for(one_a);
  result.repeats_b = repeats_for(one_b);
  QuietWatch machine(plan.quiet, plan.everywhere);
  const double start = now();
  double waited = 0, before = machine.slowdown();
  int64_t count = 0;
  bool a_first = true;
  // Slow programs get up to ten times the budget for the pairs that a verdict needs.
  auto in_time = [&] {
    double elapsed = now() - start - waited;
    return elapsed < plan.budget_seconds || (count < kMinimalPairs && elapsed < 10 * plan.budget_seconds);
  };
  while (count < kMaxSamples && (count == 0 || in_time())) {
    const double begin = now();
    bool patient = waited < plan.patience_seconds;
    if (before > kQuietSlack && patient) {
      before = machine.slowdown();
      waited += now() - begin;
      continue;
    }
    int64_t switches = preemptions();
    double a = 0, b = 0;
    if (a_first) a = sample(run_a, result.repeats);
    b = sample(run_b, result.repeats_b);
    if (!a_first) a = sample(run_a, result.repeats);
    bool preempted = preemptions() != switches;
    double after = machine.slowdown();
    bool noisy = std::max(before, after) > kQuietSlack;
    before = after;
    if (noisy && patient) waited += now() - begin;
    // On a machine that preempts all the time the disturbed pairs are all there is.
    if ((noisy && patient) || (preempted && result.dropped < 4 * (count + 4))) {
      ++result.dropped;
      continue;
    }
    a_first = !a_first;
    result.samples[static_cast<size_t>(count)] = a;
    result.samples_b[static_cast<size_t>(count)] = b;
    ++count;
  }
  result.num_samples = count;
  result.quiet = machine.best();
}

}  // namespace tcc::measure
