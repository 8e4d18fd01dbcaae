#include "codegen/llvm/optimise.h"

#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/IndVarSimplify.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopRotation.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Vectorize/LoopVectorize.h>

#include <mutex>

#include "tcc/support/check.h"

namespace tcc::codegen {
namespace {

// EarlyCSE asks whether a store is between two equal loads, 500 times a function by default; then each store ends the
// life of all loads. The stores of one Winograd tile are more than that: its loads were made up to 13 times.
// Each link by lld gives all of LLVM's options their defaults again.
void look_past_stores() {
  constexpr unsigned kQuestions = 20000;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  static auto* const limit = [] {
    auto& options = llvm::cl::getRegisteredOptions();
    const auto found = options.find("earlycse-mssa-optimization-cap");
    return found == options.end() ? nullptr : static_cast<llvm::cl::opt<unsigned>*>(found->second);
  }();
  TCC_CHECK(limit != nullptr, "LLVM has no limit of EarlyCSE with this name");
  if (limit->getValue() != kQuestions) limit->setValue(kQuestions);
}

}  // namespace

void optimise(llvm::Module& module, llvm::TargetMachine& machine, bool vectorize) {
  look_past_stores();
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::ADCEPass());
  passes.addPass(llvm::SimplifyCFGPass());
  if (vectorize) {
    passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LoopRotatePass()));
    passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::IndVarSimplifyPass()));
    passes.addPass(llvm::LoopVectorizePass());
    passes.addPass(llvm::InstCombinePass());
    passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
    passes.addPass(llvm::SimplifyCFGPass());
  }
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) passes.run(f, functions);
}

}  // namespace tcc::codegen
