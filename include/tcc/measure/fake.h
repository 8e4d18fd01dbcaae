// A measurer without a machine: times are a pure function of the program's hash. For tests, and for proving that an
// interrupted search goes on exactly as an uninterrupted one would.
#pragma once

#include <functional>

#include "tcc/measure/measurement.h"

namespace tcc::measure {

class FakeMeasurer : public Measurer {
 public:
  // seed chooses among fake machines. `failing_share` of the programs are called wrong, chosen by hash.
  explicit FakeMeasurer(uint64_t seed = 0, double failing_share = 0) : seed_(seed), failing_share_(failing_share) {}
  // Times from a function of the candidate instead, in seconds.
  explicit FakeMeasurer(std::function<double(const Candidate&)> seconds) : seconds_(std::move(seconds)) {}

  Result<std::vector<Measurement>> measure(std::span<const Candidate> candidates) override;
  int64_t measured() const { return measured_; }

 private:
  uint64_t seed_ = 0;
  double failing_share_ = 0;
  std::function<double(const Candidate&)> seconds_;
  int64_t measured_ = 0;
};

}  // namespace tcc::measure
