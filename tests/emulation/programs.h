// Programs of the GPU spaces through NVRTC and the PTX machine, for the tests.
#pragma once

#include <functional>

#include "emulation/support.h"
#include "nvrtc.h"
#include "skip.h"
#include "tcc/codegen/cuda.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/task/task.h"
#include "traces/reference.h"

namespace tcc::emulation::testing {

using tcc::testing::Reference;

inline target::Target gpu(const char* name) {
  auto t = target::find_target(name);
  REQUIRE(t.has_value());
  return *t;
}

inline codegen::Artifact compile(const ir::Kernel& lowered, const target::Target& target, const std::string& what) {
  codegen::CudaOptions options;
  options.want_ptx = true;
  auto artifact = codegen::compile_cuda(lowered, target, options);
  if (!artifact) FAIL(what << artifact.error().message << "\n" << ir::print(lowered));
  return *artifact;
}

inline PtxReport emulate(const codegen::Artifact& artifact, std::vector<interp::TensorData>& data, uint64_t seed,
                         const std::string& what) {
  std::vector<interp::TensorData*> pointers;
  for (interp::TensorData& d : data) pointers.push_back(&d);
  PtxOptions options;
  options.seed = seed;
  auto report = run_artifact(artifact, pointers, options);
  if (!report) FAIL(what << report.error().message << "\n" << artifact.source);
  return *report;
}

inline void check(const Reference& reference, const ir::Kernel& lowered, const target::Target& target,
                  const std::string& what, uint64_t seed) {
  const codegen::Artifact artifact = compile(lowered, target, what);
  std::vector<interp::TensorData> got = reference.inputs;
  const PtxReport report = emulate(artifact, got, seed, what);
  if (!report.ok()) FAIL(what << report.text() << artifact.code);
  const std::string wrong = reference.difference(got);
  if (!wrong.empty()) FAIL(what << wrong << "\n" << artifact.code);
}

// Draws `wanted` programs of each trace of a task's space that has `part` in its text and runs them; the number that
// ran. `seen` is told of each.
inline int64_t check_task(const task::Task& task, const target::Target& target, int wanted, uint64_t seed,
                          const std::string& part = "", double tolerance = 1e-4,
                          const std::function<void(const ir::Kernel&, const schedule::Trace&)>& seen = nullptr) {
  const Reference reference(task.kernel, tolerance);
  Rng rng(seed);
  int64_t ran = 0;
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target)) {
    if (schedule::print_trace(trace).find(part) == std::string::npos) continue;
    std::vector<int64_t> decisions = trace.decisions;
    int done = 0;
    for (int draw = 0; draw < 12 * wanted && done < (trace.instructions.empty() ? 1 : wanted); ++draw) {
      auto arena = std::make_shared<Arena>();
      auto scheduled = draw == 0 ? schedule::replay(trace, decisions, task.kernel, arena)
                                 : schedule::sample(trace, decisions, task.kernel, arena, rng);
      if (!scheduled) continue;
      auto lowered = lower::lower(*scheduled, target, ir::Stage::kLowered, arena);
      if (!lowered) continue;
      schedule::Trace shown = trace;
      shown.decisions = decisions;
      check(reference, *lowered, target,
            fmt::format("{} on {}\n{}", task.workload, target.name, schedule::print_trace(shown)),
            static_cast<uint64_t>(draw) + 1);
      if (seen) seen(*lowered, shown);
      ++done, ++ran;
    }
  }
  return ran;
}

inline bool skipped() {
  if (codegen::nvrtc_available()) return false;
  tcc::testing::report_skip("no NVRTC");
  return true;
}

}  // namespace tcc::emulation::testing
