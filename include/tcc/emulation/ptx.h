// A machine for PTX text: what NVRTC makes of the shipped source runs without a GPU, instruction strings, constraints
// and predicates included.
//
// Threads have their own program counters; those of a warp that are at the same instruction execute it together. Warps
// run in an order drawn from the seed. Blocks run one after another, or all at once when the launch is cooperative.
// Every access is checked: bounds, alignment, uses of values read from shared memory (and from buffers not marked
// defined) that nothing has written, data races by vector clocks over barriers, warp barriers, fences and atomics.
// Asynchronous copies arrive when the program waits for them, not earlier; their destinations are poison until then.
// Instructions of a whole warp need the lanes that their mask names. Barriers in shared memory, bulk tensor copies,
// products of warpgroups (wgmma), their proxy's fences, clusters and setmaxnreg are those of compute capability 9.0.
//
// Stricter than the hardware: an exited thread counts as missing at a barrier, and threads of one warp race unless a
// barrier or bar.warp.sync separates them. Approximations (ex2.approx, ...) are computed precisely and rounded.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/codegen/artifact.h"
#include "tcc/interp/interp.h"
#include "tcc/interp/tensor.h"
#include "tcc/support/result.h"

namespace tcc::emulation {

// Memory that kernels get a pointer to.
struct PtxBuffer {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  std::string name;
  bool writable = true;  // a store elsewhere is reported as out of bounds
  bool defined = true;   // false: what no thread has written is poison
};

struct PtxOptions {
  uint64_t seed = 1;  // order of warps
  bool check_races = true;
  // Thread instructions of one launch; 0: no limit. A launch whose first block shows that it needs more is not run on.
  int64_t max_instructions = 0;
  // Runs this many blocks of a launch, the first, the last and others drawn from the seed; 0: all. Not for cooperative
  // launches, which then run all blocks.
  int64_t max_blocks = 0;
  int max_findings = 32;  // distinct ones; more of the same instruction and kind are only counted
};

// steps: instructions of warps. Findings name the instruction's line in the PTX text.
struct PtxReport : interp::Report {
  int64_t instructions = 0;  // of threads
  int64_t blocks = 0;        // run
  int64_t all_blocks = 0;    // of the launches
  int64_t expected = 0;      // thread instructions that all blocks need, from those that ran
  // Where not all blocks ran: what was written, a flag for each byte, by buffer.
  std::vector<std::vector<bool>> written;
};

class PtxModule {
 public:
  std::vector<std::string> kernels() const;

  struct Impl;
  explicit PtxModule(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// Any text is safe to give. Errors (input): syntax, unknown names, and instructions that this machine does not have,
// each with its line.
Result<PtxModule> parse_ptx(std::string_view text);

// One launch. The kernel's parameters are 64-bit pointers to the buffers, in order, and then the launch's tensor maps:
// 128 bytes each, whose address means launch.tensor_maps[i] to bulk copies and which nothing else can read.
// Errors (input): no such kernel, another number of parameters, a block that the kernel does not allow.
Result<PtxReport> run_ptx(const PtxModule& module, const codegen::Launch& launch, std::span<const PtxBuffer> buffers,
                          const PtxOptions& options = {});

// All launches of an artifact of format PTX in order. One tensor per parameter buffer, in order, of its type and
// logical shape; outputs are written in place, inputs and weights are read-only, outputs and workspace undefined at
// first. With max_blocks and one launch only some blocks run: `written` then has a flag for each element of each
// parameter. Errors (input): no PTX, tensors that do not fit, and those of parse_ptx and run_ptx.
Result<PtxReport> run_artifact(const codegen::Artifact& artifact, std::span<interp::TensorData* const> params,
                               const PtxOptions& options = {});

}  // namespace tcc::emulation
