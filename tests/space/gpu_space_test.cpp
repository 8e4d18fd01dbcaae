// The spaces of GPUs: their programs, and the ones that the limits reject before anything is compiled.
#include <set>

#include "sample_tasks.h"
#include "space/run_kernel.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"
#include "tcc/space/matrix_instruction.h"
#include "traces/task_shapes.h"

using namespace tcc;

namespace {

std::string text_of(const schedule::Trace& trace) {
  return schedule::print_trace(trace);
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

ir::Kernel nest_of(const std::string& text) {
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message);
  return *k;
}
ir::RejectReason reason_of(const std::string& text, const target::Target& target) {
  ir::Legal<void> ok = lower::check_limits(nest_of(text), target);
  REQUIRE_FALSE(ok.has_value());
  CHECK_FALSE(ok.error().text.empty());
  return ok.error().reason;
}

// A copy of 4,096 elements in a launch with the given loops around it and the given temporary.
std::string launch(const std::string& loops, const std::string& temp, const std::string& note = "") {
  std::string text = "kernel nest {\n  input A: f32[65536]\n  output B: f32[65536]\n";
  if (!temp.empty()) text += "  temp t: " + temp + "\n";
  int depth = 0;
  for (size_t at = 0; at < loops.size();) {
    const size_t end = std::min(loops.find(';', at), loops.size());
    text += "for " + loops.substr(at, end - at) + " {\n";
    ++depth;
    at = end + 1;
  }
  if (!temp.empty()) text += "alloc t {\n";
  text += "for f in 4096" + note + " {\n" + (temp.empty() ? "B[f] = A[f]" : "t[0] = A[f]\nB[f] = t[0]") + "\n}\n";
  if (!temp.empty()) text += "}\n";
  for (int i = 0; i < depth; ++i) text += "}\n";
  return text + "}\n";
}

}  // namespace

TEST_CASE("limits of a GPU reject a nest with a reason", "[gpu_space]") {
  const target::Target a100 = named_target("a100"), t4 = named_target("t4");
  const std::string grid = "g in 64 bound(grid.x)", tx = "x in 64 bound(thread.x)";
  using Reason = ir::RejectReason;
  CHECK(lower::check_limits(nest_of(launch(grid + ";" + tx, "f32[64] shared")), a100).has_value());
  CHECK(reason_of(launch(grid + ";y in 32 bound(thread.y);" + tx, ""), a100) == Reason::kTooManyThreads);
  CHECK(reason_of(launch(grid + ";z in 65 bound(thread.z)", ""), a100) == Reason::kTooManyThreads);
  CHECK(reason_of(launch(grid + ";v in 3 bound(vthread);w in 3 bound(vthread);" + tx, ""), a100) ==
        Reason::kTooManyThreads);
  CHECK(reason_of(launch("g in 64 bound(grid.x) @min_threads(32);x in 16 bound(thread.x)", ""), a100) ==
        Reason::kBadFactor);
  CHECK(reason_of(launch(grid + ";" + tx, "f32[64] shared", " @cooperative_fetch(8)"), a100) == Reason::kVectorTooWide);
  // 80 KiB fit an A100's block and not a T4's.
  CHECK(lower::check_limits(nest_of(launch(grid + ";" + tx, "f32[20480] shared")), a100).has_value());
  CHECK(reason_of(launch(grid + ";" + tx, "f32[20480] shared"), t4) == Reason::kTooMuchShared);
  CHECK(reason_of(launch(grid + ";" + tx, "f32[300] local"), a100) == Reason::kTooMuchLocal);
  // A copy for each of four virtual threads, and what 1,024 threads leave of a block's registers.
  CHECK(reason_of(launch(grid + ";v in 4 bound(vthread);" + tx, "f32[64] local"), a100) == Reason::kTooMuchLocal);
  CHECK(reason_of(launch(grid + ";x in 1024 bound(thread.x)", "f32[64] local"), a100) == Reason::kTooMuchLocal);
}

TEST_CASE("a product for a GPU is tiled over blocks, virtual threads and threads", "[gpu_space]") {
  const target::Target a100 = named_target("a100");
  const task::Task gemm = task::make_gemm({.m = 256, .n = 192, .k = 128, .bias = true, .relu = true});
  const std::vector<schedule::Trace> space = space::generate_space(gemm.kernel, a100);
  REQUIRE_FALSE(space.empty());
  const std::string text = text_of(space[0]);
  auto tiles = [&](int factors) {
    return std::any_of(space[0].instructions.begin(), space[0].instructions.end(),
                       [&](const schedule::Instruction& in) {
                         return in.op == schedule::Op::kSamplePerfectTile && in.outputs == factors;
                       });
  };
  CHECK((tiles(5) && tiles(3)));
  for (const char* part :
       {"max_innermost=64", "bind", "cache_write", "cache_read", "read=0 scope=shared", "read=1 scope=shared"})
    CHECK(has(text, part));
  // Bias and activation go with the accumulators: one launch.
  auto arena = std::make_shared<Arena>();
  auto k = schedule::replay(space[0], space[0].decisions, gemm.kernel, arena);
  REQUIRE(k);
  auto lowered = lower::lower(*k, a100, ir::Stage::kLowered, arena);
  REQUIRE(lowered);
  CHECK(ir::as<ir::Loop>(lowered->root) != nullptr);
  const std::string code = ir::print(*lowered);
  CHECK(has(code, "bar.sync"));
  CHECK(has(code, "shared"));
  CHECK_FALSE(has(code, "workspace"));
}

TEST_CASE("a product's copies that turn rows into columns go element by element where they are asynchronous",
          "[gpu_space]") {
  // Rows of A and of B's transpose hold the terms of the sum.
  const auto free_copies = [](const char* target, bool trans_b) {
    const task::Task task = task::make_gemm({.m = 256, .n = 192, .k = 64, .trans_b = trans_b});
    space::SpaceOptions options;
    options.modules = {"gpu_tiling"};
    const std::vector<schedule::Trace> traces = space::generate_space(task.kernel, named_target(target), options);
    REQUIRE(traces.size() == 2);
    const std::string text = text_of(traces[1]);
    int free = 0;
    for (size_t at = text.find("candidates=[1, 2, 3, 4]"); at != std::string::npos;
         at = text.find("candidates=[1, 2, 3, 4]", at + 1))
      ++free;
    return free;
  };
  CHECK(free_copies("h100", false) == 1);
  CHECK(free_copies("h100", true) == 0);
  CHECK(free_copies("t4", false) == 2);
}

TEST_CASE("sketches of GPU spaces stay symbolic", "[gpu_space]") {
  const target::Target a100 = named_target("a100");
  const task::ConvParams layer = {
      .channels = 64, .filters = 64, .size = {56, 56}, .kernel = {3, 3}, .pads = {1, 1}, .bias = true, .relu = true};
  for (const task::Task& t : {task::make_gemm({.m = 1024, .n = 1024, .k = 1024}), task::make_conv(layer)}) {
    INFO(t.workload);
    const std::vector<schedule::Trace> space = space::generate_space(t.kernel, a100);
    REQUIRE_FALSE(space.empty());
    ir::Legal<space::Sketch> sketch = space::make_sketch(space[0], t.kernel, a100);
    REQUIRE(sketch.has_value());
    CHECK(sketch->symbolic);
  }
}

TEST_CASE("a product of halves uses matrix instructions where the GPU has them", "[gpu_space]") {
  const task::Task gemm = task::make_gemm({.m = 64, .n = 64, .k = 64, .dtype = graph::DType::kF16});
  auto uses = [&](const char* name, const char* row = "tensorize(\"mma.m16n8k16.f32.f16") {
    for (const schedule::Trace& trace : space::generate_space(gemm.kernel, named_target(name)))
      if (has(text_of(trace), row)) return true;
    return false;
  };
  CHECK(uses("a100"));
  CHECK(uses("h200"));
  CHECK_FALSE(uses("k80"));
  CHECK_FALSE(uses("v100"));
  // WMMA, where there is nothing else.
  const char* wmma = "tensorize(\"wmma.m16n16k16.f32.f16";
  for (const char* name : {"v100", "titan-v"}) CHECK(uses(name, wmma));
  for (const char* name : {"k80", "t4", "a100", "h200"}) CHECK_FALSE(uses(name, wmma));
  // Single precision is not rounded to tf32 unless asked for.
  const task::Task single = task::make_gemm({.m = 64, .n = 64, .k = 64});
  for (bool allowed : {false, true}) {
    space::SpaceOptions options;
    options.gpu.allow_tf32 = allowed;
    bool found = false;
    for (const schedule::Trace& trace : space::generate_space(single.kernel, named_target("a100"), options))
      found |= has(text_of(trace), "tf32");
    CHECK(found == allowed);
  }
}

TEST_CASE("a convolution of halves is a product of matrices", "[gpu_space]") {
  const task::Task conv = task::make_conv({.batch = 1,
                                           .channels = 64,
                                           .filters = 64,
                                           .size = {28, 28},
                                           .kernel = {3, 3},
                                           .pads = {1, 1},
                                           .bias = true,
                                           .relu = true,
                                           .dtype = graph::DType::kF16});
  const target::Target a100 = named_target("a100");
  const std::vector<schedule::Trace> space = space::generate_space(conv.kernel, a100);
  REQUIRE(has(text_of(space.at(0)), "tensorize(\"mma.m16n8k16.f32.f16\""));
  // Padding, bias and activation go with it: one launch.
  auto arena = std::make_shared<Arena>();
  auto k = schedule::replay(space[0], space[0].decisions, conv.kernel, arena);
  REQUIRE(k);
  auto lowered = lower::lower(*k, a100, ir::Stage::kLowered, arena);
  REQUIRE(lowered);
  CHECK(ir::as<ir::Loop>(lowered->root) != nullptr);
  CHECK(has(ir::print(*lowered), "ldmatrix"));
}

TEST_CASE("what keeps a GPU's matrix instructions away is said", "[gpu_space]") {
  auto why = [](const task::Task& t, const char* target) {
    return fmt::format("{}",
                       fmt::join(space::unmet_conditions_of_matrix_instruction(t.kernel, named_target(target)), "; "));
  };
  const auto half = graph::DType::kF16;
  const task::Task product = task::make_gemm({.m = 33, .n = 64, .k = 64, .dtype = half});
  CHECK(why(product, "a100").empty());
  CHECK(why(product, "t4").empty());
  CHECK(why(product, "v100").empty());
  CHECK_THAT(why(product, "k80"), Catch::Contains("k80 has no matrix instruction that this version knows"));
  CHECK_THAT(why(task::make_gemm({.m = 33, .n = 64, .k = 64, .dtype = graph::DType::kBF16}), "v100"),
             Catch::Contains("the matrix instructions of v100 in use here multiply f16, not bf16"));
  CHECK_THAT(why(task::make_gemm({.m = 33, .n = 64, .k = 64}), "a100"),
             Catch::Contains("with --precision tf32, or convert the model with --precision f16 or bf16"));
  CHECK(why(tcc::testing::allow_tf32(task::make_gemm({.m = 33, .n = 64, .k = 64})), "a100").empty());
  CHECK_THAT(why(tcc::testing::allow_tf32(task::make_gemm({.m = 33, .n = 64, .k = 64})), "t4"),
             Catch::Contains("multiply f16, not f32: convert"));
  CHECK_THAT(why(task::make_softmax({8, 100}, 1), "a100"), Catch::Contains("no sum of products of two tensors"));
  CHECK_THAT(
      why(task::make_conv(
              {.batch = 1, .channels = 4, .filters = 4, .group = 4, .size = {8, 8}, .kernel = {3, 3}, .dtype = half}),
          "a100"),
      Catch::Contains("both operands move with"));
}

TEST_CASE("sums are split where results are few", "[gpu_space]") {
  auto splits = [](const task::Task& t) {
    for (const schedule::Trace& trace : space::generate_space(t.kernel, named_target("a100")))
      if (has(text_of(trace), "rfactor")) return true;
    return false;
  };
  CHECK(splits(task::make_gemm({.m = 64, .n = 64, .k = 4096, .dtype = graph::DType::kF16})));
  CHECK_FALSE(splits(task::make_gemm({.m = 2048, .n = 2048, .k = 512, .dtype = graph::DType::kF16})));
  // Of a convolution's sum the channels are cut, where parts of them stay.
  const auto conv = [](int64_t channels, int64_t size) {
    return task::make_conv(
        {.batch = 1, .channels = channels, .filters = 64, .size = {size, size}, .kernel = {3, 3}, .pads = {1, 1}});
  };
  CHECK(splits(conv(128, 14)));
  CHECK_FALSE(splits(conv(127, 14)));
  CHECK_FALSE(splits(conv(8, 14)));
  CHECK_FALSE(splits(conv(128, 200)));
  CHECK_FALSE(splits(task::make_gemm({.m = 64, .n = 64, .k = 96, .dtype = graph::DType::kF16})));
}

TEST_CASE("a softmax for a GPU is one launch with the threads of a block on each row", "[gpu_space]") {
  const target::Target a100 = named_target("a100");
  const task::Task softmax = task::make_softmax({64, 200}, 1);
  const std::vector<schedule::Trace> space = space::generate_space(softmax.kernel, a100);
  REQUIRE(space.size() >= 2);
  auto arena = std::make_shared<Arena>();
  auto k = schedule::replay(space[0], space[0].decisions, softmax.kernel, arena);
  REQUIRE(k);
  auto lowered = lower::lower(*k, a100, ir::Stage::kLowered, arena);
  if (!lowered) FAIL(lowered.error().text);
  CHECK(ir::as<ir::Loop>(lowered->root) != nullptr);
}

TEST_CASE("windows for a GPU have a form in tiles, and the average's division goes along with the sum", "[gpu_space]") {
  const target::Target a100 = named_target("a100");
  for (const bool average : {false, true}) {
    const task::Task pool = task::make_pool(
        {.average = average, .channels = 12, .size = {21, 30}, .kernel = {3, 3}, .strides = {2, 2}, .pads = {}});
    int tiled = 0, launches = 0, legal = 0;
    for (const schedule::Trace& trace : space::generate_space(pool.kernel, a100)) {
      tiled += has(text_of(trace), "sample_perfect_tile") ? 1 : 0;
      auto arena = std::make_shared<Arena>();
      auto k = schedule::replay(trace, trace.decisions, pool.kernel, arena);
      auto lowered = k ? lower::lower(*k, a100, ir::Stage::kLowered, arena) : k;
      if (!lowered) continue;
      ++legal;
      launches = std::max(launches, ir::as<ir::Loop>(lowered->root) != nullptr ? 1 : 2);
    }
    INFO((average ? "average" : "maximum"));
    CHECK(tiled == 1);
    CHECK(legal >= 2);
    CHECK(launches == 1);
  }
}

TEST_CASE("warpgroups multiply halves where the GPU has them, in tiles that the results fill", "[gpu_space]") {
  auto instructions = [](const task::Task& t, const char* target) {
    std::string all;
    for (const schedule::Trace& trace : space::generate_space(t.kernel, named_target(target))) {
      const std::string text = text_of(trace);
      const size_t at = text.find("wgmma");
      if (at != std::string::npos) all += text.substr(at, text.find('"', at) - at) + ";";
    }
    return all;
  };
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16;
  const task::Task large = task::make_gemm({.m = 1024, .n = 1024, .k = 512, .dtype = half});
  CHECK(instructions(large, "a100").empty());
  const std::string found = instructions(large, "h200");
  for (const char* n : {"n256", "n128", "n64"}) CHECK(has(found, fmt::format("wgmma.m64{}k16.f32.f16.trans_b;", n)));
  // Sums in parts, and whole.
  CHECK(instructions(task::make_gemm({.m = 128, .n = 64, .k = 512, .trans_b = true, .dtype = brain}), "h100") ==
        "wgmma.m64n64k16.f32.bf16;wgmma.m64n64k16.f32.bf16;");
  CHECK(instructions(task::make_gemm({.m = 128, .n = 64, .k = 128, .trans_b = true, .dtype = brain}), "h100") ==
        "wgmma.m64n64k16.f32.bf16;");
  // Single precision, long rows of the wrong length, one step only, few rows.
  CHECK(instructions(task::make_gemm({.m = 1024, .n = 1024, .k = 512}), "h200").empty());
  CHECK(instructions(task::make_gemm({.m = 256, .n = 256, .k = 129, .dtype = half}), "h200").empty());
  CHECK(instructions(task::make_gemm({.m = 256, .n = 256, .k = 64, .dtype = half}), "h200").empty());
  CHECK(instructions(task::make_gemm({.m = 8, .n = 256, .k = 256, .dtype = half}), "h200").empty());
}

TEST_CASE("as many blocks walk over a grid of products as the device holds, in clusters, too", "[gpu_space]") {
  const task::Task large = task::make_gemm({.m = 8192, .n = 8192, .k = 512, .dtype = graph::DType::kF16});
  auto walkers = [&](const target::Target& target) {
    std::set<int64_t> out;
    for (const schedule::Trace& trace : space::generate_space(large.kernel, target)) {
      for (const schedule::Instruction& user : trace.instructions) {
        if (user.op != schedule::Op::kAnnotate ||
            schedule::enumerator<ir::AnnotationKey>(user, "key") != ir::AnnotationKey::kPersistentBlocks)
          continue;
        for (const schedule::Instruction& in : trace.instructions)
          if (in.op == schedule::Op::kSampleCategorical &&
              std::find(user.inputs.begin(), user.inputs.end(), schedule::variable(in.first_output)) !=
                  user.inputs.end())
            for (int64_t n : schedule::attribute(in, "candidates")) out.insert(n);
      }
    }
    return out;
  };
  // 132 multiprocessors hold 29 clusters of four.
  target::Target h200 = named_target("h200");
  CHECK(walkers(h200) == std::set<int64_t>{0, 116, 132, 232, 264});
  h200.cuda.clusters_of_4 = 31;
  CHECK(walkers(h200) == std::set<int64_t>{0, 124, 132, 248, 264});
}

TEST_CASE("what keeps a GPU's warpgroups from a product is said", "[gpu_space]") {
  auto why = [](const task::Task& t, const char* target) {
    return fmt::format(
        "{}", fmt::join(space::unmet_conditions_of_warpgroup_instruction(t.kernel, named_target(target)), "; "));
  };
  using Catch::Contains;
  const auto half = graph::DType::kF16;
  CHECK(why(task::make_gemm({.m = 256, .n = 256, .k = 256, .dtype = half}), "h200").empty());
  CHECK(why(task::make_gemm({.m = 8, .n = 256, .k = 256, .dtype = half}), "a100").empty());
  CHECK_THAT(why(task::make_gemm({.m = 256, .n = 256, .k = 256}), "h200"),
             Contains("round f32 to tf32: allow it with --precision tf32"));
  CHECK_THAT(why(task::make_gemm({.m = 256, .n = 256, .k = 256, .dtype = graph::DType::kF64}), "h200"),
             Contains("multiply f16, bf16 and tf32 here, not f64"));
  const auto allowed = [](const task::GemmParams& params) { return tcc::testing::allow_tf32(task::make_gemm(params)); };
  CHECK(why(allowed({.m = 256, .n = 256, .k = 96, .trans_b = true}), "h200").empty());
  CHECK_THAT(why(allowed({.m = 256, .n = 256, .k = 96}), "h200"),
             Contains("the second operand has its columns side by side"));
  CHECK_THAT(why(allowed({.m = 256, .n = 256, .k = 32, .trans_b = true}), "h200"), Contains("nothing runs ahead"));
  CHECK_THAT(why(allowed({.m = 256, .n = 256, .k = 98, .trans_b = true}), "h200"),
             Contains("not multiples of 16 bytes"));
  CHECK_THAT(why(task::make_gemm({.m = 8, .n = 256, .k = 256, .dtype = half}), "h200"),
             Contains("8 x 256 results are less than half of a tile"));
  CHECK_THAT(why(task::make_gemm({.m = 256, .n = 256, .k = 64, .dtype = half}), "h200"),
             Contains("nothing runs ahead"));
  CHECK_THAT(why(task::make_gemm({.m = 256, .n = 250, .k = 256, .dtype = half}), "h200"),
             Contains("not multiples of 16 bytes"));
  CHECK_THAT(why(task::make_gemm({.m = 256, .n = 256, .k = 256, .trans_a = true, .dtype = half}), "h200"),
             Contains("the first operand is stored transposed"));
  CHECK_THAT(
      why(task::make_conv({.batch = 1, .channels = 64, .filters = 64, .size = {8, 8}, .kernel = {3, 3}, .dtype = half}),
          "h200"),
      Contains("does not read its operands as two matrices"));
}
