// A measurer without a machine: times are a pure function of the program's hash. For tests, and for proving that an
// interrupted search goes on exactly as an uninterrupted one would.
#pragma once

#include <functional>

#include "tcc/measure/measurement.h"
#include "tcc/support/hash.h"
#include "tcc/support/rng.h"

namespace tcc::measure {

class FakeMeasurer : public Measurer {
 public:
  // seed chooses among fake machines. `failing_share` of the programs are called wrong, chosen by hash.
  explicit FakeMeasurer(uint64_t seed = 0, double failing_share = 0) : seed_(seed), failing_share_(failing_share) {}
  // Times from a function of the candidate instead, in seconds.
  explicit FakeMeasurer(std::function<double(const Candidate&)> seconds) : seconds_(std::move(seconds)) {}

  Result<std::vector<Measurement>> measure(std::span<const Candidate> candidates) override {
    std::vector<Measurement> results;
    for (const Candidate& candidate : candidates) {
      ++measured_;
      Measurement m;
      m.id = candidate.id;
      m.code = combine_hash(candidate.nest_hash, 0x636f6465);
      // Everything follows from (seed, nest), so the order and the number of calls do not matter.
      Rng rng(combine_hash(seed_, candidate.nest_hash));
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
  int64_t measured() const { return measured_; }

 private:
  uint64_t seed_ = 0;
  double failing_share_ = 0;
  std::function<double(const Candidate&)> seconds_;
  int64_t measured_ = 0;
};

}  // namespace tcc::measure
