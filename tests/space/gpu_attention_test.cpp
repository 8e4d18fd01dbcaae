// The GPU's forms of attention: which shapes and types go through matrix instructions.
#include "sample_tasks.h"
#include "space/run_kernel.h"
#include "tcc/ir/walk.h"

using namespace tcc;

namespace {

// Traces with matrix instructions, and all.
std::pair<int, int> traces_of(const task::AttentionParams& p, const char* target) {
  int matrices = 0, all = 0;
  for (const schedule::Trace& trace : space::generate_space(task::make_attention(p).kernel, named_target(target))) {
    const std::string text = schedule::print_trace(trace);
    matrices += text.find("tensorize") != std::string::npos && text.find("stream_reduction") != std::string::npos;
    ++all;
  }
  return {matrices, all};
}

}  // namespace

TEST_CASE("attention in halves goes through matrix instructions where the device has them", "[gpu_space]") {
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16;
  const task::AttentionParams plain{.heads = 3, .queries = 130, .keys = 130, .depth = 64, .dtype = half};
  CHECK(traces_of(plain, "a100").first >= 4);
  CHECK(traces_of(plain, "t4").first >= 1);
  CHECK(traces_of(plain, "h200").first >= 4);
  task::AttentionParams p = plain;
  p.dtype = brain;
  CHECK(traces_of(p, "a100").first >= 4);
  CHECK(traces_of(p, "t4").first == 0);
  p.dtype = graph::DType::kF32;
  CHECK(traces_of(p, "a100").first == 0);
  CHECK(traces_of(p, "a100").second >= 2);
  for (int64_t width : {32, 80, 128}) {
    p = plain;
    p.depth = width;
    CHECK(traces_of(p, "a100").first >= 3);
  }
  // No whole tiles of columns.
  p = plain;
  p.width = 20;
  CHECK(traces_of(p, "a100").first == 0);
  CHECK(traces_of(p, "a100").second >= 2);
}

TEST_CASE("attention by matrix instructions is one launch that keeps its state in registers", "[gpu_space]") {
  const task::Task t = task::make_attention(
      {.heads = 2, .queries = 100, .keys = 300, .depth = 64, .mask = true, .dtype = graph::DType::kF16});
  const target::Target target = named_target("a100");
  int seen = 0;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    if (schedule::print_trace(trace).find("tensorize") == std::string::npos) continue;
    auto arena = std::make_shared<Arena>();
    auto k = schedule::replay(trace, trace.decisions, t.kernel, arena);
    REQUIRE(k);
    auto lowered = lower::lower(*k, target, ir::Stage::kLowered, arena);
    if (!lowered) FAIL(lowered.error().text << schedule::print_trace(trace));
    INFO(ir::print(*lowered));
    if (schedule::print_trace(trace).find("stream_reduction") == std::string::npos) continue;
    // Tiles of Q, K and V are shared, nothing else.
    int shared = 0;
    for (const ir::Buffer* b : lowered->buffers) {
      shared += b->scope == ir::Scope::kShared;
      CHECK(b->scope != ir::Scope::kWorkspace);
    }
    CHECK(shared == 3);
    ++seen;
  }
  CHECK(seen >= 3);
}
