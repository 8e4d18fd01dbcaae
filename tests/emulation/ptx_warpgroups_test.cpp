// NVRTC's PTX of products by warpgroups out of the GPU space computes what the naive kernel does, without a finding:
// results by tensor copies, clusters with multicast, blocks that walk over tiles, sums that are split.
#include <cstdlib>

#include "emulation/support.h"
#include "sample_tasks.h"
#include "skip.h"
#include "tcc/codegen/cuda.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "traces/reference.h"
#include "traces/task_shapes.h"

using namespace tcc;
using namespace tcc::emulation;
using namespace tcc::emulation::testing;
using tcc::testing::Reference;

namespace {

// A device of few multiprocessors, so that small products have more tiles than it.
target::Target small_device() {
  auto t = target::find_target("h200");
  REQUIRE(t.has_value());
  t->cuda.sm_count = 2;
  return *t;
}

// Compiled as it ships, and run as the machine for PTX reads it.
void check(const Reference& reference, const ir::Kernel& lowered, const target::Target& target, const std::string& what,
           uint64_t seed) {
  for (const bool ptx : {true, false}) {
    codegen::CudaOptions options;
    options.want_ptx = ptx;
    auto artifact = codegen::compile_cuda(lowered, target, options);
    if (!artifact) FAIL(what << artifact.error().message << "\n" << ir::print(lowered));
    if (!ptx) {
      INFO(what);
      CHECK(artifact->facts.at("spill_bytes") == 0);
      CHECK(artifact->facts.at("stack_bytes") == 0);
      continue;
    }
    std::vector<interp::TensorData> got = reference.inputs;
    std::vector<interp::TensorData*> pointers;
    for (interp::TensorData& d : got) pointers.push_back(&d);
    PtxOptions run;
    run.seed = seed;
    auto report = run_artifact(*artifact, pointers, run);
    if (!report) FAIL(what << report.error().message << "\n" << artifact->source);
    if (!report->ok()) FAIL(what << report->text() << artifact->code);
    const std::string wrong = reference.difference(got);
    if (!wrong.empty()) FAIL(what << wrong << "\n" << artifact->code);
  }
}

bool uses(const ir::Kernel& k, std::string_view instruction) {
  bool found = false;
  ir::visit(k.root, [&](ir::Stmt s) {
    const ir::InstrCall* call = ir::as<ir::InstrCall>(s);
    found |= call != nullptr && ir::instruction(call->instr).name == instruction;
    return !found;
  });
  return found;
}

struct Seen {
  int64_t ran = 0, clusters = 0, walks = 0, waves = 0, splits = 0, stores = 0;
};

// `wanted` programs of each trace with instructions of warpgroups.
void run_task(const task::Task& task, const target::Target& target, int wanted, uint64_t seed, Seen& seen) {
  const Reference reference(task.kernel, 1e-3);
  Rng rng(seed);
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target)) {
    if (schedule::print_trace(trace).find("wgmma") == std::string::npos) continue;
    std::vector<int64_t> decisions = trace.decisions;
    for (int draw = 0, done = 0; draw < 12 * wanted && done < wanted; ++draw) {
      auto arena = std::make_shared<Arena>();
      auto scheduled = schedule::sample(trace, decisions, task.kernel, arena, rng);
      if (!scheduled) continue;
      auto lowered = lower::lower(*scheduled, target, ir::Stage::kLowered, arena);
      if (!lowered) continue;
      schedule::Trace shown = trace;
      shown.decisions = decisions;
      const std::string what = fmt::format("{}\n{}", task.workload, schedule::print_trace(shown));
      check(reference, *lowered, target, what, static_cast<uint64_t>(draw) + 1);
      seen.clusters += uses(*lowered, "mbarrier.arrive.cluster");
      seen.stores += uses(*lowered, "tma.commit");
      const std::string text = ir::print(*lowered);
      seen.walks += text.find("walker") != std::string::npos;
      seen.waves += text.find("temp partial") != std::string::npos;
      seen.splits += what.find("rfactor") != std::string::npos;
      ++done, ++seen.ran;
    }
  }
}

}  // namespace

TEST_CASE("PTX of products by warpgroups out of the GPU space equals the reference", "[emulation]") {
  if (!codegen::nvrtc_available()) SKIP("no NVRTC");
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16;
  Seen seen;
  uint64_t seed = 40;
  for (const task::Task& t :
       {task::make_gemm({.m = 256, .n = 128, .k = 136, .dtype = half}),
        task::make_gemm({.m = 320, .n = 72, .k = 256, .bias = true, .dtype = half}),
        task::make_gemm({.m = 64, .n = 72, .k = 512, .bias = true, .trans_b = true, .dtype = half}),
        task::make_gemm({.m = 200, .n = 136, .k = 200, .bias = true, .relu = true, .dtype = half}),
        task::make_gemm({.m = 129, .n = 264, .k = 72, .trans_b = true, .dtype = brain}),
        task::make_gemm({.m = 65, .n = 40, .k = 136, .bias = true, .trans_b = true, .dtype = half}),
        tcc::testing::make_operator(graph::Op::kMatMul, graph::MatMulAttrs{}, {{2, 70, 136}, {2, 136, 72}}, brain)})
    run_task(t, small_device(), soak ? 20 : 3, ++seed, seen);
  WARN(seen.ran << " ran, " << seen.clusters << " in clusters, " << seen.walks << " over several tiles, " << seen.waves
                << " with a split last wave, " << seen.splits << " with split sums");
  CHECK(seen.ran >= 20);
  CHECK(seen.clusters > 0);
  CHECK(seen.walks > 0);
  CHECK(seen.waves > 0);
  CHECK(seen.splits > 0);
  CHECK(seen.stores > 0);
}
