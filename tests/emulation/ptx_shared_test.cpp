// Shared buffers that follow each other in one place: the addresses of the compiled code meet, so a missing barrier
// between them shows here as a race, and nowhere else.
#include "emulation/support.h"
#include "nvrtc.h"
#include "sample_tasks.h"
#include "skip.h"
#include "tcc/analysis/shared_plan.h"
#include "tcc/codegen/cuda.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/space/space.h"
#include "tcc/task/task.h"
#include "traces/reference.h"

using namespace tcc;
using namespace tcc::emulation;

TEST_CASE("PTX of programs whose shared buffers have one place in turn equals the reference", "[emulation]") {
  if (!codegen::nvrtc_available()) SKIP("no NVRTC");
  target::Target target = *target::find_target("a100");
  target.cuda.shared_per_block = 0;  // no array of its own for any buffer
  int in_turn = 0;
  for (const task::Task& t :
       {task::make_gemm({.m = 32, .n = 48, .k = 96, .dtype = graph::DType::kF16}),
        task::make_gemm({.m = 40, .n = 24, .k = 64, .bias = true, .dtype = graph::DType::kBF16})}) {
    const tcc::testing::Reference reference(t.kernel, 1e-4);
    Rng rng(7);
    const std::vector<schedule::Trace> space = space::generate_space(t.kernel, target);
    std::vector<int64_t> decisions = space.at(0).decisions;
    for (int draw = 0, done = 0; draw < 60 && done < 4; ++draw) {
      auto arena = std::make_shared<Arena>();
      auto scheduled = schedule::sample(space[0], decisions, t.kernel, arena, rng);
      if (!scheduled) continue;
      auto lowered = lower::lower(*scheduled, target, ir::Stage::kLowered, arena);
      if (!lowered) continue;
      const analysis::SharedPlan plan = analysis::plan_shared(*lowered, lowered->root);
      if (plan.total == plan.separate) continue;
      ++in_turn, ++done;
      codegen::CudaOptions options;
      options.want_ptx = true;
      auto artifact = codegen::compile_cuda(*lowered, target, options);
      if (!artifact) FAIL(artifact.error().message << ir::print(*lowered));
      CHECK(artifact->launches.at(0).shared_bytes == plan.total);
      std::vector<interp::TensorData> got = reference.inputs;
      std::vector<interp::TensorData*> pointers;
      for (interp::TensorData& d : got) pointers.push_back(&d);
      PtxOptions how;
      how.seed = static_cast<uint64_t>(draw) + 1;
      auto report = run_artifact(*artifact, pointers, how);
      if (!report) FAIL(report.error().message << artifact->source);
      if (!report->ok()) FAIL(report->text() << artifact->source);
      const std::string wrong = reference.difference(got);
      if (!wrong.empty()) FAIL(wrong << artifact->source);
    }
  }
  CHECK(in_turn >= 4);
}
