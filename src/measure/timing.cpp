#include "measure/timing.h"

#include <algorithm>
#include <vector>

#include "measure/samples.h"
#include "tcc/support/files.h"

namespace tcc::measure {
namespace {

constexpr double kGroupSeconds = 5e-3;
constexpr int64_t kGroup = 8;
constexpr int64_t kTrialSamples = 3;
// A long run for checking that took this many times the best's time, and more than the machine's slowdown explains, is
// the only sample. It found other data in the caches, which a factor of two and such a length do not leave in doubt.
constexpr double kFarSlower = 2;
constexpr double kLongRunSeconds = 10e-3;

}  // namespace

Result<void> time_program(TimedProgram& program, MachineWatch& machine, const TimingPlan& plan, WorkerResult& result) {
  result.repeats = program.repeats();
  const double per_sample = std::max(program.sample_seconds(), 1e-7);
  const auto full_group = std::clamp<int64_t>(static_cast<int64_t>(kGroupSeconds / per_sample), 1, kGroup);
  int64_t group = plan.best_seconds > 0 ? std::min(full_group, kFirstSamples) : full_group;
  const bool trial = plan.best_seconds > 0;
  const bool brief = trial && per_sample > plan.trial.long_sample_seconds;
  const int64_t needed = brief ? kTrialSamples : kMinimalSamples;
  const double whole = plan.budget_seconds, few = kTrialSamples * per_sample;
  const double budget = !trial ? whole : brief ? std::min(whole, few) : plan.trial.budget * whole;
  const double patience =
      trial ? std::min(plan.patience_seconds, brief ? few : plan.trial.patience * whole) : plan.patience_seconds;
  Samples samples;
  std::vector<double> chains;
  const Stopwatch watch;
  TCC_TRY(MachineWatch::Look before, machine.look());
  const bool far = trial && plan.last_run_seconds > kLongRunSeconds &&
                   plan.last_run_seconds > kFarSlower * before.slowdown * plan.best_seconds;
  if (far) {
    samples.add(plan.last_run_seconds, before.slowdown, false);
    chains.push_back(before.calibration);
    result.cut_short = 1;
  }
  while (!far) {
    const bool pause = plan.trial.pauses && before.slowdown > kQuietSlack && samples.disturbed() >= kMinimalSamples;
    std::vector<Sample> fresh;
    for (int64_t i = 0; i < group && !pause; ++i) {
      TCC_TRY(const Sample sample, program.sample());
      fresh.push_back(sample);
    }
    TCC_TRY(const MachineWatch::Look after, machine.look());
    for (const Sample& s : fresh)
      samples.add(s.seconds, std::max(before.slowdown, after.slowdown), s.interrupted || after.interrupted);
    before = after;
    if (!pause) {
      chains.push_back(after.calibration);
      group = full_group;
    }
    result.converged = samples.converged();
    result.cut_short = !result.converged && samples.clearly_slower(plan.best_seconds);
    if (result.converged || result.cut_short || samples.kept() + group > kMaxSamples) break;
    if (brief && samples.kept() >= needed) break;
    const double elapsed = watch.seconds();
    const bool waits = samples.kept() < needed && samples.may_win(plan.best_seconds) && elapsed < patience;
    if (elapsed >= budget && !waits) break;
  }
  samples.give(result);
  std::sort(chains.begin(), chains.end());
  result.calibration = chains[chains.size() / 2];
  return {};
}

Result<void> time_pair(TimedProgram& a, TimedProgram& b, MachineWatch& machine, const TimingPlan& plan,
                       WorkerResult& result) {
  result.repeats = a.repeats();
  result.repeats_b = b.repeats();
  const Stopwatch watch;
  double waited = 0;
  TCC_TRY(MachineWatch::Look before, machine.look());
  int64_t count = 0;
  bool a_first = true;
  auto in_time = [&] {
    const double elapsed = watch.seconds() - waited;
    return elapsed < plan.budget_seconds || (count < kMinimalPairs && elapsed < kMaxPairBudgets * plan.budget_seconds);
  };
  while (count < kMaxSamples && (count == 0 || in_time())) {
    const double begin = watch.seconds();
    const bool patient = waited < plan.patience_seconds;
    if (before.slowdown > kQuietSlack && patient) {
      TCC_TRY(before, machine.look());
      waited += watch.seconds() - begin;
      continue;
    }
    TCC_TRY(const Sample first, (a_first ? a : b).sample());
    TCC_TRY(const Sample second, (a_first ? b : a).sample());
    TCC_TRY(const MachineWatch::Look after, machine.look());
    const bool noisy = std::max(before.slowdown, after.slowdown) > kQuietSlack || after.interrupted;
    const bool interrupted = first.interrupted || second.interrupted;
    before = after;
    if (noisy && patient) waited += watch.seconds() - begin;
    // On a machine that interrupts all the time the interrupted pairs are all there is.
    if ((noisy && patient) || (interrupted && result.dropped < 4 * (count + 4))) {
      ++result.dropped;
      continue;
    }
    result.samples[static_cast<size_t>(count)] = (a_first ? first : second).seconds;
    result.samples_b[static_cast<size_t>(count)] = (a_first ? second : first).seconds;
    a_first = !a_first;
    ++count;
  }
  result.num_samples = count;
  return {};
}

}  // namespace tcc::measure
