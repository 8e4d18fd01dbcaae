// In place of src/codegen/llvm where tcc is built without LLVM.
#include "tcc/codegen/llvm.h"

namespace tcc::codegen {
namespace {

tl::unexpected<Error> no_llvm() {
  return make_error(ErrorClass::kEnvironment, "no code for a CPU can be made: this tcc was built without LLVM",
                    "name a GPU, for example --target a100, or use a tcc that was built with LLVM");
}

}  // namespace

bool has_llvm() {
  return false;
}
Result<Artifact> compile_host(const ir::Kernel&, const target::Target&, const HostOptions&) {
  return no_llvm();
}
Result<std::shared_ptr<LoadedObject>> load_host(const Artifact&) {
  return no_llvm();
}
target::CpuFeatures used_features(const std::string&, const target::Target& target) {
  return target.cpu.features;
}
Result<std::string> emit_llvm_ir(const ir::Kernel&, const target::Target&) {
  return no_llvm();
}

}  // namespace tcc::codegen
