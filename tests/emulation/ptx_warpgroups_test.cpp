// NVRTC's PTX of products by warpgroups out of the GPU space computes what the naive kernel does, without a finding:
// results by tensor copies, clusters with multicast, blocks that walk over tiles, sums that are split.
#include <cstdlib>

#include "emulation/support.h"
#include "nvrtc.h"
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
using tcc::testing::allow_tf32;
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
  int64_t ran = 0, tf32 = 0, clusters = 0, walks = 0, waves = 0, splits = 0, stores = 0;
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
      seen.tf32 += what.find(".f32.tf32") != std::string::npos;
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
        tcc::testing::make_operator(graph::Op::kMatMul, graph::MatMulAttrs{}, {{2, 70, 136}, {2, 136, 72}}, brain),
        allow_tf32(task::make_gemm({.m = 192, .n = 128, .k = 100, .trans_b = true})),
        allow_tf32(task::make_gemm({.m = 129, .n = 72, .k = 256, .bias = true, .relu = true, .trans_b = true}))})
    run_task(t, small_device(), soak ? 20 : 3, ++seed, seen);
  WARN(seen.ran << " ran, " << seen.clusters << " in clusters, " << seen.walks << " over several tiles, " << seen.waves
                << " with a split last wave, " << seen.splits << " with split sums");
  CHECK(seen.ran >= 20);
  CHECK(seen.tf32 >= 4);
  CHECK(seen.clusters > 0);
  CHECK(seen.walks > 0);
  CHECK(seen.waves > 0);
  CHECK(seen.splits > 0);
  CHECK(seen.stores > 0);
}

TEST_CASE("PTX: copies round what a product by tf32 reads to nearest", "[emulation]") {
  if (!codegen::nvrtc_available()) SKIP("no NVRTC");
  const task::Task task = allow_tf32(task::make_gemm({.m = 128, .n = 128, .k = 128, .trans_b = true}));
  const target::Target target = target::find_target("h200").value();
  // Halfway between two values of tf32, and a little beside it: -1.5 times one of the two neighbors.
  const float step = 0x1p-10f, values[] = {1 + step / 2, 1 + 0.49f * step, 1 + 0.51f * step, 1 + 0.98f * step};
  const float rounded[] = {1 + step, 1, 1 + step, 1 + step};
  Reference reference(task.kernel);
  for (int64_t i = 0; i < 128; ++i)
    for (int64_t k = 0; k < 128; ++k) {
      const size_t n = static_cast<size_t>((i + k) % 4);
      reference.inputs[0].set(i * 128 + k, k < 2 ? values[n] : 0);
      reference.inputs[1].set(i * 128 + k, k < 2 ? -1.5 : 0);
    }
  for (int64_t i = 0; i < 128; ++i)
    for (int64_t j = 0; j < 128; ++j)
      reference.expected[2].set(i * 128 + j, -1.5 * (rounded[i % 4] + rounded[(i + 1) % 4]));
  reference.expected[0] = reference.inputs[0], reference.expected[1] = reference.inputs[1];
  reference.tolerance = 0;
  int64_t by_warps = 0, by_warpgroups = 0;
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target)) {
    const std::string text = schedule::print_trace(trace);
    if (text.find("tf32") == std::string::npos) continue;
    std::vector<int64_t> decisions = trace.decisions;
    Rng rng(3);
    for (int draw = 0, done = 0; draw < 100 && done < 1; ++draw) {
      auto arena = std::make_shared<Arena>();
      auto scheduled = schedule::sample(trace, decisions, task.kernel, arena, rng);
      if (!scheduled) continue;
      auto lowered = lower::lower(*scheduled, target, ir::Stage::kLowered, arena);
      if (!lowered) continue;
      check(reference, *lowered, target, text, 1);
      ++done, ++(text.find("wgmma") == std::string::npos ? by_warps : by_warpgroups);
    }
  }
  CHECK(by_warps > 0);
  CHECK(by_warpgroups > 0);
}
