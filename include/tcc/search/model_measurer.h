// A measurer for a device that is not here: it compiles each program and answers with the time that the backend's prior
// expects. The records that come of it are predictions; nothing is run, checked or timed.
#pragma once

#include <functional>

#include "tcc/codegen/artifact.h"
#include "tcc/measure/measurement.h"
#include "tcc/search/search.h"
#include "tcc/support/parallel.h"

namespace tcc::search {

class ModelMeasurer : public measure::Measurer {
 public:
  using Compile = std::function<Result<codegen::Artifact>(const ir::Kernel& lowered)>;
  // Seconds that are expected of a program at Stage::Nest, compiled.
  using Expect = std::function<double(const ir::Kernel& nest, const codegen::Artifact&)>;
  // `isa`: what records call the instruction set. pool: compiles; nullptr = this thread does. Without `expect` the
  // compiler changes no expectation.
  ModelMeasurer(Compile compile, std::string isa, ThreadPool* pool, Expect expect = nullptr);

  measure::MeasurerTraits traits() const override;
  // What is expected of the compiled program, or Candidate::expected_seconds where the compiler told nothing about its
  // launches; longer by what the compiler spills. Errors: no compiler for this target.
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> candidates) override;

 private:
  double expected(const measure::Candidate& candidate, const codegen::Artifact& artifact) const;

  const Compile compile_;
  const Expect expect_;
  const std::shared_ptr<const measure::DeviceFacts> device_;
  ThreadPool* const pool_;
};

// `given` as a search with a ModelMeasurer runs it: one round of each task ranks about 2,400 programs by the backend's
// prior, and its `finalists` best are compiled. Where nothing is measured nothing adapts: moa-pruner ranks as pruner.
TuneOptions ranking_options(const TuneOptions& given, const target::Target& target, int64_t finalists);

// How much longer a program takes once the compiler has seen it. Stores and loads of spilled values come on top, in
// proportion to the registers that it has. Products of warpgroups that the compiler waits for one by one take twice the
// time: the tensor cores idle while operands and results move. Budgets of registers that it ignores leave the
// consumers what all threads have. 1: nothing of this, or nobody knows.
double compiler_factor(const codegen::Artifact& artifact);

}  // namespace tcc::search
