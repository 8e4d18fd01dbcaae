// Programs of the GPU spaces equal the reference, the naive kernel under the interpreter: at Scheduled and Nest, which
// run in order, and at Lowered, where threads run in a random order with a check for races. For a sample of them the
// printed source goes through NVRTC.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <set>

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
#include "traces/byte_product.h"
#include "traces/reference.h"
#include "traces/task_shapes.h"

using namespace tcc;

namespace {

target::Target gpu(const char* name) {
  auto t = target::find_target(name);
  REQUIRE(t.has_value());
  return *t;
}

// Threads of a block that a run of the interpreter is to go through at most.
bool is_small(const ir::Kernel& lowered) {
  std::map<ir::Axis, int64_t> extents;
  ir::visit(lowered.root, [&](ir::Stmt s) {
    if (const ir::Loop* l = ir::as<ir::Loop>(s); l != nullptr && ir::is_thread(l->axis))
      extents[l->axis] = std::max(extents[l->axis], ir::int_value(l->extent));
    return true;
  });
  // Launches have threads by one kind of axes or the other.
  int64_t linear = 1, grid = 1;
  for (const auto& [axis, n] : extents) (axis < ir::Axis::kThreadX ? linear : grid) *= n;
  return std::max(linear, grid) <= 512;
}

struct Tally {
  int64_t ran = 0, compiled = 0, rejected = 0;
  std::map<std::string, int> reasons, instructions;  // instructions: programs that use them

  void reject(const ir::Reject& r) {
    reasons[std::string(ir::reject_reason_name(r.reason))]++;
    ++rejected;
  }
  void note(const ir::Kernel& lowered) {
    std::set<std::string> here;
    ir::visit(lowered.root, [&](ir::Stmt s) {
      if (const ir::InstrCall* call = ir::as<ir::InstrCall>(s)) here.emplace(ir::instruction(call->instr).name);
      return true;
    });
    for (const std::string& name : here) ++instructions[name];
    ++ran;
  }
  // Programs whose instructions begin with `prefix`, the largest number of one of them.
  int uses(const std::string& prefix) const {
    int most = 0;
    for (const auto& [name, count] : instructions)
      if (name.starts_with(prefix)) most = std::max(most, count);
    return most;
  }
  std::string text() const {
    std::string out = fmt::format("{} ran, {} compiled, {} rejected;", ran, compiled, rejected);
    for (auto& [name, count] : reasons) out += fmt::format(" {}: {}", name, count);
    return out;
  }
};

// Draws `wanted` programs of each trace of the task's space, out of up to 12 times as many draws, and checks them.
// `part`: of the traces' text, "" for all traces.
void check_task(const task::Task& t, uint64_t seed, const target::Target& target, const space::SpaceOptions& options,
                int wanted, const std::string& part, bool show, Tally& tally, double tolerance = 1e-4) {
  const testing::Reference reference(t.kernel, tolerance);
  const bool compiles = codegen::nvrtc_available();
  Rng rng(seed);
  const std::vector<schedule::Trace> space = space::generate_space(t.kernel, target, options);
  INFO(t.workload << " has " << space.size() << " traces");
  CHECK(std::any_of(space.begin(), space.end(), [](const auto& trace) { return !trace.instructions.empty(); }));
  const int64_t before = tally.ran;
  for (const schedule::Trace& trace : space) {
    std::vector<int64_t> decisions = trace.decisions;
    if (schedule::print_trace(trace).find(part) == std::string::npos) continue;
    int done = 0;
    for (int draw = 0; draw < 12 * wanted && done < (trace.instructions.empty() ? 1 : wanted); ++draw) {
      auto arena = std::make_shared<Arena>();
      auto scheduled = draw == 0 ? schedule::replay(trace, decisions, t.kernel, arena)
                                 : schedule::sample(trace, decisions, t.kernel, arena, rng);
      if (!scheduled) {
        tally.reject(scheduled.error());
        continue;
      }
      auto nest = lower::lower(*scheduled, target, ir::Stage::kNest, arena);
      if (!nest) {
        tally.reject(nest.error());
        continue;
      }
      schedule::Trace shown = trace;
      shown.decisions = decisions;
      const std::string what = fmt::format("{} on {}\n{}", t.workload, target.name, schedule::print_trace(shown));
      auto lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
      if (!lowered) FAIL(what << lowered.error().text << ir::print(*nest));
      if (!is_small(*lowered)) continue;
      if (show) WARN(what << ir::print(*nest) << ir::print(*lowered));
      reference.check(*scheduled, what + "scheduled", 1);
      reference.check(*nest, what + "nest", 1);
      reference.check(*lowered, what + "lowered", static_cast<uint64_t>(draw) + 1);
      tally.note(*lowered);
      ++done;
      if (!compiles || done % 10 != 1) continue;
      auto artifact = codegen::compile_cuda(*lowered, target);
      if (!artifact) FAIL(what << artifact.error().message << ir::print(*lowered));
      ++tally.compiled;
    }
  }
  CHECK(tally.ran > before);
}

}  // namespace

TEST_CASE("programs of the GPU spaces equal the reference", "[traces]") {
  const target::Target target = gpu("a100");
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const char* only = std::getenv("TCC_TRACE_TASK");
  if (!codegen::nvrtc_available()) WARN("no NVRTC: the printed source is not compiled");
  Tally tally;
  const std::vector<task::Task> tasks = testing::task_shapes();
  for (size_t n = 0; n < tasks.size(); ++n) {
    if (only != nullptr && std::to_string(n) != only) continue;
    check_task(tasks[n], n + 100, target, {}, soak ? 100 : 6, "", only != nullptr, tally);
  }
  WARN(tally.text());
  CHECK((only != nullptr || tally.ran >= 250));
  CHECK((only != nullptr || tally.uses("shfl.f32") > 0));  // rows that warps sum up
}

TEST_CASE("matrix instructions of every type equal the reference, on odd sizes, batches and convolutions", "[traces]") {
  const target::Target target = gpu("a100");
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const char* only = std::getenv("TCC_TRACE_TASK");
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16, single = graph::DType::kF32;
  std::vector<task::Task> tasks;
  for (graph::DType type : {half, brain, single}) {
    tasks.push_back(task::make_gemm({.m = 32, .n = 48, .k = 96, .dtype = type}));
    tasks.push_back(task::make_gemm({.m = 32, .n = 16, .k = 64, .bias = true, .trans_b = true, .dtype = type}));
    tasks.push_back(task::make_gemm({.m = 33, .n = 27, .k = 41, .relu = true, .trans_a = true, .dtype = type}));
  }
  tasks.push_back(testing::make_byte_product(32, 16, 96, true));
  tasks.push_back(testing::make_byte_product(17, 24, 70, false));
  tasks.push_back(testing::make_operator(graph::Op::kMatMul, graph::MatMulAttrs{}, {{3, 20, 34}, {3, 34, 18}}, half));
  tasks.push_back(task::make_conv({.batch = 2,
                                   .channels = 5,
                                   .filters = 18,
                                   .size = {7, 6},
                                   .kernel = {3, 3},
                                   .strides = {2, 1},
                                   .pads = {1, 1},
                                   .bias = true,
                                   .relu = true,
                                   .dtype = half}));
  tasks.push_back(task::make_conv(
      {.batch = 1, .channels = 16, .filters = 16, .size = {4, 8}, .kernel = {1, 1}, .residual = true, .dtype = brain}));
  tasks.push_back(
      task::make_conv({.batch = 1, .channels = 3, .filters = 8, .size = {21}, .kernel = {4}, .dtype = half}));
  space::SpaceOptions options;
  options.gpu.allow_tf32 = true;
  Tally tally;
  for (size_t n = 0; n < tasks.size(); ++n) {
    if (only != nullptr && "m" + std::to_string(n) != only) continue;
    check_task(tasks[n], n + 500, target, options, soak ? 40 : 4, "tensorize", only != nullptr, tally);
  }
  WARN(tally.text());
  if (only != nullptr) return;
  for (const char* name :
       {"mma.m16n8k16.f32.f16", "mma.m16n8k16.f32.bf16", "mma.m16n8k8.f32.tf32", "mma.m16n8k32.i32.i8",
        "ldmatrix.x4.f16", "ldmatrix.x4.trans.f16", "cp.async.16", "cp.async.4"})
    CHECK(tally.uses(name) > 0);
}

TEST_CASE("where copies are not asynchronous, pipelines go through registers", "[traces]") {
  const target::Target target = gpu("t4");
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  space::SpaceOptions options;
  options.gpu.stages = {2, 3};
  Tally tally;
  for (const task::Task& t :
       {task::make_gemm({.m = 24, .n = 40, .k = 36}), task::make_gemm({.m = 17, .n = 21, .k = 30, .trans_b = true}),
        task::make_conv({.batch = 1, .channels = 4, .filters = 6, .size = {9, 8}, .kernel = {3, 3}, .pads = {1, 1}})})
    check_task(t, 900, target, options, soak ? 40 : 5, "", false, tally);
  const auto half = graph::DType::kF16;
  for (const task::Task& t : {task::make_gemm({.m = 32, .n = 48, .k = 64, .dtype = half}),
                              task::make_gemm({.m = 20, .n = 24, .k = 40, .trans_b = true, .dtype = half})})
    check_task(t, 910, target, options, soak ? 40 : 3, "tensorize", false, tally);
  WARN(tally.text());
  CHECK(tally.uses("bar.sync") > 0);
  CHECK(tally.uses("cp.async") == 0);
  CHECK(tally.uses("mma.m16n8k8.f32.f16") > 0);
  CHECK(tally.uses("ldmatrix") > 0);
}

TEST_CASE("long sums of few results are split over blocks", "[traces]") {
  const target::Target target = gpu("a100");
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const auto half = graph::DType::kF16;
  Tally tally;
  for (const task::Task& t :
       {task::make_gemm({.m = 32, .n = 24, .k = 256, .bias = true, .relu = true, .dtype = half}),
        task::make_gemm({.m = 17, .n = 21, .k = 128, .trans_b = true}),
        testing::make_operator(graph::Op::kMatMul, graph::MatMulAttrs{}, {{2, 8, 192}, {2, 192, 16}}, half)})
    check_task(t, 700, target, {}, soak ? 40 : 3, "rfactor", false, tally);
  WARN(tally.text());
  CHECK(tally.uses("mma.m16n8k16.f32.f16") > 0);
}

TEST_CASE("attention goes through matrix instructions, on odd numbers of tokens and any width of whole tiles",
          "[traces]") {
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const char* only = std::getenv("TCC_TRACE_TASK");
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16;
  const std::vector<task::AttentionParams> shapes = {
      {.heads = 3, .queries = 64, .keys = 128, .depth = 64, .dtype = half},
      {.batch = 2, .heads = 1, .queries = 37, .keys = 37, .depth = 32, .mask = true, .dtype = half},
      {.heads = 1, .queries = 130, .keys = 67, .depth = 20, .width = 80, .heads_first = true, .dtype = half},
      {.heads = 1, .queries = 33, .keys = 70, .depth = 128, .mask = true, .dtype = brain}};
  Tally tally;
  for (size_t n = 0; n < shapes.size(); ++n) {
    if (only != nullptr && "a" + std::to_string(n) != only) continue;
    // Weights are rounded to the operands' type.
    const double tolerance = shapes[n].dtype == half ? 2e-3 : 2e-2;
    check_task(task::make_attention(shapes[n]), n + 800, gpu("a100"), {}, soak ? 20 : 1, "tensorize", only != nullptr,
               tally, tolerance);
    if (n == 1 || (soak && shapes[n].dtype == half))  // it multiplies no bf16
      check_task(task::make_attention(shapes[n]), n + 850, gpu("t4"), {}, soak ? 20 : 1, "tensorize", false, tally,
                 tolerance);
  }
  WARN(tally.text());
  if (only != nullptr) return;
  for (const char* name :
       {"mma.m16n8k16.f32.f16", "mma.m16n8k16.f32.f16.bt", "mma.m16n8k16.f32.bf16.bt", "mma.m16n8k8.f32.f16",
        "ldmatrix.x4.f16", "ldmatrix.x4.trans.f16", "cp.async.16", "shfl.f32"})
    CHECK(tally.uses(name) > 0);
}

TEST_CASE("products by warpgroups equal the reference, on odd sizes and batches, with bias and activation",
          "[traces]") {
  const target::Target target = gpu("h200");
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const char* only = std::getenv("TCC_TRACE_TASK");
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16;
  const std::vector<task::Task> tasks = {
      task::make_gemm({.m = 64, .n = 128, .k = 128, .dtype = half}),
      task::make_gemm({.m = 72, .n = 80, .k = 200, .dtype = half}),
      task::make_gemm({.m = 65, .n = 40, .k = 136, .trans_b = true, .dtype = brain}),
      task::make_gemm({.m = 130, .n = 96, .k = 144, .bias = true, .relu = true, .dtype = half}),
      task::make_gemm({.m = 100, .n = 136, .k = 72, .bias = true, .trans_b = true, .dtype = half}),
      testing::make_operator(graph::Op::kMatMul, graph::MatMulAttrs{}, {{2, 70, 136}, {2, 136, 72}}, brain),
  };
  Tally tally;
  for (size_t n = 0; n < tasks.size(); ++n) {
    if (only != nullptr && "w" + std::to_string(n) != only) continue;
    check_task(tasks[n], n + 300, target, {}, soak ? 20 : 2, "wgmma", only != nullptr, tally);
  }
  WARN(tally.text());
  if (only != nullptr) return;
  for (const char* name : {"wgmma.m64n64k16.f32.f16.trans_b", "wgmma.m64n64k16.f32.bf16", "wgmma.m64n128k16.f32.f16",
                           "tma.load.f16", "tma.load.bf16", "mbarrier.expect_tx", "tma.store.f16", "tma.store.bf16",
                           "tma.load.multicast.f16", "tma.load.multicast.bf16", "mbarrier.arrive.cluster"})
    CHECK(tally.uses(name) > 0);
}

TEST_CASE("blocks that walk over the tiles of a product equal the reference", "[traces]") {
  target::Target target = gpu("h200");
  target.cuda.sm_count = 2;
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16;
  space::SpaceOptions options;
  options.gpu.wgmma_walkers = {1, 2};
  Tally tally;
  for (const task::Task& t :
       {task::make_gemm({.m = 200, .n = 136, .k = 136, .bias = true, .relu = true, .dtype = half}),
        task::make_gemm({.m = 320, .n = 64, .k = 72, .trans_b = true, .dtype = brain}),
        testing::make_operator(graph::Op::kMatMul, graph::MatMulAttrs{}, {{3, 70, 136}, {3, 136, 72}}, half)})
    check_task(t, 333, target, options, soak ? 20 : 2, "wgmma", false, tally);
  WARN(tally.text());
  // Blocks of several tiles wait before they write to a slot again.
  CHECK(tally.uses("tma.wait_read") > 0);
  CHECK(tally.uses("tma.load.multicast.f16") > 0);
}

TEST_CASE("warpgroups multiply parts of long sums of few results", "[traces]") {
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16;
  Tally tally;
  for (const task::Task& t :
       {task::make_gemm({.m = 72, .n = 64, .k = 512, .bias = true, .relu = true, .dtype = half}),
        task::make_gemm({.m = 65, .n = 80, .k = 384, .trans_b = true, .dtype = brain}),
        testing::make_operator(graph::Op::kMatMul, graph::MatMulAttrs{}, {{2, 40, 256}, {2, 256, 40}}, half)})
    check_task(t, 340, gpu("h200"), {}, soak ? 20 : 2, "rfactor", false, tally);
  WARN(tally.text());
  CHECK(tally.uses("wgmma.m64n64k16.f32.f16.trans_b") > 0);
  CHECK(tally.uses("wgmma.m64n64k16.f32.bf16") > 0);
  CHECK(tally.uses("tma.load.f16") > 0);
}

TEST_CASE("convolutions of few results are cut along their channels", "[traces]") {
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const auto half = graph::DType::kF16;
  Tally tally;
  const std::vector<task::Task> tasks = {
      task::make_conv({.batch = 1,
                       .channels = 32,
                       .filters = 24,
                       .size = {7, 7},
                       .kernel = {3, 3},
                       .pads = {1, 1},
                       .bias = true,
                       .relu = true,
                       .residual = true}),
      task::make_conv({.batch = 2,
                       .channels = 48,
                       .filters = 20,
                       .size = {9, 6},
                       .kernel = {3, 3},
                       .strides = {2, 2},
                       .pads = {1, 1},
                       .bias = true,
                       .dtype = half}),
      task::make_conv({.batch = 1, .channels = 256, .filters = 33, .size = {7, 7}, .kernel = {1, 1}, .dtype = half})};
  for (const task::Task& t : tasks) check_task(t, 350, gpu("h100"), {}, soak ? 20 : 2, "rfactor", false, tally);
  WARN(tally.text());
  CHECK(tally.ran >= 6);
  CHECK(tally.uses("mma.m16n8k16.f32.f16") > 0);
}

TEST_CASE("products by warpgroups keep their sums in registers", "[traces]") {
  if (!codegen::nvrtc_available()) SKIP("no NVRTC");
  const target::Target target = gpu("h200");
  const task::Task gemm = task::make_gemm({.m = 1024, .n = 1024, .k = 1024, .bias = true, .dtype = graph::DType::kF16});
  int compiled = 0;
  for (const schedule::Trace& trace : space::generate_space(gemm.kernel, target)) {
    const std::string text = schedule::print_trace(trace);
    if (text.find("wgmma") == std::string::npos) continue;
    auto arena = std::make_shared<Arena>();
    std::vector<int64_t> decisions = trace.decisions;
    auto scheduled = schedule::replay(trace, decisions, gemm.kernel, arena);
    REQUIRE(scheduled.has_value());
    auto lowered = lower::lower(*scheduled, target, ir::Stage::kLowered, arena);
    if (!lowered) FAIL(lowered.error().text << text);
    auto artifact = codegen::compile_cuda(*lowered, target);
    if (!artifact) FAIL(artifact.error().message << text);
    INFO(text);
    CHECK(artifact->facts.at("spill_bytes") == 0);
    // Both operands and the result; parts of sums go to a workspace.
    CHECK(artifact->launches.at(0).tensor_maps.size() == (text.find("rfactor") == std::string::npos ? 3 : 2));
    ++compiled;
  }
  CHECK(compiled >= 3);
}
