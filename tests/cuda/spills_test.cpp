// The kernels of default schedules keep their values in registers on every family of devices: no spills, no stack. A
// tenth of them here, all in tools/soak.
#include <cstdlib>

#include "cuda/support.h"
#include "nvrtc.h"
#include "sample_tasks.h"
#include "skip.h"
#include "tcc/ir/text.h"
#include "tcc/search/search.h"
#include "traces/task_shapes.h"

using namespace tcc;
using namespace tcc::codegen::testing;

namespace {

std::vector<task::Task> tasks_of_use() {
  const auto half = graph::DType::kF16;
  std::vector<task::Task> out = {
      task::make_gemm({.m = 1024, .n = 1024, .k = 1024}),
      task::make_gemm({.m = 1024, .n = 1024, .k = 1024, .dtype = half}),
      task::make_gemm({.m = 128, .n = 3072, .k = 768, .bias = true, .relu = true}),
      task::make_conv({.batch = 1,
                       .channels = 64,
                       .filters = 64,
                       .size = {56, 56},
                       .kernel = {3, 3},
                       .pads = {1, 1},
                       .bias = true}),
      task::make_softmax({256, 1000}, 1),
      task::make_reduction({512, 768}, {1}, graph::Op::kReduceSum),
  };
  for (task::Task& t : tcc::testing::task_shapes()) {
    if (t.key.empty()) t.key = fmt::format("{:016x}", ir::hash_kernel(t.kernel));  // of a kernel that no graph made
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace

TEST_CASE("default kernels neither spill nor use a stack", "[traces]") {
  if (!codegen::nvrtc_available()) SKIP(codegen::nvrtc_version().error().message);
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const std::vector<task::Task> tasks = tasks_of_use();
  size_t n = 0, compiled = 0;
  for (const char* name : {"t4", "a100", "rtx-3090", "l4", "h200"})
    for (const task::Task& t : tasks) {
      if (!soak && n++ % 11 != 0) continue;
      const auto chosen = search::best_artifact(t, gpu(name), nullptr, 1, "kernel");
      if (!chosen) FAIL(t.workload << " on " << name << ": " << chosen.error().message);
      INFO(t.workload << " on " << name << "\n" << ir::print(chosen->program.lowered));
      CHECK(chosen->artifact.facts.at("spill_bytes") == 0);
      CHECK(chosen->artifact.facts.at("stack_bytes") == 0);
      ++compiled;
    }
  CHECK(compiled >= 20);
}

TEST_CASE("attention keeps its sums in registers, and halves go through matrix instructions", "[traces]") {
  const auto half = graph::DType::kF16;
  const std::vector<task::AttentionParams> shapes = {
      {.heads = 12, .queries = 128, .keys = 128, .depth = 64, .mask = true, .dtype = half},
      {.heads = 3, .queries = 197, .keys = 197, .depth = 64, .dtype = half},
      {.heads = 16, .queries = 1024, .keys = 1024, .depth = 128, .dtype = half},
      {.heads = 8, .queries = 130, .keys = 130, .depth = 80, .dtype = half},
      {.heads = 12, .queries = 128, .keys = 128, .depth = 64}};
  for (const char* name : {"a100", "h200"})
    for (const task::AttentionParams& p : shapes) {
      const task::Task t = task::make_attention(p);
      INFO(t.workload << " on " << name);
      auto chosen = search::choose_program(t, gpu(name), nullptr, 1);
      if (!chosen) FAIL(chosen.error().message);
      const std::string text = ir::print(chosen->lowered);
      CHECK((p.dtype != half || text.find("instr mma.m16n8k16.f32.f16(") != std::string::npos));
      CHECK((p.dtype != half || text.find("instr mma.m16n8k16.f32.f16.bt(") != std::string::npos));
      if (!codegen::nvrtc_available()) continue;
      auto artifact = codegen::compile_cuda(chosen->lowered, gpu(name));
      if (!artifact) FAIL(artifact.error().message);
      CHECK(artifact->facts.at("spill_bytes") == 0);
      CHECK(artifact->facts.at("stack_bytes") == 0);
      CHECK(artifact->launches.size() == 1);
    }
}
