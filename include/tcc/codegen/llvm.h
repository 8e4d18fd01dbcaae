// Host code through LLVM: a Lowered kernel becomes an ELF object in memory, which can be loaded into this process or
// written to disk and linked into a library. LLVM's own headers stay inside the room.
#pragma once

#include <memory>
#include <string>

#include "tcc/codegen/artifact.h"
#include "tcc/ir/kernel.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::codegen {

struct HostOptions {
  std::string prefix = "kernel";  // symbols are tcc_<prefix>_<launch number>; [A-Za-z0-9_]
  bool want_ir = false;           // Artifact::source holds the optimized LLVM IR
  bool want_assembly = false;     // Artifact::source holds the assembly instead
  // LLVM vectorizes innermost loops where no result changes: for kernels without a schedule. What a schedule leaves
  // scalar stays scalar otherwise.
  bool vectorize = false;
};

// The function type of every host launch: iterations [begin, end) over `buffers` in the order of Artifact::buffers.
using HostFunction = void (*)(void* const* buffers, int64_t begin, int64_t end);

// False: tcc was built without LLVM, and everything here is an error that says so.
bool has_llvm();

// Compiles every launch of a kernel at Stage::Lowered (see lower/lower.h: one launch or a Seq of them, possibly inside
// one root Alloc of workspace buffers). A root-level Parallel loop of a launch is the launch's range; any other launch
// has extent 1. Facts: compile_seconds, emit_seconds, optimise_seconds, code_bytes, local_bytes (largest stack frame of
// local buffers), instructions (LLVM instructions before code generation), scalar_vector_loops (loops that the schedule
// vectorizes, and that are emitted as scalar code because all of their iterations store to one place).
// Errors (input): kernels with run-time scalars, distributed or shared scopes, instructions without an LLVM form or
// that the target lacks, and buffers of symbolic shape. Safe to call from several threads at once.
Result<Artifact> compile_host(const ir::Kernel& lowered, const target::Target& target, const HostOptions& options = {});

// An object loaded into this process. Symbols stay valid while it lives.
class LoadedObject {
 public:
  virtual ~LoadedObject() = default;
  // nullptr when the object does not define the symbol.
  virtual void* symbol(const std::string& name) const = 0;
  HostFunction function(const std::string& name) const { return reinterpret_cast<HostFunction>(symbol(name)); }
};

// Links artifact.code into fresh memory (code read-only and executable, data read-only). Only memcpy, memmove and
// memset may be referred to; any other undefined symbol is an error that names it.
Result<std::shared_ptr<LoadedObject>> load_host(const Artifact& artifact);

// The features of the target, a CPU, that the instructions of an object of compile_host need. All of the target's where
// an instruction is not known.
target::CpuFeatures used_features(const std::string& object, const target::Target& target);

// The LLVM IR of the kernel after the passes, for people.
Result<std::string> emit_llvm_ir(const ir::Kernel& lowered, const target::Target& target);

}  // namespace tcc::codegen
