// A sample is a pair of events around several launches, each over a copy of the parameters that nothing has touched
// since the second-level cache was emptied: every launch reads its inputs from memory, as it does where another kernel
// of a network ran before, and no launch waits for the host. Short programs are launched as one graph, because
// launching them one by one takes longer than they run.
//
// Samples come in groups, each between two looks at the clock. Those beside a slower clock, or while the device says
// that heat or its power supply slows it down, are doubtful: they count only where nothing else was to be had, and then
// by their fastest tenth. A program whose first samples are all far behind the best of its task is not timed further.
#include "measure/gpu_timing.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "measure/samples.h"
#include "measure/timing.h"
#include "tcc/support/files.h"

namespace tcc::measure {
namespace {

constexpr double kSampleSeconds = 100e-6;
constexpr double kWarmSeconds = 2e-3;
constexpr double kGroupSeconds = 5e-3;
constexpr int64_t kGroup = 8;

// A program ready for samples.
class Sampler {
 public:
  static Result<Sampler> make(const DeviceProgram& program, const DeviceTiming& timing) {
    Sampler s;
    s.program_ = &program;
    s.timing_ = &timing;
    runtime::CudaDevice& device = timing.device;
    Stopwatch watch;
    do {
      TCC_TRY(s.once_, device.time(1, [&] { return program.launch(0); }));
    } while (watch.seconds() < kWarmSeconds);
    s.repeats_ = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(kSampleSeconds / std::max(s.once_, 1e-7))), 1,
                                     program.copies);
    if (s.repeats_ > 1) {
      TCC_TRY(s.graph_, device.record([&] { return s.launch_all(); }));
      if (s.graph_) TCC_TRY_VOID(s.graph_->launch());  // the first launch uploads it
    }
    return s;
  }

  // Seconds of one run.
  Result<double> sample() {
    runtime::CudaDevice& device = timing_->device;
    TCC_TRY_VOID(timing_->flush.enqueue(device));
    TCC_TRY(const double seconds, device.time(1, [&] { return graph_ ? graph_->launch() : launch_all(); }));
    return seconds / static_cast<double>(repeats_);
  }
  int64_t repeats() const { return repeats_; }
  double sample_seconds() const { return once_ * static_cast<double>(repeats_); }

 private:
  Result<void> launch_all() const {
    for (int64_t i = 0; i < repeats_; ++i) TCC_TRY_VOID(program_->launch(i));
    return {};
  }
  const DeviceProgram* program_ = nullptr;
  const DeviceTiming* timing_ = nullptr;
  std::unique_ptr<runtime::CudaGraph> graph_;
  double once_ = 0;
  int64_t repeats_ = 1;
};

}  // namespace

Result<CacheFlush> CacheFlush::make(runtime::CudaDevice& device) {
  constexpr int64_t kLeast = 1 << 20;
  CacheFlush flush;
  TCC_TRY(flush.memory_, device.allocate(std::max(2 * device.facts().l2_bytes, kLeast)));
  return flush;
}
Result<void> CacheFlush::enqueue(runtime::CudaDevice& device) const {
  return device.fill(memory_, 0);
}

Result<void> time_on_device(const DeviceProgram& program, const DeviceTiming& timing, WorkerResult& result) {
  TCC_TRY(Sampler sampler, Sampler::make(program, timing));
  result.repeats = sampler.repeats();
  const auto full_group =
      std::clamp<int64_t>(static_cast<int64_t>(kGroupSeconds / std::max(sampler.sample_seconds(), 1e-7)), 1, kGroup);
  int64_t group = timing.best_seconds > 0 ? std::min(full_group, kFirstSamples) : full_group;
  Samples samples;
  std::vector<double> chains;
  TCC_TRY(runtime::CudaClock::Look before, timing.clock.look());
  Stopwatch watch;
  do {
    std::vector<double> fresh;
    for (int64_t i = 0; i < group; ++i) {
      TCC_TRY(const double seconds, sampler.sample());
      fresh.push_back(seconds);
    }
    TCC_TRY(const runtime::CudaClock::Look after, timing.clock.look());
    chains.push_back(after.calibration);
    for (double seconds : fresh)
      samples.add(seconds, std::max(before.slowdown, after.slowdown), before.throttled || after.throttled);
    before = after;
    group = full_group;
    result.converged = samples.converged();
    result.cut_short = !result.converged && samples.clearly_slower(timing.best_seconds);
    if (result.converged || result.cut_short || samples.count() + group > kMaxSamples) break;
  } while (watch.seconds() < timing.budget_seconds ||
           (samples.kept() < kMinimalSamples && samples.may_win(timing.best_seconds) &&
            watch.seconds() < timing.patience_seconds));
  samples.give(result);
  std::sort(chains.begin(), chains.end());
  result.calibration = chains[chains.size() / 2];
  return {};
}

Result<void> time_pair_on_device(const DeviceProgram& a, const DeviceProgram& b, const DeviceTiming& timing,
                                 WorkerResult& result) {
  TCC_TRY(Sampler sampler_a, Sampler::make(a, timing));
  TCC_TRY(Sampler sampler_b, Sampler::make(b, timing));
  result.repeats = sampler_a.repeats();
  result.repeats_b = sampler_b.repeats();
  Stopwatch watch;
  int64_t count = 0;
  bool a_first = true;
  TCC_TRY(runtime::CudaClock::Look before, timing.clock.look());
  // Slow programs get up to ten times the budget for the pairs that a verdict needs.
  auto in_time = [&] {
    return watch.seconds() < timing.budget_seconds ||
           (count < kMinimalPairs && watch.seconds() < 10 * timing.budget_seconds);
  };
  while (count < kMaxSamples && (count == 0 || in_time())) {
    TCC_TRY(const double first, (a_first ? sampler_a : sampler_b).sample());
    TCC_TRY(const double second, (a_first ? sampler_b : sampler_a).sample());
    TCC_TRY(const runtime::CudaClock::Look after, timing.clock.look());
    const bool doubtful =
        std::max(before.slowdown, after.slowdown) > kQuietSlack || before.throttled || after.throttled;
    before = after;
    if (doubtful && watch.seconds() < timing.patience_seconds) {
      ++result.dropped;
      continue;
    }
    result.samples[static_cast<size_t>(count)] = a_first ? first : second;
    result.samples_b[static_cast<size_t>(count)] = a_first ? second : first;
    a_first = !a_first;
    ++count;
  }
  result.num_samples = count;
  return {};
}

}  // namespace tcc::measure
