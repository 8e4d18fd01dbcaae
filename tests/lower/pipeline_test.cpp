// Pipelines of copies into shared memory: what the code becomes, and that it means the same.
#include <catch2/catch.hpp>

#include "tcc/analysis/shared_traffic.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "traces/reference.h"

using namespace tcc;

namespace {

target::Target named(const char* name) {
  auto t = target::find_target(name);
  REQUIRE(t.has_value());
  return *t;
}

// Sums of `steps` rows of 128, `columns` of which exist, copied `vector` elements at a time; `value`: of the element
// `e`.
ir::Kernel sums(int64_t steps, int64_t depth, int64_t vector, int64_t columns = 128, const std::string& value = "{e}",
                const std::string& notes = "", const std::string& more = "") {
  std::string load = columns == 128 ? "A[k, c]" : fmt::format("(A[k, c] where c < {} else 0.0)", columns);
  std::string element = value;
  element.replace(element.find("{e}"), 3, load);
  const std::string text = fmt::format(R"(kernel nest {{
  input A: f32[{0}, {1}]
  output B: f32[128]
  temp t: f32[128] shared
  temp s: f32[1] local
  for g in 2 bound(grid.x) {{
    for x in 64 bound(thread.x) {{
      alloc s {{
        s[0] = 0.0
        for k in {0} @pipeline_depth({2}){3} {{
          alloc t {{
            for c in 128 @cooperative_fetch({4}) {{
              t[c] = {5}
            }}
            s[0] = s[0] + t[g*64 + x]
            {6}
          }}
        }}
        B[g*64 + x] = s[0]
      }}
    }}
  }}
}}
)",
                                       steps, columns, depth, notes, vector, element, more);
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message << text);
  return *k;
}

std::string lowered_text(const ir::Kernel& nest, const char* target) {
  auto lowered = lower::lower(nest, named(target), ir::Stage::kLowered, std::make_shared<Arena>());
  if (!lowered) FAIL(lowered.error().text << ir::print(nest));
  const testing::Reference reference(nest);
  for (uint64_t seed : {1, 2, 3}) reference.check(*lowered, target, seed);
  return ir::print(*lowered);
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("copies run ahead of the work by the depth of the pipeline") {
  const std::string text = lowered_text(sums(9, 3, 4), "a100");
  CHECK(has(text, "temp t: f32[3, 128] shared"));
  CHECK(has(text, "instr cp.async.16.f32(t["));
  CHECK(has(text, "instr cp.async.wait(; 1)"));
  CHECK(has(text, "t[(k + 2) % 3"));
  CHECK(has(text, "t[k % 3"));
  CHECK(has(text, "if k < 7 {"));
  // One barrier an iteration, none around the loop.
  size_t barriers = 0;
  for (size_t at = text.find("bar.sync"); at != std::string::npos; at = text.find("bar.sync", at + 1)) ++barriers;
  CHECK(barriers == 1);
}

TEST_CASE("a pipeline is not deeper than its loop is long") {
  CHECK(has(lowered_text(sums(2, 4, 4), "a100"), "temp t: f32[2, 128] shared"));
  CHECK_FALSE(has(lowered_text(sums(5, 1, 4), "a100"), "cp.async"));
}

TEST_CASE("without asynchronous copies values wait in registers") {
  for (const auto& [kernel, target] : {std::pair{sums(7, 2, 2), "t4"}, std::pair{sums(7, 3, 4), "t4"},
                                       std::pair{sums(7, 3, 4, 128, "{e} * 2.0"), "a100"},
                                       std::pair{sums(7, 3, 4, 128, "{e}", " @pipeline_async(0)"), "a100"}}) {
    const std::string text = lowered_text(kernel, target);
    CHECK_FALSE(has(text, "cp.async"));
    CHECK(has(text, "temp t_1: f32["));  // of a thread
    CHECK(has(text, "shared"));
  }
}

TEST_CASE("the copy fills positions beyond a tensor with zeros") {
  // The width does not divide 118: the last piece is partly there.
  const std::string part = lowered_text(sums(6, 2, 4, 120), "a100");
  CHECK(has(part, "cp.async.16.f32"));
  const std::string odd = lowered_text(sums(6, 3, 1, 117), "a100");
  CHECK(has(odd, "cp.async.4.f32"));
  // Rows of 118 elements do not begin at multiples of 16 bytes: eight bytes at a time, the last piece half there.
  CHECK(has(lowered_text(sums(6, 3, 2, 118), "a100"), "cp.async.8.f32"));
  CHECK_FALSE(has(lowered_text(sums(6, 3, 4, 118), "a100"), "cp.async.16"));
}

TEST_CASE("a copy behind work that it has nothing to do with runs ahead, too") {
  auto nest = ir::parse(R"(kernel nest {
  input A: f32[9, 64]
  input B: f32[9, 64]
  output C: f32[128]
  temp t: f32[64] shared
  temp u: f32[64] shared
  temp s: f32[1] local
  for g in 2 bound(grid.x) {
    for x in 64 bound(thread.x) {
      alloc s {
        s[0] = 0.0
        for k in 9 @pipeline_depth(3) {
          alloc t, u {
            for c in 64 @cooperative_fetch(4) {
              t[c] = A[k, c]
            }
            s[0] = s[0] + t[63 - x]
            for d in 64 @cooperative_fetch(4) {
              u[d] = B[k, d]
            }
            s[0] = s[0] * 0.5 + u[63 - x]
          }
        }
        C[g*64 + x] = s[0]
      }
    }
  }
}
)");
  if (!nest) FAIL(nest.error().message);
  const std::string text = lowered_text(*nest, "a100");
  CHECK(has(text, "temp t: f32[3, 64] shared"));
  CHECK(has(text, "temp u: f32[3, 64] shared"));
  CHECK(has(lowered_text(*nest, "t4"), "temp u: f32[3, 64] shared"));
}

TEST_CASE("a loop whose work writes the copied buffer is not pipelined") {
  const ir::Kernel nest = sums(6, 2, 4, 128, "{e}", "", "t[g*64 + x] = 0.0");
  auto lowered = lower::lower(nest, named("a100"), ir::Stage::kLowered, std::make_shared<Arena>());
  REQUIRE_FALSE(lowered.has_value());
  CHECK(has(lowered.error().text, "'k' shares the buffers of its pipeline"));
}

TEST_CASE("the limit on shared memory counts the stages") {
  const auto fits = [](int64_t depth) {
    const ir::Kernel nest = sums(64, depth, 4);
    target::Target small = named("a100");
    small.cuda.shared_per_block = small.cuda.shared_per_block_optin = 4 * 512;
    return lower::check_limits(nest, small).has_value();
  };
  CHECK(fits(4));
  CHECK_FALSE(fits(5));
}

TEST_CASE("tiles that matrix instructions read get a layout without bank conflicts") {
  for (int64_t row : {16, 32, 48, 64, 128}) {
    const std::string text = fmt::format(R"(kernel nest {{
  input A: f16[32, {0}]
  input B: f16[8, {0}]
  output C: f32[32, 8]
  temp acc: f32[16, 8] local
  temp As: f16[32, {0}] shared
  temp Bs: f16[8, {0}] shared
  temp a: f16[16, 16] local
  temp b: f16[8, 16] local
  for g in 1 bound(grid.x) {{
    for w in 2 bound(thread.y) {{
      alloc acc {{
        for i in 16 {{
          for j in 8 {{
            acc[i, j] = 0.0
          }}
        }}
        alloc As, Bs {{
          for c in {1} @cooperative_fetch(8) {{
            As[c // {0}, c % {0}] = A[c // {0}, c % {0}]
          }}
          for d in {2} @cooperative_fetch(8) {{
            Bs[d // {0}, d % {0}] = B[d // {0}, d % {0}]
          }}
          for k in {3} {{
            alloc a, b {{
              for ai in 16 {{
                for ak in 16 {{
                  a[ai, ak] = As[w*16 + ai, k*16 + ak]
                }}
              }}
              for bj in 8 {{
                for bk in 16 {{
                  b[bj, bk] = Bs[bj, k*16 + bk]
                }}
              }}
              instr mma.m16n8k16.f32.f16.bt(acc[0, 0], a[0, 0], b[0, 0])
            }}
          }}
        }}
        for ci in 16 {{
          for cj in 8 {{
            C[w*16 + ci, cj] = acc[ci, cj]
          }}
        }}
      }}
    }}
  }}
}}
)",
                                         row, 32 * row, 8 * row, row / 16);
    auto nest = ir::parse(text);
    if (!nest) FAIL(nest.error().message << text);
    auto lowered = lower::lower(*nest, named("a100"), ir::Stage::kLowered, std::make_shared<Arena>());
    if (!lowered) FAIL(lowered.error().text);
    const testing::Reference reference(*nest);
    reference.check(*lowered, "matrices", 5);
    const std::string code = ir::print(*lowered);
    CHECK(has(code, "ldmatrix.x4.f16(a["));
    CHECK(has(code, "ldmatrix.x2.f16(b["));
    INFO(code);
    CHECK(analysis::shared_traffic(*lowered).conflicts == 0);
  }
}
