// Bank conflicts and widths of accesses, counted on kernels whose patterns are known.
#include "tcc/analysis/shared_traffic.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tcc/ir/text.h"

using namespace tcc;

namespace {

// One warp: writes element `to` of a shared buffer, `vector` of them, and reads nothing.
analysis::SharedTraffic written(const std::string& shape, const std::string& to, int vector = 1) {
  const std::string text = fmt::format(
      "kernel lowered {{\n  input A: f32[4]\n  output B: f32[4]\n  temp s: f32[{}] shared align 16\n"
      "  for g in 1 bound(grid.x) {{ for l in 32 bound(lane) {{ alloc s {{\n"
      "    for v in {} vectorized {{ s[{}] = 1.0 }}\n    B[0] = A[0] where l < 1\n  }} }} }}\n}}\n",
      shape, vector, to);
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message << text);
  return analysis::shared_traffic(*k);
}

}  // namespace

TEST_CASE("lanes that meet at a bank wait for each other") {
  CHECK(written("32", "l + v").conflicts == 0);
  CHECK(written("32", "l + v").cycles == 1);
  CHECK(written("64", "l*2 + v").conflicts == 1);
  CHECK(written("32, 32", "l, v").cycles == 32);
  CHECK(written("32, 33", "l, v").conflicts == 0);
  // All lanes at one word share it.
  CHECK(written("32", "v").conflicts == 0);
  // 16 bytes a lane are four cycles, by eight lanes each.
  CHECK(written("32, 4", "l, v", 4).cycles == 4);
  CHECK(written("32, 4", "l, v", 4).conflicts == 0);
  CHECK(written("32, 8", "l, v", 4).conflicts == 4);
}

TEST_CASE("a product's reads in straight code are loaded once, neighbors at once") {
  // A thread of `columns` x 32/columns lanes multiplies 4 rows by 4 columns.
  const auto reads = [](int64_t columns, const char* step) {
    auto k = ir::parse(fmt::format(R"(kernel nest {{
  input A: f32[4]
  output C: f32[4]
  temp c: f32[4, 4] local
  temp As: f32[8, 128] shared
  temp Bs: f32[8, 128] shared
  for y in {1} bound(thread.y) {{
    for x in {0} bound(thread.x) {{
      alloc As, Bs {{
        alloc c {{
          for k in 8 {{
            for i in 4 {{
              for j in 4 {{
                c[i, j] = c[i, j] + As[k, y*4 + i{2}] * Bs[k, x*4 + j]
              }}
            }}
          }}
          C[0] = c[0, 0]
        }}
      }}
    }}
  }}
}}
)",
                                   columns, 32 / columns, step));
    if (!k) FAIL(k.error().message);
    return std::pair(analysis::shared_accesses(*k), *k);
  };
  const auto check = [&](int64_t columns, double of_a, double of_b) {
    const auto [accesses, k] = reads(columns, "");
    REQUIRE(accesses.size() == 2);
    for (const analysis::WarpAccess& a : accesses) {
      const ir::Buffer& b = *k.buffer(a.buffer);
      CHECK(a.bytes == 16);
      CHECK(a.times == 8);
      const analysis::BankTraffic t = analysis::bank_traffic(b, nullptr, a);
      CHECK(t.cycles == (ir::name_hint(k, b.id) == "As" ? of_a : of_b));
      CHECK(t.cycles >= t.least);
    }
  };
  // Half a warp wants 8 pieces of 16 bytes of B, or 16 of them; of A it wants one or two.
  check(8, 2, 2);
  check(16, 2, 4);
  // Vectors that begin anywhere are not loaded at once.
  const auto [accesses, k] = reads(8, " + 1");
  for (const analysis::WarpAccess& a : accesses)
    CHECK(a.bytes == (ir::name_hint(k, k.buffer(a.buffer)->id) == "As" ? 4 : 16));
}

TEST_CASE("the hand-written tensor core kernel is free of conflicts, and without its swizzle it is not") {
  std::ifstream file(TCC_SOURCE_DIR "/tests/ir/hard/gemm_mma_sync.tir");
  std::stringstream text;
  text << file.rdbuf();
  auto conflicts = [](const std::string& source, const char* buffer) {
    auto k = ir::parse(source);
    if (!k) FAIL(k.error().message);
    double lost = 0;
    for (const analysis::WarpAccess& a : analysis::shared_accesses(*k)) {
      const ir::Buffer& b = *k->buffer(a.buffer);
      if (ir::name_hint(*k, b.id) != buffer) continue;
      const analysis::BankTraffic t = analysis::bank_traffic(b, b.layout, a);
      lost += t.cycles - t.least;
    }
    return lost;
  };
  std::string source = text.str();
  CHECK(conflicts(source, "As") == 0);
  CHECK(conflicts(source, "Bs") == 0);
  for (size_t at = source.find(" xor(6->3&7)"); at != std::string::npos; at = source.find(" xor(6->3&7)"))
    source.erase(at, 12);
  // Eight rows of 128 bytes begin at one bank: each of four matrices takes eight cycles instead of one.
  CHECK(conflicts(source, "As") == 28);
}

TEST_CASE("the narrowest access to global memory") {
  auto width = [](const char* body) {
    auto k =
        ir::parse(fmt::format("kernel lowered {{\n  input A: f16[4096] align 16\n  output B: f16[4096] align 16\n"
                              "  for t in 32 bound(thread.x) {{ {} }}\n}}\n",
                              body));
    if (!k) FAIL(k.error().message);
    return analysis::narrowest_global_access(*k);
  };
  CHECK(width("for v in 8 vectorized { B[t*8 + v] = A[t*8 + v] }") == 16);
  CHECK(width("for v in 4 vectorized { B[t*8 + v] = A[t*8 + v] }") == 8);
  CHECK(width("for v in 8 vectorized { B[t*8 + v] = A[t] }") == 2);
  CHECK(width("B[t] = A[t]") == 2);
}
