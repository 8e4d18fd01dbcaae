// What is computed from the fragments of matrix instructions stays in the lanes' registers, and sums of a thread's tile
// in its own.
#include <catch2/catch.hpp>

#include "lower/gpu/fragments.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "traces/reference.h"

using namespace tcc;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

ir::Kernel parsed(const std::string& text) {
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message << text);
  return *k;
}

ir::Legal<ir::Kernel> lowered(const ir::Kernel& nest) {
  return lower::lower(nest, *target::find_target("a100"), ir::Stage::kLowered, std::make_shared<Arena>());
}

// Two warps: C = (A B - m) B2 with m the largest element, or the sum, of each row of A B.
ir::Kernel chained(const std::string& note, const std::string& combined, const std::string& first) {
  return parsed(fmt::format(R"(kernel nest {{
  input A: f16[32, 16]
  input B: f16[24, 16]
  input B2: f16[16, 8]
  output C: f32[32, 8]
  temp a: f16[16, 16] local
  temp b: f16[8, 16] local
  temp s: f32[16, 16] local
  temp m: f32[16] local
  temp p: f16[16, 16] local
  temp b2: f16[16, 8] local
  temp acc: f32[16, 8] local
  for g in 1 bound(grid.x) {{
    for w in 2 bound(thread.y) {{
      alloc a, b, s, m, p, b2, acc {{
        for ai in 16 {{
          for ak in 16 {{
            a[ai, ak] = A[w*16 + ai, ak]
          }}
        }}
        for si in 16 {{
          for sj in 16 {{
            s[si, sj] = 0.0
          }}
        }}
        for n in 2 {{
          for bj in 8 {{
            for bk in 16 {{
              b[bj, bk] = B[n*8 + bj, bk]
            }}
          }}
          instr mma.m16n8k16.f32.f16.bt(s[0, n*8], a[0, 0], b[0, 0])
        }}
        for mi in 16 {{
          m[mi] = {2}
        }}
        for ri in 16 {{
          for rj in 16{0} {{
            m[ri] = {1}
          }}
        }}
        for pi in 16 {{
          for pj in 16 {{
            p[pi, pj] = f16((s[pi, pj] - m[pi]) * 0.0625)
          }}
        }}
        for ci in 16 {{
          for cj in 8 {{
            acc[ci, cj] = 0.0
          }}
        }}
        for vk in 16 {{
          for vj in 8 {{
            b2[vk, vj] = B2[vk, vj]
          }}
        }}
        instr mma.m16n8k16.f32.f16(acc[0, 0], p[0, 0], b2[0, 0])
        for oi in 16 {{
          for oj in 8 {{
            C[w*16 + oi, oj] = acc[oi, oj] + m[oi]
          }}
        }}
      }}
    }}
  }}
}}
)",
                            note, combined, first));
}

// Sums of products, `rows` x `columns` a thread, in shared memory.
std::string tiled_sums(int64_t rows, int64_t columns) {
  return fmt::format(R"(kernel nest {{
  input A: f32[{0}, 12]
  input B: f32[12, {1}]
  output C: f32[{0}, {1}]
  temp c: f32[{0}, {1}] shared
  for g in 1 bound(grid.x) {{
    alloc c {{
      for x in 32 bound(thread.x) {{
        for i in {2} unrolled {{
          for j in {3} unrolled {{
            c[x // 8 * {2} + i, x % 8 * {3} + j] = 0.0
          }}
        }}
      }}
      for y in 32 bound(thread.x) {{
        for k in 12 {{
          for i2 in {2} unrolled {{
            for j2 in {3} unrolled {{
              c[y // 8 * {2} + i2, y % 8 * {3} + j2] = c[y // 8 * {2} + i2, y % 8 * {3} + j2] + A[y // 8 * {2} + i2, k] * B[k, y % 8 * {3} + j2]
            }}
          }}
        }}
      }}
      for z in 32 bound(thread.x) {{
        for i3 in {2} {{
          for j3 in {3} {{
            C[z // 8 * {2} + i3, z % 8 * {3} + j3] = c[z // 8 * {2} + i3, z % 8 * {3} + j3]
          }}
        }}
      }}
    }}
  }}
}}
)",
                     4 * rows, 8 * columns, rows, columns);
}

}  // namespace

TEST_CASE("rows of a fragment are combined by the lanes that share them, and sums become an operand") {
  for (const auto& [combined, first] :
       {std::pair{"max(m[ri], s[ri, rj])", "-inf"}, std::pair{"m[ri] + s[ri, rj]", "0.0"},
        std::pair{"max(s[ri, rj] * 0.5, m[ri])", "3.0"}}) {
    const ir::Kernel nest = chained(" @tree_reduce(1)", combined, first);
    auto code = lowered(nest);
    if (!code) FAIL(code.error().text);
    const testing::Reference reference(nest, 1e-3);
    for (uint64_t seed : {1, 2, 3}) reference.check(*code, combined, seed);
    const std::string text = ir::print(*code);
    INFO(text);
    CHECK(has(text, "temp m: f32[2] local"));
    CHECK(has(text, "temp p: f16[8] local"));
    // Neighboring lanes hold the quarters of a row.
    CHECK(has(text, "; 3, 1, 32)"));
    CHECK(has(text, "; 3, 2, 32)"));
    CHECK_FALSE(has(text, "; 3, 4, 32)"));
    CHECK_FALSE(has(text, "bar.sync"));
  }
}

TEST_CASE("rows of a fragment are combined in another order only where the schedule allows it") {
  auto code = lowered(chained("", "m[ri] + s[ri, rj]", "0.0"));
  REQUIRE_FALSE(code.has_value());
  CHECK(has(code.error().text, "annotation (tree_reduce)"));
  code = lowered(chained(" @tree_reduce(1)", "m[ri] - s[ri, rj]", "0.0"));
  REQUIRE_FALSE(code.has_value());
  CHECK(has(code.error().text, "unknown way"));
}

TEST_CASE("which fragments lanes can exchange nothing for follows from the layouts") {
  Arena arena;
  const auto operand = [&](const char* row, size_t i, int along = -1) {
    return lower::make_fragment(arena, {&ir::instruction(ir::find_instruction(row)).operands[i], 32, along});
  };
  const lower::Fragment sums = operand("mma.m16n8k16.f32.f16", 0), half = operand("mma.m16n8k16.f32.f16", 1),
                        second = operand("mma.m16n8k16.f32.f16", 2), single = operand("mma.m16n8k8.f32.tf32", 1),
                        rows = operand("mma.m16n8k16.f32.f16", 0, 0), columns = operand("mma.m16n8k16.f32.f16", 0, 1);
  CHECK(lower::same_lanes(half, sums));
  CHECK(lower::same_lanes(sums, half));
  CHECK_FALSE(lower::same_lanes(second, sums));
  CHECK_FALSE(lower::same_lanes(single, sums));
  CHECK(lower::same_lanes(sums, rows));
  CHECK(lower::same_lanes(half, rows));
  CHECK(lower::same_lanes(sums, columns));
  CHECK_FALSE(lower::same_lanes(rows, sums));
  CHECK_FALSE(lower::same_lanes(rows, columns));
  CHECK(rows.registers == 2);
  CHECK(columns.registers == 2);
  CHECK(lower::lane_distances(sums, 1) == std::vector<int64_t>{1, 2});
  CHECK(lower::lane_distances(sums, 0) == std::vector<int64_t>{4, 8, 16});
}

TEST_CASE("sums of a tile of shared memory are in registers while its loop runs") {
  for (const auto& [rows, columns] : {std::pair{1, 1}, std::pair{2, 3}, std::pair{4, 4}, std::pair{16, 16}}) {
    const ir::Kernel nest = parsed(tiled_sums(rows, columns));
    auto code = lowered(nest);
    if (!code) FAIL(code.error().text);
    const testing::Reference reference(nest);
    for (uint64_t seed : {1, 2, 3}) reference.check(*code, "tile", seed);
    const std::string text = ir::print(*code);
    INFO(text);
    // A tile that no thread has registers for stays where it is.
    CHECK(has(text, "c_1[") == (rows < 16));
  }
}
