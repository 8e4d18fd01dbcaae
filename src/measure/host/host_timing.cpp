#include "measure/host/host_timing.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "tcc/support/check.h"
#include "tcc/support/descriptor.h"

namespace tcc::measure {
namespace {

constexpr double kWarmSeconds = 1e-3;
constexpr double kLongRunSeconds = 10e-3;  // the checks have warmed such a program up
constexpr TrialRules kTrials{.budget = 0.3, .patience = 0.5, .long_sample_seconds = 5e-3, .pauses = true};

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
    stat_ = Descriptor(open("/proc/stat", O_RDONLY | O_CLOEXEC));
    text_.resize(4096 + 160 * (1 + static_cast<size_t>(*std::max_element(cpus.begin(), cpus.end()))));
    last_ = read();
  }

  // Was any taken since the last call?
  bool advanced() {
    int64_t before = last_;
    last_ = read();
    return last_ != before;
  }

 private:
  int64_t read() {
    if (stat_.get() < 0) return 0;
    ssize_t got = pread(stat_.get(), text_.data(), text_.size(), 0);
    return got > 0 ? stolen_ticks({text_.data(), static_cast<size_t>(got)}, cpus_) : 0;
  }

  std::span<const int32_t> cpus_;
  std::string text_;
  Descriptor stat_;
  int64_t last_ = 0;
};

class TimedFunction : public TimedProgram {
 public:
  // Brings caches, branch predictors and the clock up, unless a long run has just done so: another one would cost as
  // much as a sample.
  TimedFunction(const HostRun& program, double last_run_seconds) : program_(program) {
    const double start = raw_seconds();
    run_seconds_ = last_run_seconds;
    if (last_run_seconds <= kLongRunSeconds) {
      do run_seconds_ = time(1);
      while (raw_seconds() - start < kWarmSeconds);
    }
    repeats_ =
        std::clamp<int64_t>(static_cast<int64_t>(std::ceil(kSampleSeconds / std::max(run_seconds_, 1e-8))), 1, 100000);
  }

  Result<Sample> sample() override {
    const int64_t switches = preemptions();
    const double seconds = time(repeats_);
    return Sample{seconds, preemptions() != switches};
  }

 private:
  double time(int64_t repeats) const {
    double start = raw_seconds(), aside = 0;
    for (int64_t i = 0; i < repeats; ++i) {
      if (program_.before) {
        const double begin = raw_seconds();
        program_.before();
        aside += raw_seconds() - begin;
      }
      program_.run();
    }
    return (raw_seconds() - start - aside) / static_cast<double>(repeats);
  }
  const HostRun& program_;
};

class HostWatch : public MachineWatch {
 public:
  HostWatch(const HostTiming& timing, std::span<const int32_t> cpus)
      : steal_(cpus), quiet_(timing.quiet, timing.everywhere) {}

  Result<Look> look() override {
    const double slowdown = quiet_.slowdown();
    return Look{slowdown, steal_.advanced(), quiet_.last_chain()};
  }
  const QuietTimes& best() const { return quiet_.best(); }

 private:
  StealClock steal_;
  QuietWatch quiet_;
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

void time_on_host(const HostRun& run, const HostTiming& timing, WorkerResult& result) {
  TimingPlan plan = timing.plan;
  plan.trial = kTrials;
  TimedFunction program(run, plan.last_run_seconds);
  HostWatch machine(timing, timing.cpus);
  TCC_CHECK(time_program(program, machine, plan, result).has_value(), "timing on the host cannot fail");
  result.quiet = machine.best();
}

// Both programs lose what is stolen, and reading it between all pairs would cost more than it tells.
void time_pair_on_host(const HostRun& run_a, const HostRun& run_b, const HostTiming& timing, WorkerResult& result) {
  TimedFunction a(run_a, 0), b(run_b, 0);
  HostWatch machine(timing, {});
  TCC_CHECK(time_pair(a, b, machine, timing.plan, result).has_value(), "timing on the host cannot fail");
  result.quiet = machine.best();
}

}  // namespace tcc::measure
