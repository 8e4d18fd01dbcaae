#include "driver/listing.h"

#include "tcc/codegen/llvm.h"

namespace tcc::driver {

Result<void> add_llvm_listing(search::ChosenArtifact& kernel, const target::Target& target, const std::string& prefix) {
  codegen::HostOptions options;
  options.prefix = prefix;
  options.want_ir = true;
  TCC_TRY(codegen::Artifact artifact, codegen::compile_host(kernel.program.lowered, target, options));
  kernel.artifact.source = std::move(artifact.source);
  return {};
}

}  // namespace tcc::driver
