// CUDA code: a Lowered kernel becomes CUDA C++ over a fixed prelude (no standard headers), which NVRTC turns straight
// into a cubin. NVRTC is opened at run time; nothing here needs a GPU.
#pragma once

#include <string>
#include <vector>

#include "tcc/codegen/artifact.h"
#include "tcc/ir/kernel.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::codegen {

struct CudaOptions {
  std::string prefix = "kernel";  // kernels are called tcc_<prefix>_<launch number>; [A-Za-z0-9_]
  std::string nvrtc_library;      // path of libnvrtc; "" = the system's, see nvrtc_version()
  int64_t max_registers = 0;      // per thread; 0 = what the launch's thread count leaves
  bool want_ptx = false;          // Artifact::format is kPtx, for people and for tests
  // Waits for barriers trap after this many nanoseconds, for code that is tried out; 0 = they wait for ever.
  int64_t wait_limit = 0;
};

struct CudaSource {
  std::string text;  // cuda_prelude() and one extern "C" kernel per launch
  std::vector<Launch> launches;
  std::vector<BufferInfo> buffers;  // what every launch takes, in order: parameters, then workspace
};

// The prelude, the same in front of every kernel: all that is printed for a kernel besides plain C++ is a name from it,
// and only it holds asm, a function for every row of the instruction table that has a PTX text.
const std::string& cuda_prelude();

// Prints a kernel at Stage::Lowered: one launch per statement of the root (possibly inside one root Alloc of workspace
// buffers). Bound loops become block and thread coordinates; a loop shorter than its axis is guarded. Vectorized loops
// become accesses of up to 16 bytes where the addresses are provably contiguous and aligned, else they are unrolled.
// Distinct parameters must not overlap in memory. Indices are 32-bit where every value provably fits.
// Errors (input): run-time scalars, symbolic extents of bound loops or buffers, scopes and instructions that have no
// CUDA form, shared memory or threads beyond the target.
Result<CudaSource> emit_cuda_source(const ir::Kernel& lowered, const target::Target& target,
                                    const CudaOptions& options = {});

// The text as Artifact::source, without code.
Artifact as_artifact(CudaSource source);

// emit_cuda_source, then NVRTC for the target's own architecture. Artifact::source is the CUDA text. Facts, the largest
// of all launches: registers, spill_bytes (stores and loads together), stack_bytes, shared_bytes (static and dynamic).
// How often ptxas notes a loss, over all launches: serialized_products (each wgmma is waited for), injected_waits (of
// wgmma), ignored_register_budgets (setmaxnreg). Further emit_seconds, compile_seconds, code_bytes, nvrtc_version
// (13.0). Errors: as emit_cuda_source; no NVRTC; an architecture that this toolkit does not compile, naming one that
// does; the compiler's log. Safe to call from several threads at once.
Result<Artifact> compile_cuda(const ir::Kernel& lowered, const target::Target& target, const CudaOptions& options = {});

// Whether NVRTC compiles code for the target. Errors (environment): no NVRTC; an architecture that this one does not
// compile, naming a toolkit that does.
Result<void> check_cuda_architecture(const target::Target& target, const std::string& nvrtc_library = {});

// "13.0", or why it is missing: tcc was built without nvrtc.h, or the library does not load. library "":
// libnvrtc.so.13, .12 and plain, by the loader's rules and then in /usr/local/cuda.
Result<std::string> nvrtc_version(const std::string& library = {});

}  // namespace tcc::codegen
