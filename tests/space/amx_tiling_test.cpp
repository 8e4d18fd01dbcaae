// Matrix products on AMX tiles: the same values as the naive kernel at sizes that are whole tiles and at sizes that are
// not, the instructions in the code, and their run where the processor has them.
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <fmt/ranges.h>

#include "int_product.h"
#include "machine_code.h"
#include "run_kernel.h"
#include "sample_tasks.h"
#include "skip.h"
#include "tcc/codegen/llvm.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/space/matrix_instruction.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/task/task.h"

using namespace tcc;

namespace {

// What a processor with AMX and AVX-512 says of itself.
target::Target with_tiles() {
  target::Target t = *target::find_target("x86-64-v4");
  t.name = "with AMX";
  t.cpu.features.amx_tile = t.cpu.features.amx_bf16 = t.cpu.features.amx_int8 = true;
  t.cpu.features.avx512_bf16 = true;
  return t;
}

bool uses_tiles(const ir::Kernel& k) {
  bool found = false;
  ir::visit(k.root, [&](ir::Stmt s) {
    found |= s->kind == ir::StmtKind::kInstrCall;
    return !found;
  });
  return found;
}

// Traces of the space whose kernels call tile instructions.
std::vector<schedule::Trace> tile_traces(const ir::Kernel& kernel, const target::Target& target) {
  std::vector<schedule::Trace> out;
  for (const schedule::Trace& trace : space::generate_space(kernel, target)) {
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, kernel, arena);
    REQUIRE(k.has_value());
    if (uses_tiles(*k)) out.push_back(trace);
  }
  return out;
}

std::vector<std::pair<std::string, ir::Kernel>> products() {
  std::vector<std::pair<std::string, ir::Kernel>> out;
  for (auto [m, n, k] : {std::array<int64_t, 3>{64, 64, 64}, {5, 6, 7}, {33, 70, 65}, {1, 40, 100}, {48, 16, 32}})
    for (bool constant : {true, false})
      out.emplace_back(fmt::format("bf16 {}x{}x{} constant {}", m, n, k, constant),
                       task::make_gemm({.m = m,
                                        .n = n,
                                        .k = k,
                                        .bias = constant,
                                        .relu = true,
                                        .constant_weights = constant,
                                        .dtype = graph::DType::kBF16})
                           .kernel);
  for (auto [m, n, k] : {std::array<int64_t, 3>{32, 32, 64}, {17, 35, 100}, {64, 64, 128}})
    for (const char* a : {"i8", "u8"})
      for (const char* b : {"i8", "u8"})
        out.emplace_back(fmt::format("{} {}x{}x{} {}", a, m, n, k, b), testing::int_product(a, m, n, k, m == 17, b));
  return out;
}

int64_t count(const std::string& text, const std::string& piece) {
  int64_t n = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("products on tiles compute what the naive kernel computes") {
  target::Target target = with_tiles();
  for (const auto& [name, kernel] : products()) {
    INFO(name);
    Params want(kernel);
    REQUIRE(interp::run(kernel, want.pointers).ok());
    std::vector<schedule::Trace> traces = tile_traces(kernel, target);
    REQUIRE(!traces.empty());
    Rng rng(11);
    for (const schedule::Trace& trace : traces) {
      INFO(schedule::print_trace(trace));
      ir::Legal<space::Sketch> sketch = space::make_sketch(trace, kernel, target);
      REQUIRE(sketch.has_value());
      std::vector<int64_t> decisions = trace.decisions;
      for (int draw = 0; draw < 3; ++draw) {
        if (draw > 0) space::draw_decisions(*sketch, decisions, rng);
        auto arena = std::make_shared<Arena>();
        ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, target, arena);
        REQUIRE(nest.has_value());
        ir::Legal<ir::Kernel> lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
        REQUIRE(lowered.has_value());
        for (const ir::Kernel& k : {*nest, *lowered}) {
          INFO(ir::print(k));
          Params got(k);
          interp::Report report = interp::run(k, got.pointers);
          INFO(report.text());
          REQUIRE(report.ok());
          for (size_t p = 0; p < want.data.size(); ++p)
            for (int64_t i = 0; i < want.data[p].size(); ++i) REQUIRE(got.data[p].at(i) == want.data[p].at(i));
        }
      }
    }
  }
}

TEST_CASE("the code has four products a step and sets the tiles up once") {
  target::Target target = with_tiles();
  for (bool int8 : {false, true}) {
    ir::Kernel kernel =
        int8 ? testing::int_product("i8", 128, 128, 256)
             : task::make_gemm({.m = 128, .n = 128, .k = 256, .constant_weights = true, .dtype = graph::DType::kBF16})
                   .kernel;
    std::vector<schedule::Trace> traces = tile_traces(kernel, target);
    REQUIRE(!traces.empty());
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> k = schedule::replay(traces[0], traces[0].decisions, kernel, arena);
    REQUIRE(k.has_value());
    ir::Legal<ir::Kernel> lowered = lower::lower(*k, target, ir::Stage::kLowered, arena);
    REQUIRE(lowered.has_value());
    INFO(ir::print(*lowered));
    codegen::HostOptions options;
    options.want_assembly = true;
    auto artifact = codegen::compile_host(*lowered, target, options);
    if (!artifact) FAIL(artifact.error().message);
    const std::string& text = artifact->source;
    INFO(text);
    CHECK(count(text, int8 ? "tdpbssd\t" : "tdpbf16ps\t") == 4);
    CHECK(count(text, "tileloadd\t") == 4);
    CHECK(count(text, "tilestored\t") == 4);
    CHECK(count(text, "tilezero\t") == 4);
    // Set up ahead of every loop, given back once at the end.
    CHECK(count(text, "ldtilecfg") == 1);
    CHECK(count(text, "tilerelease") == 1);
    CHECK(text.find("ldtilecfg") < text.find("tdpb"));
    CHECK(text.find("ldtilecfg") < text.find(".LBB0_1:"));
  }
}

TEST_CASE("no tiles where the target has none or the types are others") {
  ir::Kernel bf16 =
      task::make_gemm({.m = 64, .n = 64, .k = 64, .constant_weights = true, .dtype = graph::DType::kBF16}).kernel;
  CHECK(tile_traces(bf16, *target::find_target("x86-64-v4")).empty());
  ir::Kernel f32 = task::make_gemm({.m = 64, .n = 64, .k = 64, .constant_weights = true}).kernel;
  CHECK(tile_traces(f32, with_tiles()).empty());
}

TEST_CASE("obstacles to tiles are named, and none where tiles are used") {
  const target::Target tiles = with_tiles(), plain = *target::find_target("x86-64-v3");
  auto unmet = [](const ir::Kernel& k, const target::Target& t) {
    return fmt::format("{}", fmt::join(space::unmet_conditions_of_matrix_instruction(k, t), "; "));
  };
  for (const auto& [name, kernel] : products()) {
    INFO(name);
    CHECK(unmet(kernel, tiles).empty() == !tile_traces(kernel, tiles).empty());
    CHECK(unmet(kernel, tiles).empty());
    CHECK(unmet(kernel, plain) == "x86-64-v3 has no matrix unit (AMX)");
  }
  using Catch::Matchers::Contains;
  auto gemm = task::make_gemm({.m = 64, .n = 64, .k = 64, .constant_weights = true}).kernel;
  CHECK_THAT(unmet(gemm, tiles), Contains("multiplies f32 by f32 into f32") && !Contains("no matrix unit"));
  CHECK_THAT(unmet(gemm, plain), Contains("multiplies f32 by f32 into f32") && Contains("no matrix unit"));
  auto conv = task::make_conv({.channels = 8, .filters = 8, .size = {8, 8}, .kernel = {3, 3}, .pads = {1, 1}}).kernel;
  CHECK_THAT(unmet(conv, tiles), Contains("runs over 3 loops"));
  CHECK_THAT(unmet(task::make_softmax({8, 8}, 1).kernel, tiles), Contains("no sum of products"));
  target::Target integers = tiles;
  integers.cpu.features.amx_bf16 = false;
  auto bf16 = task::make_gemm({.m = 64, .n = 64, .k = 64, .constant_weights = true, .dtype = graph::DType::kBF16});
  CHECK(unmet(bf16.kernel, integers) == "the matrix unit of with AMX does not multiply bf16");
  CHECK_THAT(unmet(gemm, *target::find_target("a100")), Contains("tf32"));
}

TEST_CASE("products on tiles run where the processor has them") {
  target::Target host = target::host_target();
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  if (!host.cpu.features.amx_bf16 || !host.cpu.features.amx_int8 ||
      syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0)
    SKIP("no AMX on this processor");
  for (const auto& [name, kernel] : products()) {
    INFO(name);
    if (std::any_of(kernel.buffers.begin(), kernel.buffers.end(),
                    [](const ir::Buffer* b) { return b->role == ir::BufferRole::kWeight; }))
      continue;
    for (const schedule::Trace& trace : tile_traces(kernel, host)) {
      INFO(schedule::print_trace(trace));
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, kernel, arena);
      REQUIRE(k.has_value());
      ir::Legal<ir::Kernel> lowered = lower::lower(*k, host, ir::Stage::kLowered, arena);
      REQUIRE(lowered.has_value());
      check_machine_code(*lowered, kernel);
    }
  }
}
