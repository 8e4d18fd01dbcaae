#include "tcc/measure/fake.h"

#include "tcc/support/hash.h"
#include "tcc/support/rng.h"

namespace tcc::measure {

Result<std::vector<Measurement>> FakeMeasurer::measure(std::span<const Candidate> candidates) {
  std::vector<Measurement> results;
  for (const Candidate& candidate : candidates) {
    ++measured_;
    Measurement m;
    m.id = candidate.id;
    m.code = combine_hash(candidate.nest, 0x636f6465);
    // Everything follows from (seed, nest), so the order and the number of calls do not matter.
    Rng rng(combine_hash(seed_, candidate.nest));
    if (rng.uniform() < failing_share_) {
      m.status = record::Status::kWrong;
      m.failure = "the fake machine calls this program wrong";
      results.push_back(std::move(m));
      continue;
    }
    double seconds = seconds_ ? seconds_(candidate) : 1e-4 * (1 + 9 * rng.uniform());
    for (int i = 0; i < 9; ++i) m.samples.push_back(seconds * (1 + 0.001 * (i - 4)));
    m.repeats = 1;
    m.median = seconds;
    m.low = m.samples[1];
    m.high = m.samples[7];
    m.converged = true;
    m.calibration = 1e-4;
    m.gate = "exact";
    results.push_back(std::move(m));
  }
  return results;
}

}  // namespace tcc::measure
