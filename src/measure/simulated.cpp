#include "tcc/measure/simulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tcc/support/hash.h"
#include "tcc/support/rng.h"

namespace tcc::measure {
namespace {

constexpr int64_t kAtOnce = 16;
constexpr int kSamples = 5;

}  // namespace

SimulatedMeasurer::SimulatedMeasurer(const target::Target& target, ThreadPool* pool, double noise)
    : target_(target),
      machine_(simulation::draw_machine(static_cast<uint64_t>(target.cuda.simulated))),
      device_(std::make_shared<DeviceFacts>(
          DeviceFacts{fmt::format("{}, simulated with seed {}", target::sm_name(target), target.cuda.simulated),
                      target::target_to_json(target)})),
      pool_(pool),
      noise_(noise) {}

MeasurerTraits SimulatedMeasurer::traits() const {
  return {.kind = record::Kind::kSimulated, .at_once = kAtOnce, .compares = false};
}

Measurement SimulatedMeasurer::measure_one(const Candidate& candidate) const {
  Measurement m;
  m.id = candidate.id;
  m.device = device_;
  m.code = ir::hash_kernel(candidate.kernel);
  const Result<simulation::Run> run = simulation::simulate(candidate.kernel, target_, machine_);
  if (!run) {
    m.status = record::Status::kRejected;
    m.failure = run.error().message;
    return m;
  }
  Rng rng(combine_hash(m.code, static_cast<uint64_t>(target_.cuda.simulated)));
  for (int i = 0; i < kSamples; ++i) m.samples.push_back(run->seconds * std::exp(noise_ * rng.normal()));
  std::vector<double> sorted = m.samples;
  std::sort(sorted.begin(), sorted.end());
  const Interval interval = median_interval(sorted);
  m.median = interval.median, m.low = interval.low, m.high = interval.high;
  m.converged = true;
  m.repeats = 1;
  return m;
}

Result<std::vector<Measurement>> SimulatedMeasurer::measure(std::span<const Candidate> candidates) {
  std::vector<Measurement> out(candidates.size());
  parallel_for(pool_, std::ssize(candidates),
               [&](int64_t i) { out[static_cast<size_t>(i)] = measure_one(candidates[static_cast<size_t>(i)]); });
  return out;
}

std::vector<std::string> SimulatedMeasurer::notes() const {
  return {fmt::format("times are those of a simulated {} (seed {}); tcc builds nothing from them", target_.name,
                      target_.cuda.simulated)};
}

}  // namespace tcc::measure
