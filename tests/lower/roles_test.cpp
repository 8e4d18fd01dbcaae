// Producers and consumers: the code, its meaning beside the sequential one, and the refusals.
#include <catch2/catch.hpp>

#include "tcc/analysis/roles.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "traces/reference.h"

using namespace tcc;

namespace {

target::Target h200() {
  auto t = target::find_target("h200");
  REQUIRE(t.has_value());
  return *t;
}

struct Form {
  std::string groups = "w in 1";  // warpgroups
  int64_t depth = 3;
  std::string a = "A: f16[128, 200]", copy = "(A[g*64 + x, k*64 + y] where k*64 + y < 200 else 0.0f16)", more;
};

// Sums of products over 200 terms, 64 an iteration, each warpgroup the rows of its own.
std::string product(const Form& f) {
  return fmt::format(R"(kernel nest {{
  input {0}
  input B: f16[200, 64]
  output C: f32[128, 64]
  temp acc: f32[64, 64] local
  temp As: f16[64, 64] shared
  temp Bs: f16[64, 64] shared
  for g in 2 bound(grid.x) {{
    for {1} bound(warpgroup) {{
      alloc acc {{
        for i in 64 {{
          for j in 64 {{
            acc[i, j] = 0.0
          }}
        }}
        for k in 4 @pipeline_depth({2}) @pipeline_role(1) {{
          alloc As, Bs {{
            for x in 64 @cooperative_fetch(8) {{
              for y in 64 {{
                As[x, y] = {3}
              }}
            }}
            for u in 64 @cooperative_fetch(8) {{
              for v in 64 {{
                Bs[u, v] = (B[k*64 + u, v] where k*64 + u < 200 else 0.0f16)
              }}
            }}
            for kk in 4 unrolled {{
              instr wgmma.m64n64k16.f32.f16.trans_b(acc[0, 0], As[0, kk*16], Bs[kk*16, 0])
            }}
            {4}
          }}
        }}
        for p in 64 {{
          for q in 64 {{
            C[g*64 + p, q] = acc[p, q] * 2.0
          }}
        }}
      }}
    }}
  }}
}}
)",
                     f.a, f.groups, f.depth, f.copy, f.more);
}

ir::Kernel parsed(const std::string& text) {
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message << text);
  return *k;
}
ir::Legal<ir::Kernel> lowered(const ir::Kernel& nest) {
  return lower::lower(nest, h200(), ir::Stage::kLowered, std::make_shared<Arena>());
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
std::string refusal(const Form& f) {
  const ir::Kernel nest = parsed(product(f));
  // What cannot be lowered does not pass the limits either.
  const ir::Legal<void> limits = lower::check_limits(nest, h200());
  REQUIRE_FALSE(limits.has_value());
  CHECK_FALSE(lowered(nest).has_value());
  return limits.error().text;
}

}  // namespace

TEST_CASE("a producer fills a ring of tiles that consumers multiply") {
  const ir::Kernel nest = parsed(product({}));
  CHECK(lower::check_limits(nest, h200()).has_value());
  const auto k = lowered(nest);
  if (!k) FAIL(k.error().text);
  const testing::Reference reference(nest);
  for (uint64_t seed : {1, 2, 3}) reference.check(*k, "roles", seed);
  const std::string text = ir::print(*k);
  INFO(text);
  for (const char* part : {"f16[3, 64, 64] shared", "xor(6->3&7)", "barrier[3] shared",
                           "role warps 4 from 0 registers 40", "role warps 4 from 4 registers 216", "launch_bounds(2)",
                           "mbarrier.expect_tx", "; 16384)", "wgmma.wait(; 1)", "wgmma.wait(; 0)", "tma.load.f16(As["})
    CHECK(has(text, part));
  // The barrier behind the initialization is the only one of the whole block.
  CHECK(text.find("bar.sync(; 0, 256)") != std::string::npos);
  CHECK(text.find("bar.sync(; 0,") == text.rfind("bar.sync(; 0,"));
  CHECK_FALSE(has(text, "cooperative_fetch"));
}

TEST_CASE("a ring is not deeper than its loop is long") {
  const auto k = lowered(parsed(product({.depth = 6})));
  REQUIRE(k.has_value());
  CHECK(has(ir::print(*k), "f16[4, 64, 64] shared"));
}

TEST_CASE("copies that are not boxes of parameters are refused") {
  using Catch::Contains;
  CHECK_THAT(refusal({.a = "A: f16[200, 128]", .copy = "(A[k*64 + y, g*64 + x] where k*64 + y < 200 else 0.0f16)"}),
             Contains("must copy a box of a parameter"));
  CHECK_THAT(refusal({.copy = "(A[g*64 + x, k*64 + y] where k*64 + y < 199 else 0.0f16)"}),
             Contains("must copy a box of a parameter"));
  CHECK_THAT(refusal({.copy = "(A[g*64 + x, k*64 + y] where k*64 + y < 200 else 1.0f16)"}),
             Contains("must copy a box of a parameter"));
  CHECK_THAT(refusal({.a = "A: f16[128, 202]", .copy = "(A[g*64 + x, k*64 + y] where k*64 + y < 202 else 0.0f16)"}),
             Contains("its rows are not a multiple of 16 bytes"));
  CHECK_THAT(refusal({.groups = "w in 2", .copy = "(A[w*64 + x, k*64 + y] where k*64 + y < 200 else 0.0f16)"}),
             Contains("depends on the thread"));
  CHECK_THAT(refusal({.more = "C[g*64, 0] = 1.0"}), Contains("more than copies and products"));
}

TEST_CASE("registers move from the producer to the consumers") {
  for (int64_t consumers : {1, 2, 3}) {
    const analysis::RoleShape s = analysis::role_shape(consumers, 65536);
    INFO(consumers);
    CHECK(s.threads == 128 * (consumers + 1));
    CHECK(s.blocks * s.threads * s.launch_registers <= 65536);
    CHECK(s.producer_registers + consumers * s.consumer_registers <= (consumers + 1) * s.launch_registers);
    CHECK(s.producer_registers <= s.launch_registers);
    CHECK(s.consumer_registers >= s.launch_registers);
    for (int64_t n : {s.launch_registers, s.producer_registers, s.consumer_registers}) {
      CHECK(n % 8 == 0);
      CHECK(n >= 24);
      CHECK(n <= 256);
    }
  }
}
