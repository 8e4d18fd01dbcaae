// How the double-precision reference of a task is run, wherever one is needed: as machine code where this tcc can make
// it, by the interpreter where it was built without LLVM. Both run the same naive kernel and add in the same order; the
// interpreter is 25 to 45 times slower on a thread, so less is asked of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tcc/codegen/artifact.h"
#include "tcc/interp/tensor.h"
#include "tcc/ir/kernel.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::measure {

enum class ReferenceEngine {
  kBest,  // machine code where it can be made
  kMachineCode,
  kInterpreter,
};
// What kBest stands for here.
ReferenceEngine resolve_engine(ReferenceEngine engine);
// What is asked of the engine where `flops` are asked of machine code: a twentieth of the interpreter.
double affordable_flops(double flops, ReferenceEngine engine);

struct ReferenceOptions {
  ReferenceEngine engine = ReferenceEngine::kBest;
  int threads = 1;
  // Machine code runs the last spatial loop of a reduction inside it, so that large contractions walk memory in order.
  bool reorder = true;
  // The interpreter's, of each thread and each loop nest: some ten minutes. What takes more is refused.
  int64_t max_iterations = 30'000'000'000;
};

class ReferenceProgram {
 public:
  // `f64_kernel`: Stage::Built, no scalar parameters; see to_double. `cpu`: what machine code is for.
  // Errors: the kernel does not lower or compile.
  static Result<ReferenceProgram> compile(const ir::Kernel& f64_kernel, const target::Target& cpu,
                                          const ReferenceOptions& options);
  // For who runs machine code in a process of its own; nullptr: it is interpreted.
  const codegen::Artifact* artifact() const { return artifact_ ? &*artifact_ : nullptr; }

  // In this process. One tensor for each parameter of the kernel, in order; outputs are overwritten.
  // Errors: no memory; the interpreter finds the kernel at fault, or too long.
  Result<void> run(std::span<interp::TensorData> params) const;

 private:
  struct Interpreted;
  ReferenceProgram() = default;
  Result<void> interpret(std::span<interp::TensorData> params) const;
  Result<void> execute(std::span<interp::TensorData> params) const;

  std::optional<codegen::Artifact> artifact_;
  std::shared_ptr<const Interpreted> interpreted_;
  ReferenceOptions options_;
};

}  // namespace tcc::measure
