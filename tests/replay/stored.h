// Stored traces: one JSON file each in tests/replay/traces, stand-alone.
//   workload  the task, for people
//   target    a name that find_target() knows, then changes: "x86-64-v4 +amx_tile +amx_bf16", "h200 sm_count=2"
//   kernel    the task's plain kernel, lines of the text form
//   trace     as schedule::trace_to_json() printed it when the file was made
//   code      hash of the generated text: optimized LLVM IR, or the CUDA source with those functions of the prelude
//             that it calls
//   hashes    by which record files know the trace's skeleton, the plain kernel and its Nest kernel
//   covers    what the trace was chosen for
#pragma once

#include <string>
#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/schedule/trace.h"
#include "tcc/target/target.h"

namespace tcc::testing {

struct StoredTrace {
  std::string workload, target, kernel, trace, code, hashes;
  std::vector<std::string> covers;
};

std::string print_stored(const StoredTrace& stored);
Result<StoredTrace> read_stored(const std::string& path);

// Errors: an unknown name or change.
Result<target::Target> stored_target(const std::string& text);

struct Generated {
  ir::Kernel nest, lowered;
  std::string text;  // LLVM IR or CUDA source
};
// Replays, lowers and prints code. Errors name the step.
Result<Generated> generate_code(const ir::Kernel& start, const schedule::Trace& trace, const target::Target& target);

// Hashes of the skeleton, the plain kernel and its Nest kernel.
std::string hashes_of(const schedule::Trace& trace, const ir::Kernel& start, const ir::Kernel& nest);

// True where LLVM is part of the build, and for every GPU: CUDA source is printed without a device and without NVRTC.
bool can_generate(const target::Target& target);

}  // namespace tcc::testing
