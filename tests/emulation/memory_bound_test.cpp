// Programs for GPUs whose time is that of memory: those of the modules for elementwise blocks, transposes, rows and
// columns equal the reference, on the PTX machine, for odd sizes and several types.
#include "emulation/programs.h"
#include "nvrtc.h"
#include "sample_tasks.h"
#include "tcc/analysis/shared_traffic.h"
#include "tcc/ir/text.h"
#include "traces/task_shapes.h"

using namespace tcc;
using namespace tcc::emulation;
using namespace tcc::emulation::testing;
using tcc::testing::make_operator;

namespace {

task::Task sum_of(const graph::Shape& shape, graph::DType type) {
  return make_operator(graph::Op::kAdd, graph::NoAttrs{}, {shape, shape}, type);
}

// Runs draws of each trace of the space of one module, and of all traces where it applies; the number that ran.
int64_t check_module(const task::Task& task, const std::string& module, int draws, double tolerance) {
  const target::Target target = gpu("a100");
  const tcc::testing::Reference reference(task.kernel, tolerance);
  space::SpaceOptions options;
  options.modules = {"gpu_inline", module};
  Rng rng(7);
  int64_t ran = 0;
  const space::SpaceReport report = space::explore_space(task.kernel, target, space::modules_for(target), options);
  std::string rejects;
  for (const auto& m : report.modules)
    for (const auto& [reason, entry] : m.rejects.by_reason)
      rejects += fmt::format("\n{} {}: {} ({})", m.module, entry.count, reason, entry.example);
  for (const auto& d : report.dropped)
    for (const auto& [reason, entry] : d.rejects.by_reason)
      rejects += fmt::format("\ndropped, {}: {} {} ({})", d.modules, entry.count, reason, entry.example);
  for (const schedule::Trace& trace : report.traces) {
    if (trace.instructions.empty() || schedule::print_trace(trace).find("bind") == std::string::npos) continue;
    std::vector<int64_t> decisions = trace.decisions;
    int done = 0;
    for (int draw = 0; draw < 20 * draws && done < draws; ++draw) {
      auto arena = std::make_shared<Arena>();
      auto scheduled = draw == 0 ? schedule::replay(trace, decisions, task.kernel, arena)
                                 : schedule::sample(trace, decisions, task.kernel, arena, rng);
      if (!scheduled) continue;
      auto nest = lower::lower(*scheduled, target, ir::Stage::kNest, arena);
      if (!nest) continue;
      schedule::Trace shown = trace;
      shown.decisions = decisions;
      const std::string what = fmt::format("{} by {}\n{}", task.workload, module, schedule::print_trace(shown));
      auto lowered = lower::lower(*scheduled, target, ir::Stage::kLowered, arena);
      if (!lowered) FAIL(what << lowered.error().text << "\n" << ir::print(*nest));
      reference.check(*lowered, what, static_cast<uint64_t>(draw) + 1);
      if (codegen::nvrtc_available()) check(reference, *lowered, target, what, static_cast<uint64_t>(draw) + 1);
      ++done, ++ran;
    }
  }
  if (!rejects.empty()) WARN(task.workload << ": " << ran << " ran;" << rejects);
  return ran;
}

}  // namespace

TEST_CASE("elementwise kernels move vectors", "[emulation][memory_bound]") {
  for (const graph::DType type : {graph::DType::kF32, graph::DType::kF16, graph::DType::kBF16}) {
    const double tolerance = type == graph::DType::kF32 ? 1e-5 : 2e-2;
    CHECK(check_module(sum_of({3, 5, 70}, type), "gpu_elementwise", 3, tolerance) >= 3);
    CHECK(check_module(sum_of({4, 512}, type), "gpu_elementwise", 3, tolerance) >= 3);
  }
}

TEST_CASE("transposes go through tiles", "[emulation][memory_bound]") {
  for (const graph::DType type : {graph::DType::kF32, graph::DType::kF16})
    for (const graph::Shape& shape : {graph::Shape{64, 96}, graph::Shape{37, 45}, graph::Shape{2, 40, 128}}) {
      std::vector<int64_t> order = {1, 0};
      if (shape.size() == 3) order = {0, 2, 1};
      const task::Task t = make_operator(graph::Op::kTranspose, graph::TransposeAttrs{order}, {shape}, type);
      CHECK(check_module(t, "gpu_transpose", 3, 0) >= 3);
    }
}

TEST_CASE("rows stay in registers, stream, or are cut into parts", "[emulation][memory_bound]") {
  CHECK(check_module(task::make_softmax({32, 100}, 1), "gpu_rows", 3, 1e-5) >= 3);
  CHECK(check_module(task::make_softmax({6, 520}, 1), "gpu_rows", 3, 1e-5) >= 6);
  CHECK(check_module(make_operator(graph::Op::kLayerNorm, graph::LayerNormAttrs{1, 1e-5}, {{16, 96}, {96}, {96}}),
                     "gpu_rows", 3, 1e-4) >= 3);
  CHECK(check_module(task::make_reduction({5, 240}, {1}, graph::Op::kReduceSum), "gpu_rows", 3, 1e-5) >= 3);
  CHECK(check_module(task::make_reduction({64, 96}, {1}, graph::Op::kReduceMean), "gpu_rows", 3, 1e-5) >= 3);
  CHECK(check_module(make_operator(graph::Op::kReduceSum, graph::ReduceAttrs{{0, 1}}, {{160, 128}}, graph::DType::kF16),
                     "gpu_rows", 3, 2e-2) >= 3);
  CHECK(check_module(task::make_reduction({20001}, {0}, graph::Op::kReduceSum), "gpu_rows", 3, 1e-4) >= 3);
  // Rows that are streamed once for each pass, also of a length without divisors.
  CHECK(check_module(task::make_softmax({2, 8209}, 1), "gpu_rows", 2, 1e-5) >= 4);
  CHECK(check_module(make_operator(graph::Op::kLayerNorm, graph::LayerNormAttrs{1, 1e-5},
                                   {{2, 16384}, {16384}, {16384}}, graph::DType::kF16),
                     "gpu_rows", 2, 3e-2) >= 4);
  CHECK(check_module(task::make_reduction({2, 32768}, {1}, graph::Op::kReduceMax), "gpu_rows", 3, 1e-5) >= 3);
  // Chunks that the rows fill, and those that they do not.
  CHECK(check_module(make_operator(graph::Op::kSoftmax, graph::AxisAttrs{1}, {{3, 12296}}, graph::DType::kF16),
                     "gpu_rows", 2, 2e-2) >= 6);
  CHECK(check_module(make_operator(graph::Op::kLayerNorm, graph::LayerNormAttrs{1, 1e-5}, {{2, 9001}, {9001}, {9001}}),
                     "gpu_rows", 2, 1e-4) >= 4);
}

namespace {

auto pool(graph::Op op, const graph::Shape& shape, int64_t kernel, int64_t stride, int64_t pad, graph::DType type) {
  const graph::PoolAttrs attrs{{kernel, kernel}, {stride, stride}, {1, 1}, {pad, pad}, {pad, pad}, false, false, 1};
  return make_operator(op, attrs, {shape}, type);
}

}  // namespace

TEST_CASE("windows are loaded as rows into registers", "[emulation][memory_bound]") {
  const graph::DType half = graph::DType::kF16;
  CHECK(check_module(pool(graph::Op::kMaxPool, {2, 3, 9, 16}, 3, 2, 1, half), "gpu_windows", 3, 0) >= 2);
  CHECK(check_module(pool(graph::Op::kMaxPool, {1, 5, 12, 24}, 2, 2, 0, half), "gpu_windows", 3, 0) >= 2);
  CHECK(check_module(pool(graph::Op::kMaxPool, {2, 2, 7, 12}, 3, 1, 1, graph::DType::kF32), "gpu_windows", 3, 0) >= 2);
  // Rows that begin at half vectors, in vectors of that width.
  CHECK(check_module(pool(graph::Op::kMaxPool, {1, 3, 9, 36}, 3, 3, 0, half), "gpu_windows", 3, 0) >= 2);
  CHECK(check_module(pool(graph::Op::kMaxPool, {1, 3, 11, 44}, 5, 3, 2, half), "gpu_windows", 3, 0) >= 0);
  CHECK(check_module(pool(graph::Op::kAveragePool, {2, 3, 8, 16}, 3, 1, 1, half), "gpu_windows", 3, 2e-2) >= 2);
  CHECK(check_module(pool(graph::Op::kAveragePool, {1, 2, 10, 16}, 2, 2, 0, graph::DType::kF32), "gpu_windows", 3,
                     1e-5) >= 2);
}

TEST_CASE("windows of odd rows are loaded as columns into registers", "[emulation][memory_bound]") {
  const graph::DType half = graph::DType::kF16;
  // Heights that strips of a column divide, and a prime one.
  CHECK(check_module(pool(graph::Op::kMaxPool, {2, 3, 9, 15}, 3, 1, 1, half), "gpu_windows", 3, 0) >= 2);
  CHECK(check_module(pool(graph::Op::kMaxPool, {1, 2, 31, 7}, 3, 1, 1, graph::DType::kF32), "gpu_windows", 3, 0) >= 2);
  CHECK(check_module(pool(graph::Op::kMaxPool, {1, 4, 25, 27}, 3, 2, 1, half), "gpu_windows", 3, 0) >= 2);
  CHECK(check_module(pool(graph::Op::kMaxPool, {1, 3, 22, 18}, 2, 2, 0, half), "gpu_windows", 3, 0) >= 2);
  CHECK(check_module(pool(graph::Op::kAveragePool, {2, 3, 15, 15}, 3, 1, 1, half), "gpu_windows", 3, 2e-2) >= 2);
  CHECK(check_module(pool(graph::Op::kAveragePool, {1, 2, 21, 9}, 2, 2, 0, graph::DType::kF32), "gpu_windows", 3,
                     1e-5) >= 2);
}

TEST_CASE("short rows come as one run and have a thread each", "[emulation][memory_bound]") {
  auto reduce = [](graph::Op op, const graph::Shape& shape, std::vector<int64_t> axes, graph::DType type) {
    return make_operator(op, graph::ReduceAttrs{std::move(axes)}, {shape}, type);
  };
  const graph::DType f16 = graph::DType::kF16, bf16 = graph::DType::kBF16, f32 = graph::DType::kF32;
  CHECK(check_module(reduce(graph::Op::kReduceMean, {2, 96, 7, 7}, {2, 3}, f16), "gpu_short_rows", 3, 2e-2) >= 3);
  CHECK(check_module(reduce(graph::Op::kReduceSum, {128, 9}, {1}, f32), "gpu_short_rows", 3, 1e-5) >= 3);
  CHECK(check_module(reduce(graph::Op::kReduceMax, {3, 64, 61}, {2}, bf16), "gpu_short_rows", 3, 0) >= 3);
}

// A pooling as an image with channels last has it: no window along the contiguous dimension.
task::Task channels_last(bool max, int64_t n, int64_t h, int64_t w, int64_t channels, int64_t kernel, int64_t stride,
                         const char* type) {
  const int64_t oh = (h - kernel) / stride + 1, ow = (w - kernel) / stride + 1;
  const std::string at = fmt::format("image[vn, vy*{} + vky, vx*{} + vkx, vc]", stride, stride);
  const std::string term = std::string_view(type) == "f32" ? at : fmt::format("f32({})", at);
  const std::string update =
      max ? fmt::format("max(acc[vn, vy, vx, vc], {})", term) : fmt::format("acc[vn, vy, vx, vc] + {}", term);
  const std::string scaled =
      max ? "acc[vn, vy, vx, vc]" : fmt::format("acc[vn, vy, vx, vc] * {}", 1.0 / static_cast<double>(kernel * kernel));
  const std::string result = std::string_view(type) == "f32" ? scaled : fmt::format("{}({})", type, scaled);
  const std::string loops =
      fmt::format("for n in {} {{\nfor y in {} {{\nfor x in {} {{\nfor c in {} {{\n", n, oh, ow, channels);
  const std::string iters = fmt::format(
      "vn: spatial {} = n, vy: spatial {} = y, vx: spatial {} = x, vc: spatial {} = c", n, oh, ow, channels);
  const std::string text = fmt::format(
      "kernel built {{\n  input image: {0}[{1}, {2}, {3}, {4}]\n  output out: {0}[{1}, {5}, {6}, {4}]\n"
      "  temp acc: f32[{1}, {5}, {6}, {4}]\n{7}for ky in {8} {{\nfor kx in {8} {{\n"
      "block pool({9}, vky: reduce {8} = ky, vkx: reduce {8} = kx) reduce({10}) {{\n"
      "init {{\nacc[vn, vy, vx, vc] = {11}\n}}\nacc[vn, vy, vx, vc] = {12}\n}}\n}}\n}}\n}}\n}}\n}}\n}}\n"
      "{7}block leave({9}) {{\nout[vn, vy, vx, vc] = {13}\n}}\n}}\n}}\n}}\n}}\n}}\n",
      type, n, h, w, channels, oh, ow, loops, kernel, iters, max ? "max" : "sum", max ? "-inf" : "0.0", update, result);
  auto parsed = ir::parse(text, "channels_last");
  if (!parsed) FAIL(parsed.error().message << "\n" << text);
  task::Task out;
  out.kernel = *parsed;
  out.workload = fmt::format("{} pool {}x{}x{}x{} kernel {} stride {} {}", max ? "max" : "mean", n, h, w, channels,
                             kernel, stride, type);
  return out;
}

TEST_CASE("windows of images with channels last are vectors of channels", "[emulation][memory_bound]") {
  Rng rng(23);
  // The numbers of channels that 16 bytes do not divide keep the widest vector that they allow.
  for (const auto& [type, channels, tolerance] :
       {std::tuple{"f16", 24, 2e-2}, {"bf16", 12, 6e-2}, {"f16", 6, 2e-2}, {"f32", 20, 1e-5}, {"f32", 6, 1e-5}})
    for (const bool max : {true, false}) {
      const int64_t kernel = 2 + rng.below(2), stride = 1 + rng.below(3);
      const task::Task t = channels_last(max, 1 + rng.below(2), kernel + 1 + rng.below(7), kernel + 2 + rng.below(6),
                                         channels, kernel, stride, type);
      CHECK(check_module(t, "gpu_windows", 3, max ? 0 : tolerance) >= 2);
    }
}

TEST_CASE("the spaces hold 16-byte accesses, and tiles of transposes without bank conflicts",
          "[emulation][memory_bound]") {
  if (skipped()) return;
  struct Case {
    task::Task task;
    const char* module;
    std::vector<const char*> parts;  // of the source of one program
  };
  const graph::DType half = graph::DType::kF16;
  const std::vector<Case> cases = {
      {sum_of({4096, 512}, half), "gpu_elementwise", {"tcc_load<8>", "tcc_store<8>"}},
      {sum_of({4096, 512}, graph::DType::kF32), "gpu_elementwise", {"tcc_load<4>", "tcc_store<4>"}},
      {sum_of({1023, 2047}, half), "gpu_elementwise", {"tcc_load<8>", "tcc_store<8>"}},
      {sum_of({63, 65, 511}, graph::DType::kF32), "gpu_elementwise", {"tcc_load<4>", "tcc_store<4>"}},
      {make_operator(graph::Op::kReduceMean, graph::ReduceAttrs{{2, 3}}, {{16, 256, 7, 7}}, half),
       "gpu_short_rows",
       {"tcc_load<8>"}},
      {make_operator(graph::Op::kAdd, graph::NoAttrs{}, {{4096, 512}, {512}}, half),
       "gpu_elementwise",
       {"tcc_load<8>", "tcc_store<8>"}},
      {make_operator(graph::Op::kTranspose, graph::TransposeAttrs{{1, 0}}, {{1024, 2048}}, half),
       "gpu_transpose",
       {"tcc_load<8>(x", "tcc_store<8>(out"}},
      {make_operator(graph::Op::kSoftmax, graph::AxisAttrs{1}, {{512, 1024}}, half),
       "gpu_rows",
       {"tcc_load<8>", "tcc_store<8>", "shfl"}},
      {make_operator(graph::Op::kLayerNorm, graph::LayerNormAttrs{1, 1e-5}, {{512, 1024}, {1024}, {1024}}, half),
       "gpu_rows",
       {"tcc_load<8>", "tcc_store<8>", "shfl"}},
      {task::make_reduction({2048, 4096}, {0, 1}, graph::Op::kReduceSum), "gpu_rows", {"tcc_load<4>", "shfl"}},
      {task::make_reduction({4096, 2048}, {0}, graph::Op::kReduceSum), "gpu_columns", {"tcc_load<4>"}},
      {make_operator(graph::Op::kReduceSum, graph::ReduceAttrs{{0}}, {{4096, 8192}}, half),
       "gpu_columns",
       {"tcc_load<8>"}},
      {make_operator(graph::Op::kMaxPool, graph::PoolAttrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, false, false, 1},
                     {{4, 8, 56, 112}}, half),
       "gpu_windows",
       {"tcc_load<8>", "tcc_store<8>"}},
      {channels_last(true, 4, 57, 57, 64, 3, 2, "f16"), "gpu_windows", {"tcc_load<8>", "tcc_store<8>"}},
  };
  const target::Target target = gpu("a100");
  for (const Case& c : cases) {
    INFO(c.task.workload);
    space::SpaceOptions options;
    options.modules = {"gpu_inline", c.module};
    Rng rng(3);
    bool found = false;
    std::string last;
    for (const schedule::Trace& trace : space::generate_space(c.task.kernel, target, options))
      for (int draw = 0; draw < 200 && !found; ++draw) {
        std::vector<int64_t> decisions = trace.decisions;
        auto arena = std::make_shared<Arena>();
        auto scheduled = schedule::sample(trace, decisions, c.task.kernel, arena, rng);
        if (!scheduled) continue;
        auto lowered = lower::lower(*scheduled, target, ir::Stage::kLowered, arena);
        if (!lowered) continue;
        auto source = codegen::emit_cuda_source(*lowered, target);
        REQUIRE(source.has_value());
        last = source->text.substr(codegen::cuda_prelude().size());
        found = std::all_of(c.parts.begin(), c.parts.end(),
                            [&](const char* part) { return last.find(part) != std::string::npos; });
        if (found && std::string_view(c.module) == "gpu_transpose") {
          const analysis::SharedTraffic traffic = analysis::shared_traffic(*lowered);
          found = traffic.cycles > 0 && traffic.conflicts <= 0.05 * traffic.cycles;
        }
      }
    INFO(last);
    CHECK(found);
  }
}

TEST_CASE("long rows with two statistics are read twice, whatever their length", "[emulation][memory_bound]") {
  const target::Target target = gpu("a100");
  for (const task::Task& t :
       {make_operator(graph::Op::kSoftmax, graph::AxisAttrs{1}, {{128, 131072}}, graph::DType::kF16),
        make_operator(graph::Op::kLayerNorm, graph::LayerNormAttrs{1, 1e-5}, {{64, 262144}, {262144}, {262144}},
                      graph::DType::kF16)}) {
    INFO(t.workload);
    space::SpaceOptions options;
    options.modules = {"gpu_inline", "gpu_rows"};
    Rng rng(5);
    bool found = false;
    for (const schedule::Trace& trace : space::generate_space(t.kernel, target, options)) {
      if (schedule::print_trace(trace).find("stream_reduction") == std::string::npos) continue;
      found = true;
      std::vector<int64_t> decisions = trace.decisions;
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = ir::reject(ir::RejectReason::kUnsupported, "");
      for (int draw = 0; draw < 50 && !nest; ++draw) {
        auto scheduled = schedule::sample(trace, decisions, t.kernel, arena, rng);
        if (scheduled) nest = lower::lower(*scheduled, target, ir::Stage::kNest, arena);
      }
      REQUIRE(nest.has_value());
      // Elements of the row that the launch's statements load.
      const std::string text = ir::print(*nest);
      int64_t loads = 0;
      for (size_t at = text.find(" = "); at != std::string::npos; at = text.find(" = ", at + 1)) {
        const std::string line = text.substr(at, text.find('\n', at) - at);
        loads += line.find(ir::name_hint(*nest, nest->buffers[0]->id) + "[") != std::string::npos ? 1 : 0;
      }
      INFO(text);
      CHECK(loads == 2);
    }
    CHECK(found);
  }
}

TEST_CASE("columns are added up side by side", "[emulation][memory_bound]") {
  CHECK(check_module(task::make_reduction({64, 48}, {0}, graph::Op::kReduceMax), "gpu_columns", 3, 1e-5) >= 3);
  CHECK(check_module(task::make_reduction({333, 77}, {0}, graph::Op::kReduceSum), "gpu_columns", 3, 1e-4) >= 3);
  CHECK(check_module(task::make_reduction({2, 200, 40}, {1}, graph::Op::kReduceSum), "gpu_columns", 3, 1e-4) >= 3);
  // Sums of halves are rounded, and means divided, by the threads that have them.
  CHECK(check_module(make_operator(graph::Op::kReduceMean, graph::ReduceAttrs{{0}}, {{300, 160}}, graph::DType::kF16),
                     "gpu_columns", 3, 2e-2) >= 3);
}
