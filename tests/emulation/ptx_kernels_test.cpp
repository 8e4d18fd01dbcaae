// NVRTC's PTX of real kernels computes what the naive kernel does, without a finding: programs of the GPU spaces over
// small tasks, and the hand-written kernels. And the same kernels damaged are reported.
#include <cstdlib>

#include "emulation/support.h"
#include "tcc/codegen/cuda.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/support/files.h"
#include "traces/reference.h"
#include "traces/task_shapes.h"

using namespace tcc;
using namespace tcc::emulation;
using namespace tcc::emulation::testing;
using tcc::testing::Reference;

namespace {

target::Target gpu(const char* name) {
  auto t = target::find_target(name);
  REQUIRE(t.has_value());
  return *t;
}

codegen::Artifact compile(const ir::Kernel& lowered, const target::Target& target, const std::string& what) {
  codegen::CudaOptions options;
  options.want_ptx = true;
  auto artifact = codegen::compile_cuda(lowered, target, options);
  if (!artifact) FAIL(what << artifact.error().message << "\n" << ir::print(lowered));
  return *artifact;
}

PtxReport emulate(const codegen::Artifact& artifact, std::vector<interp::TensorData>& data, uint64_t seed,
                  const std::string& what) {
  std::vector<interp::TensorData*> pointers;
  for (interp::TensorData& d : data) pointers.push_back(&d);
  PtxOptions options;
  options.seed = seed;
  auto report = run_artifact(artifact, pointers, options);
  if (!report) FAIL(what << report.error().message << "\n" << artifact.source);
  return *report;
}

void check(const Reference& reference, const ir::Kernel& lowered, const target::Target& target, const std::string& what,
           uint64_t seed) {
  const codegen::Artifact artifact = compile(lowered, target, what);
  std::vector<interp::TensorData> got = reference.inputs;
  const PtxReport report = emulate(artifact, got, seed, what);
  if (!report.ok()) FAIL(what << report.text() << artifact.code);
  const std::string wrong = reference.difference(got);
  if (!wrong.empty()) FAIL(what << wrong << "\n" << artifact.code);
}

// Draws `wanted` programs of each trace of a task's space and runs them; the number that ran.
int64_t check_task(const task::Task& task, const target::Target& target, int wanted, uint64_t seed) {
  const Reference reference(task.kernel, 1e-4);
  Rng rng(seed);
  int64_t ran = 0;
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target)) {
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
      ++done, ++ran;
    }
  }
  return ran;
}

// A hand-written kernel at Stage::Lowered.
ir::Kernel hard_kernel(const std::string& name) {
  auto text = read_file(std::string(TCC_SOURCE_DIR) + "/tests/ir/hard/" + name + ".tir");
  REQUIRE(text.has_value());
  auto kernel = ir::parse(*text);
  if (!kernel) FAIL(name << ": " << kernel.error().message);
  REQUIRE(kernel->stage == ir::Stage::kLowered);
  return *kernel;
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  size_t count = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()), ++count)
    text.replace(at, from.size(), to);
  REQUIRE(count > 0);
  return text;
}

bool skipped() {
  if (codegen::nvrtc_available()) return false;
  WARN("SKIPPED: no NVRTC");
  return true;
}

}  // namespace

TEST_CASE("PTX of programs of the GPU spaces equals the reference", "[emulation]") {
  if (skipped()) return;
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const char* only = std::getenv("TCC_TRACE_TASK");
  int64_t ran = 0;
  const std::vector<task::Task> tasks = tcc::testing::task_shapes();
  for (size_t n = 0; n < tasks.size(); ++n) {
    if (only != nullptr && std::to_string(n) != only) continue;
    INFO("task " << n << ", " << tasks[n].workload);
    const int64_t here = check_task(tasks[n], gpu("a100"), soak ? 40 : 1, n + 500);
    CHECK(here > 0);
    ran += here;
    if (soak) ran += check_task(tasks[n], gpu("h100"), 5, n + 900);
  }
  WARN(ran << " ran");
}

TEST_CASE("PTX of hand-written kernels equals the interpreter", "[emulation]") {
  if (skipped()) return;
  for (const char* name : {"gemm_mma_sync", "gemm_split_k", "softmax_block", "softmax_warp"}) {
    const ir::Kernel kernel = hard_kernel(name);
    const Reference reference(kernel, 2e-3);  // the kernel itself, under the interpreter
    for (uint64_t seed = 1; seed <= 3; ++seed) check(reference, kernel, gpu("a100"), std::string(name) + ": ", seed);
  }
}

TEST_CASE("PTX of damaged kernels is reported", "[emulation]") {
  if (skipped()) return;
  const ir::Kernel kernel = hard_kernel("gemm_mma_sync");
  const codegen::Artifact whole = compile(kernel, gpu("a100"), "");
  const Reference reference(kernel, 2e-3);
  const auto damaged = [&](const std::string& from, const std::string& to) {
    codegen::Artifact artifact = whole;
    artifact.code = replace_all(artifact.code, from, to);
    std::vector<interp::TensorData> data = reference.inputs;
    return emulate(artifact, data, 1, from);
  };
  const PtxReport no_barrier = damaged("bar.sync", "//");
  INFO(no_barrier.text());
  CHECK((no_barrier.has(Find::kRace) || no_barrier.has(Find::kUninitialised)));
  CHECK(damaged("cp.async.wait_group", "//").has(Find::kUninitialised));
  CHECK(damaged("cp.async.wait_group 1", "cp.async.wait_group 2").has(Find::kUninitialised));
  // One row more than the matrix of 50 has.
  const bool below = whole.code.find(", 50;") != std::string::npos;
  const PtxReport outside = damaged(below ? ", 50;" : ", 49;", below ? ", 51;" : ", 50;");
  INFO(outside.text());
  CHECK(outside.has(Find::kOutOfBounds));
  // A fragment's registers in another order compute something else.
  codegen::Artifact swapped = whole;
  const size_t at = swapped.code.find("mma.sync"), open = swapped.code.find("}, {", at),
               comma = swapped.code.find(", ", open + 4);
  const std::string first = swapped.code.substr(open + 4, comma - open - 4),
                    second = swapped.code.substr(comma + 2, swapped.code.find_first_of(",}", comma + 2) - comma - 2);
  swapped.code.replace(open + 4, first.size() + 2 + second.size(), second + ", " + first);
  std::vector<interp::TensorData> got = reference.inputs;
  CHECK(emulate(swapped, got, 1, "swapped registers").ok());
  CHECK_FALSE(reference.difference(got).empty());
}
