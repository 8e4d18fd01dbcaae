// A machine as the benchmarks use it: references that are made once serve several searches.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tcc/measure/measurement.h"

namespace tcc::benchmarks {

class BenchMeasurer : public measure::Measurer {
 public:
  using Prepare = std::function<Result<std::shared_ptr<const measure::MeasureTask>>(const ir::Kernel&)>;

  // prepare: inputs and references of a task; empty: those of the machine. compares: whether finalists meet in pairs.
  BenchMeasurer(measure::Measurer& machine, Prepare prepare, bool compares = true)
      : machine_(machine), prepare_(std::move(prepare)), compares_(compares) {}

  measure::MeasurerTraits traits() const override {
    measure::MeasurerTraits traits = machine_.traits();
    traits.compares = traits.compares && compares_;
    return traits;
  }
  Result<std::shared_ptr<const measure::MeasureTask>> prepare(const ir::Kernel& naive,
                                                              const target::Target& target) override {
    return prepare_ ? prepare_(naive) : machine_.prepare(naive, target);
  }
  void compile(std::span<measure::Candidate> candidates) override { machine_.compile(candidates); }
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> candidates) override {
    return machine_.measure(candidates);
  }
  Result<measure::PairedComparison> compare(const measure::Candidate& a, const measure::Candidate& b,
                                            measure::PairAim aim) override {
    return machine_.compare(a, b, aim);
  }
  std::vector<std::string> notes() const override { return machine_.notes(); }

 private:
  measure::Measurer& machine_;
  const Prepare prepare_;
  const bool compares_;
};

}  // namespace tcc::benchmarks
