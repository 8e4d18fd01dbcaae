// A measurer on a simulated GPU (tcc/simulation/multiprocessor.h). It times thousands of programs a minute, for studies
// of searches and cost models on machines without a device. It compiles and checks nothing.
#pragma once

#include "tcc/measure/measurement.h"
#include "tcc/simulation/multiprocessor.h"
#include "tcc/support/parallel.h"
#include "tcc/target/target.h"

namespace tcc::measure {

class SimulatedMeasurer : public Measurer {
 public:
  static constexpr double kNoise = 0.02;  // standard deviation of a sample's logarithm

  // `target.cuda.simulated` is the machine's seed. pool: simulates; nullptr = this thread does.
  SimulatedMeasurer(const target::Target& target, ThreadPool* pool, double noise = kNoise);

  MeasurerTraits traits() const override;
  // The samples of a program depend on the program, the machine and nothing else. A program that does not fit the
  // machine is rejected.
  Result<std::vector<Measurement>> measure(std::span<const Candidate> candidates) override;
  std::vector<std::string> notes() const override;

 private:
  Measurement measure_one(const Candidate& candidate) const;

  const target::Target target_;
  const simulation::Machine machine_;
  const std::shared_ptr<const DeviceFacts> device_;
  ThreadPool* const pool_;
  const double noise_;
};

}  // namespace tcc::measure
