// The pass list between emission and LLVM's code generator. A unit of its own: PassBuilder's headers are slow to
// compile.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace tcc::codegen {

// Register tiles become SSA values, common addresses are shared and hoisted, and invariant memory (accumulators of
// reductions in place) is kept in registers across loops. No unrolling or inlining, and no vectorizing unless
// `vectorize` says so: schedules decide those.
void optimise(llvm::Module& module, llvm::TargetMachine& machine, bool vectorize);

}  // namespace tcc::codegen
