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
  // `isa`: what records call the instruction set. pool: compiles; nullptr = this thread does.
  ModelMeasurer(Compile compile, std::string isa, ThreadPool* pool);

  measure::MeasurerTraits traits() const override;
  // Candidate::expected_seconds, longer by what the compiler spills. Errors: no compiler for this target.
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> candidates) override;

 private:
  const Compile compile_;
  const std::shared_ptr<const measure::DeviceFacts> device_;
  ThreadPool* const pool_;
};

// `given` as a search with a ModelMeasurer runs it: one round of each task ranks about 2,400 programs by the backend's
// prior, and its `finalists` best are compiled.
TuneOptions ranking_options(const TuneOptions& given, const target::Target& target, int64_t finalists);

// How much longer a program takes once the compiler has seen it. Stores and loads of spilled values come on top, in
// proportion to the registers that it has. Products of warpgroups that the compiler waits for one by one take twice the
// time: the tensor cores idle while operands and results move. Budgets of registers that it ignores leave the
// consumers what all threads have. 1: nothing of this, or nobody knows.
double compiler_factor(const codegen::Artifact& artifact);

}  // namespace tcc::search
