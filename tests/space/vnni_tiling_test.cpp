// Matrix products by dot products of vectors: the same values as the naive kernel whatever the sizes, under the
// interpreter and, where the processor has the instructions, as machine code.
#include <catch2/catch.hpp>

#include "codegen/nest.h"
#include "int_product.h"
#include "machine_code.h"
#include "run_kernel.h"
#include "sample_tasks.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"

using namespace tcc;

namespace {

// What a processor with VNNI and BF16 but without AMX says of itself.
target::Target with_dots() {
  target::Target t = named_target("x86-64-v4");
  t.name = "with VNNI";
  t.cpu.features.avx512_bf16 = t.cpu.features.avx512_vnni = true;
  return t;
}

bool calls(const ir::Kernel& k, std::string_view instruction) {
  bool found = false;
  ir::visit(k.root, [&](ir::Stmt s) {
    if (const ir::InstrCall* call = ir::as<ir::InstrCall>(s)) found |= ir::instruction(call->instr).name == instruction;
    return !found;
  });
  return found;
}

// Lowered programs of the space that call the instruction; each equals the naive kernel.
std::vector<ir::Kernel> check_programs(const ir::Kernel& naive, const target::Target& target,
                                       std::string_view instruction) {
  const std::vector<double> want = run_kernel(naive);
  std::vector<ir::Kernel> out;
  for (const schedule::Trace& trace : space::generate_space(naive, target)) {
    auto arena = std::make_shared<Arena>();
    auto k = schedule::replay(trace, trace.decisions, naive, arena);
    REQUIRE(k);
    if (!calls(*k, instruction)) continue;
    auto lowered = lower::lower(*k, target, ir::Stage::kLowered, arena);
    INFO(schedule::print_trace(trace) << ir::print(*k));
    if (!lowered) FAIL(lowered.error().text);
    INFO(ir::print(*lowered));
    check_close(run_kernel(*lowered), want);
    out.push_back(*lowered);
  }
  return out;
}

}  // namespace

TEST_CASE("dot products of bf16 pairs compute what the naive kernel computes") {
  for (auto [m, n, k] : {std::array<int64_t, 3>{32, 48, 64}, {5, 6, 7}, {13, 70, 33}, {1, 40, 10}})
    for (bool constant : {true, false}) {
      const task::Task t = task::make_gemm(
          {.m = m, .n = n, .k = k, .relu = true, .constant_weights = constant, .dtype = graph::DType::kBF16});
      INFO(t.workload);
      const std::vector<ir::Kernel> programs = check_programs(t.kernel, with_dots(), "zmm.dpbf16ps");
      CHECK_FALSE(programs.empty());
      if (constant || !codegen::host().cpu.features.avx512_bf16) continue;
      for (const ir::Kernel& p : programs) check_machine_code(p, t.kernel);
    }
}

TEST_CASE("dot products of bytes compute what the naive kernel computes") {
  for (auto [m, n, k] : {std::array<int64_t, 3>{24, 32, 64}, {7, 35, 10}, {1, 17, 5}}) {
    const ir::Kernel naive = testing::int_product("u8", m, n, k);
    CHECK_FALSE(check_programs(naive, with_dots(), "zmm.vpdpbusd").empty());
  }
}

TEST_CASE("machine code of dot products of bytes, with the vectors and instructions of several processors") {
  target::Target all = codegen::host();
  all.cpu.features.amx_int8 = false;  // products on tiles have tests of their own
  target::Target without = all;
  without.cpu.features.avx512_vnni = without.cpu.features.avx_vnni = false;
  for (int64_t bits : {512, 256, 128})
    for (target::Target target : {all, without}) {
      if (bits > codegen::host().cpu.vector_bits) continue;
      target.cpu.vector_bits = bits;
      for (auto [m, n, k] : {std::array<int64_t, 3>{24, 32, 64}, {7, 35, 10}, {1, 17, 5}}) {
        const ir::Kernel naive = testing::int_product("u8", m, n, k, false);
        int64_t programs = 0;
        for (const schedule::Trace& trace : space::generate_space(naive, target)) {
          auto arena = std::make_shared<Arena>();
          auto nest = schedule::replay(trace, trace.decisions, naive, arena);
          REQUIRE(nest);
          auto lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
          if (!lowered || schedule::print_trace(trace).find("tensorize") == std::string::npos) continue;
          INFO(schedule::print_trace(trace) << bits);
          check_machine_code(*lowered, naive);
          ++programs;
        }
        CHECK(programs > 0);
      }
    }
}

TEST_CASE("without the instructions no program calls them") {
  const task::Task t = task::make_gemm({.m = 32, .n = 32, .k = 32, .dtype = graph::DType::kBF16});
  CHECK(check_programs(t.kernel, named_target("x86-64-v4"), "zmm.dpbf16ps").empty());
}
